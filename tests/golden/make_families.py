"""Writes families.h: two small models of each family of language models, with numbers of Hugging Face's transformers.

    python make_families.py > families.h    (needs torch, transformers, peft; made with transformers 5.24, peft 0.21)

Every weight is a multiple of 1/64, so that floats of two bytes hold it exactly. Logits, loss and gradients are
computed in float64; of each gradient the header has two sums, weighted by numbers that depend on the place. The same
for each model with LoRA by peft, on all of its layers or on some."""
import json
import sys
import tempfile

import peft
import torch
import transformers
from transformers import (GPT2Config, GPT2LMHeadModel, GPTNeoConfig, GPTNeoForCausalLM, GPTNeoXConfig,
                          GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Gemma3TextConfig,
                          Gemma3ForCausalLM, Olmo2Config, Olmo2ForCausalLM, SmolLM3Config, SmolLM3ForCausalLM,
                          Phi3Config, Phi3ForCausalLM, GraniteConfig, GraniteForCausalLM, OPTConfig, OPTForCausalLM)

transformers.logging.set_verbosity_error()
TO_FLOAT32 = torch.Tensor.float
VOCAB, LENGTHS, PROMPT, NEW = 17, (9, 14), 4, 32
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16, rope_theta=100.0)
BIG = dict(vocab_size=VOCAB, max_position_embeddings=40)

MODELS = [
    (GPT2LMHeadModel, GPT2Config(vocab_size=VOCAB, n_positions=40, n_embd=6, n_layer=2, n_head=3)),
    (GPT2LMHeadModel, GPT2Config(vocab_size=VOCAB, n_positions=40, n_embd=10, n_layer=1, n_head=2, n_inner=7,
                                 activation_function="gelu", layer_norm_epsilon=1e-3, tie_word_embeddings=False)),
    (GPTNeoForCausalLM, GPTNeoConfig(**BIG, hidden_size=6, num_layers=2, num_heads=2, window_size=5,
                                     attention_types=[[["global", "local"], 1]])),
    (GPTNeoForCausalLM, GPTNeoConfig(**BIG, hidden_size=9, num_layers=3, num_heads=3, window_size=3, intermediate_size=5,
                                     attention_types=[[["local"], 1], [["global"], 2]])),
    (GPTNeoXForCausalLM, GPTNeoXConfig(**BIG, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                       intermediate_size=11)),
    (GPTNeoXForCausalLM, GPTNeoXConfig(**BIG, hidden_size=10, num_hidden_layers=2, num_attention_heads=1,
                                       intermediate_size=9, use_parallel_residual=False, hidden_act="relu",
                                       rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=500.0,
                                                            partial_rotary_factor=0.6))),
    (LlamaForCausalLM, LlamaConfig(**BIG, hidden_size=12, num_hidden_layers=2, num_attention_heads=6,
                                   num_key_value_heads=2, intermediate_size=7, head_dim=4)),
    (LlamaForCausalLM, LlamaConfig(**BIG, hidden_size=8, num_hidden_layers=2, num_attention_heads=4,
                                   num_key_value_heads=1, intermediate_size=13, head_dim=6, attention_bias=True,
                                   mlp_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-3, rope_parameters=LLAMA3)),
    (MistralForCausalLM, MistralConfig(**BIG, hidden_size=12, num_hidden_layers=2, num_attention_heads=6,
                                       num_key_value_heads=3, intermediate_size=5, head_dim=2, sliding_window=4)),
    (MistralForCausalLM, MistralConfig(**BIG, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                                       num_key_value_heads=2, intermediate_size=9, sliding_window=None)),
    (Qwen2ForCausalLM, Qwen2Config(**BIG, hidden_size=12, num_hidden_layers=1, num_attention_heads=3,
                                   num_key_value_heads=1, intermediate_size=11)),
    (Qwen2ForCausalLM, Qwen2Config(**BIG, hidden_size=8, num_hidden_layers=3, num_attention_heads=4, sliding_window=6,
                                   num_key_value_heads=2, intermediate_size=5, use_sliding_window=True,
                                   max_window_layers=1, tie_word_embeddings=True)),
    (Qwen3ForCausalLM, Qwen3Config(**BIG, hidden_size=12, num_hidden_layers=1, num_attention_heads=4,
                                   num_key_value_heads=2, intermediate_size=9, head_dim=6)),
    (Qwen3ForCausalLM, Qwen3Config(**BIG, hidden_size=10, num_hidden_layers=2, num_attention_heads=3, head_dim=8,
                                   num_key_value_heads=3, intermediate_size=5, use_sliding_window=True,
                                   sliding_window=4, max_window_layers=1, attention_bias=True,
                                   tie_word_embeddings=True)),
    (Gemma3ForCausalLM, Gemma3TextConfig(**BIG, hidden_size=6, num_hidden_layers=2, num_attention_heads=2, head_dim=4,
                                         num_key_value_heads=1, intermediate_size=5, sliding_window=4,
                                         query_pre_attn_scalar=3, rms_norm_eps=0.05,
                                         layer_types=["sliding_attention", "full_attention"],
                                         rope_parameters=dict(
                                             sliding_attention=dict(rope_type="default", rope_theta=20.0),
                                             full_attention=dict(rope_type="linear", factor=2.0, rope_theta=300.0)))),
    (Olmo2ForCausalLM, Olmo2Config(**BIG, hidden_size=8, num_hidden_layers=1, num_attention_heads=4,
                                   num_key_value_heads=2, intermediate_size=5, pad_token_id=0)),
    (SmolLM3ForCausalLM, SmolLM3Config(**BIG, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                                       num_key_value_heads=1, intermediate_size=5, no_rope_layer_interval=2, pad_token_id=0,
                                       rope_parameters=dict(rope_type="default", rope_theta=50.0))),
    (Phi3ForCausalLM, Phi3Config(**BIG, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                                 num_key_value_heads=1, intermediate_size=5, sliding_window=5, pad_token_id=0,
                                 rope_parameters=dict(rope_type="default", rope_theta=70.0,
                                                      partial_rotary_factor=0.5))),
    (GraniteForCausalLM, GraniteConfig(**BIG, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                                       num_key_value_heads=1, intermediate_size=5, attention_multiplier=0.3,
                                       embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=1.5)),
    (OPTForCausalLM, OPTConfig(**BIG, hidden_size=6, num_hidden_layers=1, num_attention_heads=2, ffn_dim=7, dropout=0.0,
                               pad_token_id=0)),
]


