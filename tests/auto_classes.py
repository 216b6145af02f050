"""auto_classes.py WORK KIND FOLDER [ADAPTER] ... - for each folder of auto_classes.sh: Python's Auto classes give the tokens
and numbers of ppo.h, which WORK/auto_classes prints. KIND: lm, score, lora, lora-score."""
import json, subprocess, sys, warnings

warnings.filterwarnings("ignore")
import torch, transformers
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

transformers.logging.set_verbosity_error()
TEXTS = ["The cat sat.", "cafe\u0301 caf\u00e9 45 the cat", " two  spaces 123", "it's <|endoftext|>the dog", "a<|im_end|>"]


def ours(work, folders):
    out = subprocess.run([work + "/auto_classes", *folders], input="\n".join(TEXTS) + "\n", capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return [json.loads(line) for line in out.stdout.splitlines()]


def check(work, kind, folder, adapter):
    last = adapter or folder
    want = ours(work, [folder] + ([adapter] if adapter else []))
    tok = AutoTokenizer.from_pretrained(last)
    same = Tokenizer.from_file(last + "/tokenizer.json")
    for text, w in zip(TEXTS, want):
        assert tok(text).input_ids == w["ids"] == same.encode(text).ids, (text, tok(text).input_ids, w["ids"])
        assert tok.decode(w["ids"]) == same.decode(w["ids"], skip_special_tokens=False)
    assert tok.eos_token is not None, "no eos_token"
    if kind.startswith("lora"):
        from peft import AutoPeftModelForCausalLM, AutoPeftModelForSequenceClassification

        score = kind == "lora-score"
        # the label count is that of the task, which peft's files do not hold
        model = AutoPeftModelForSequenceClassification.from_pretrained(last, num_labels=1) if score else AutoPeftModelForCausalLM.from_pretrained(last)
    else:
        model = (AutoModelForSequenceClassification if kind == "score" else AutoModelForCausalLM).from_pretrained(last)
    model = model.eval().float()
    with torch.no_grad():
        for w in want:
            is_ = model(torch.tensor([w["ids"]])).logits[0]
            is_ = is_ if "score" in kind else is_[-1]
            assert torch.allclose(is_, torch.tensor(w["out"], dtype=torch.float32), atol=1e-4, rtol=1e-4), (is_[:4], w["out"][:4])
        if kind == "score":  # a batch, whose shorter texts are filled up
            assert tok.pad_token_id == model.config.pad_token_id and tok.pad_token != tok.eos_token
            is_ = model(**tok(TEXTS, padding=True, return_tensors="pt")).logits[:, 0]
            wanted = torch.tensor([float(w["out"][0]) for w in want])
            assert torch.allclose(is_, wanted, atol=1e-4), (is_, wanted)
    if "/chat_" in folder:  # what was learned is what the template writes
        said = [("system", "the dog"), ("user", " the cat "), ("assistant", "ran."), ("user", "sat")]
        said = [{"role": role, "content": content} for role, content in said]
        out = subprocess.run([work + "/auto_classes", "chat", folder, folder[-1]], capture_output=True, text=True)
        is_ = tok.apply_chat_template(said, add_generation_prompt=True, return_dict=False)
        assert out.returncode == 0 and is_ == [int(x) for x in out.stdout.split()], (is_, out.stdout)
    if kind == "lm":
        assert model.config.eos_token_id == tok.eos_token_id, (model.config.eos_token_id, tok.eos_token_id)


work, jobs = sys.argv[1], [job.split(",") for job in sys.argv[2:]]
print("transformers", transformers.__version__)
for job in jobs:
    try:
        check(work, job[0], job[1], job[2] if len(job) > 2 else None)
        print("ok", *job)
    except BaseException as error:
        print("not ok", *job, repr(error)[:300].replace("\n", " "))