SOME = {"gpt2": ["c_attn"], "gpt_neo": ["k_proj", "out_proj", "c_fc"], "gpt_neox": ["dense", "dense_4h_to_h"],
        "llama": ["q_proj", "v_proj"], "mistral": ["down_proj"], "qwen2": ["k_proj", "up_proj"],
        "qwen3": ["o_proj", "gate_proj"], "gemma3_text": ["q_proj"], "olmo2": ["v_proj", "down_proj"],
        "smollm3": ["k_proj"], "phi3": ["qkv_proj", "gate_up_proj"], "granite": ["o_proj"], "opt": ["out_proj", "fc1"]}


NO_EFFECT = "transformers_version", "initializer_range", "drop", "use_cache", "summary", "id2label", "label2id"


def sums_of(gradient):
    g = gradient.flatten()
    i = torch.arange(g.numel())
    return [(g * ((i * (7 + 4 * k)) % 13 - 6)).sum().item() for k in (0, 1)]


def loss_of(model, tokens):
    total = 0
    for begin, n in zip((0, LENGTHS[0]), LENGTHS):
        z = model(torch.tensor([tokens[begin:begin + n]])).logits[0]
        total = total + torch.nn.functional.cross_entropy(z[:-1], torch.tensor(tokens[begin + 1:begin + n]),
                                                          reduction="sum")
    return total / (sum(LENGTHS) - len(LENGTHS))


def with_lora(model, number, tokens):
    """Its config, arrays [(name, numbers, sums of the gradient)] and loss."""
    kind, generator = model.config.model_type, torch.Generator().manual_seed(number)
    with torch.random.fork_rng():
        lora = peft.get_peft_model(model, peft.LoraConfig(
            r=2, lora_alpha=3, target_modules=SOME[kind] if number % 2 else "all-linear", task_type="CAUSAL_LM",
            fan_in_fan_out=kind == "gpt2"))
    own = {name: p for name, p in lora.named_parameters() if "lora_" in name}
    with torch.no_grad():
        for p in own.values():
            p.copy_(torch.randint(-24, 25, p.shape, generator=generator) / 64.0)
    lora.double()
    loss = loss_of(lora, tokens)
    loss.backward()
    with tempfile.TemporaryDirectory() as folder:
        lora.save_pretrained(folder)
        text = json.load(open(folder + "/adapter_config.json"))
    text["target_modules"] = sorted(text["target_modules"])
    arrays = [(name.replace(".default", ""), p, sums_of(p.grad)) for name, p in sorted(own.items())]
    return json.dumps({k: v for k, v in text.items() if v is not None}, sort_keys=True), arrays, loss.item()


def texts(name, values):
    print(f"static const char *const {name}[] = {{")
    for c in values:
        print("\n".join("    " + json.dumps(c[k:k + 90]) for k in range(0, len(c), 90)) + ",")
    print("};")


def table(name, arrays):
    print("static const struct {\n    int         model;\n    const char *name;\n    int         rank, shape[2];\n}"
          f" {name}[] = {{")
    for model, array, shape in arrays:
        print(f'    {{{model}, "{array}", {len(shape)}, {{{shape[0]}, {shape[1] if len(shape) > 1 else 0}}}}},')
    print("};")


def numbers(name, kind, values, form):
    print(f"static const {kind} {name}[] = {{")
    line = "   "
    for v in values:
        text = " " + form % v + ","
        if len(line) + len(text) > 108:
            print(line)
            line = "   "
        line += text
    print(line + "};")


def main():
    print("/* Made by make_families.py with transformers " + transformers.__version__ + ". */")
    torch.manual_seed(7)
    tokens = torch.randint(1, VOCAB, (sum(LENGTHS),)).tolist()
    configs, arrays, weights, logits, losses, sums, greedy = [], [], [], [], [], [], []
    loras, lora_arrays, lora_weights, lora_losses, lora_sums = [], [], [], [], []
    for model_class, config in MODELS:
        config._attn_implementation = "eager"
        model = model_class(config)
        with torch.no_grad():
            for name, p in model.named_parameters():
                one = 64 if "weight" in name and ("norm" in name or "ln_" in name) else 0
                p.copy_((torch.randint(-24, 25, p.shape) + one) / 64.0)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            text = json.load(open(folder + "/config.json"))
        known = {k: v for k, v in text.items() if not any(w in k for w in NO_EFFECT)}
        configs.append(json.dumps(known, sort_keys=True))
        model = model.double().eval()
        # Gemma's norms are of small numbers here, whose roundings to float32 would show
        torch.Tensor.float = (lambda x: x) if model_class is Gemma3ForCausalLM else TO_FLOAT32
        for begin, n in zip((0, LENGTHS[0]), LENGTHS):
            logits += model(torch.tensor([tokens[begin:begin + n]])).logits[0].flatten().tolist()
        loss = loss_of(model, tokens)
        loss.backward()
        losses.append(loss.item())
        prompt = torch.tensor([tokens[:PROMPT]])
        model.generation_config = transformers.GenerationConfig(do_sample=False, pad_token_id=0)
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NEW)
        greedy += out[0, PROMPT:].tolist()
        own = dict(model.named_parameters())
        for name in sorted(own):
            p = own[name]
            saved = name.replace("lm_head", "embed_out") if model_class is GPTNeoXForCausalLM else name
            arrays.append((len(configs) - 1, saved, list(p.shape)))
            weights += (p * 64).round().long().flatten().tolist()
            sums += sums_of(p.grad)
        config_of_lora, its_arrays, its_loss = with_lora(model, len(configs) - 1, tokens)
        loras.append(config_of_lora)
        lora_losses.append(its_loss)
        for name, p, its_sums in its_arrays:
            lora_arrays.append((len(configs) - 1, name, list(p.shape)))
            lora_weights += (p * 64).round().long().flatten().tolist()
            lora_sums += its_sums
    print(f"enum {{ FAMILY_MODELS = {len(configs)}, FAMILY_VOCAB = {VOCAB}, FAMILY_PROMPT = {PROMPT}, FAMILY_NEW = {NEW} }};")
    texts("g_family_config", configs)
    table("g_family_array", arrays)
    numbers("g_family_start", "int", (0, LENGTHS[0], sum(LENGTHS)), "%d")
    numbers("g_family_token", "int", tokens, "%d")
    numbers("g_family_weight", "signed char", weights, "%d")
    numbers("g_family_logits", "float", logits, "%#.7gf")
    numbers("g_family_loss", "double", losses, "%.10g")
    numbers("g_family_gradient", "double", sums, "%.8g")
    numbers("g_family_greedy", "int", greedy, "%d")
    texts("g_lora_config", loras)
    table("g_lora_array", lora_arrays)
    numbers("g_lora_weight", "signed char", lora_weights, "%d")
    numbers("g_lora_loss", "double", lora_losses, "%.10g")
    numbers("g_lora_gradient", "double", lora_sums, "%.8g")


main()
