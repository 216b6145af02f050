"""onnx_compare.py FOLDER - are the models that onnx.c wrote what ONNX allows, and do they answer as ppo_act() does?

Of each agent: onnx's checker, with its shape inference; then ONNX Runtime's answers to 10,000 observations against
those of ppo.h (a recurrent policy's: sequences of 50 steps, the state fed back). Numbers differ by at most 1e-5 of the
largest one, choices not at all. With ML-Agents' names the likeliest actions are the same, and sampled ones have the policy's
distribution. Reports in TAP.
"""
import os
import sys

import numpy
import onnx
import onnxruntime

TOLERANCE = 1e-5
folder = sys.argv[1]
count = failed = 0
worst_of_all = 0.0


def report(name, problems, note=""):
    global count, failed
    count += 1
    failed += bool(problems)
    print(f"{'not ok' if problems else 'ok'} {count} - {name}{note}")
    for problem in problems[:5]:
        print(f"# {problem}")


class Agent:
    """What onnx.c wrote of an agent: sizes, and the arrays."""

    def __init__(self, name):
        with open(f"{folder}/{name}.txt") as lines:
            sizes = {key: [int(x) for x in rest] for key, *rest in (line.split() for line in lines)}
        self.sizes, self.shape = sizes.pop("sizes"), sizes.pop("shape")
        for key, value in sizes.items():
            setattr(self, key, value[0])
        numbers = numpy.fromfile(f"{folder}/{name}.f32", "<f4")
        for key, columns in (("observation", self.obs), ("legal", self.outputs), ("policy", self.outputs),
                             ("log_std", self.outputs), ("values", 1), ("action", self.numbers),
                             ("before", self.width), ("after", self.width)):
            part, numbers = numpy.split(numbers, [self.rows * columns])
            setattr(self, key, part.reshape(self.rows, columns))
        assert not numbers.size


def difference(got, want):
    """The largest one, relative to the largest number."""
    scale = numpy.abs(want).max(initial=0)
    return numpy.abs(got - want).max(initial=0) / scale if scale > 0 else numpy.abs(got).max(initial=0)


def check_choices(agent, got, problems):
    """Equal, but where two options are as likely as rounding can tell."""
    logits = numpy.where(agent.legal > 0.5, agent.policy, -numpy.inf)
    heads = numpy.split(logits, numpy.cumsum(agent.sizes)[:-1], axis=1)
    wrong = got.reshape(agent.rows, -1) != agent.action
    for h, head in enumerate(heads):
        rows = numpy.flatnonzero(wrong[:, h])
        top = numpy.sort(head[rows], axis=1)
        ties = top[:, -1] - top[:, -min(2, head.shape[1])] < TOLERANCE * numpy.abs(agent.policy).max()
        if not ties.all():
            problems.append(f"choice {h}: {int((~ties).sum())} of {agent.rows} differ")


def run(session, agent, feed, outputs):
    """All rows; those of a recurrent policy step by step, where the states that come out go in."""
    if not agent.width:
        return session.run(outputs, feed)
    n, parts = agent.rows // agent.steps, []
    shape = next(i.shape for i in session.get_inputs() if i.name == "recurrent_in")
    state = numpy.zeros([n] + shape[1:], numpy.float32)
    for t in range(agent.steps):
        step = {key: value[t * n:(t + 1) * n] for key, value in feed.items()}
        parts.append(session.run(outputs + ["recurrent_out"], {**step, "recurrent_in": state}))
        state = parts[-1][-1]
    return [numpy.concatenate(part) for part in zip(*parts)]


def open_model(path, problems):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    declared = [output.type.tensor_type for output in model.graph.output]
    if [output.type.tensor_type for output in inferred.graph.output] != declared:
        problems.append("an output's shape is not the one that is declared")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def check_standard(name):
    """The default names: every output."""
    global worst_of_all
    agent, problems, worst = Agent(name), [], 0.0
    session = open_model(f"{folder}/{name}.onnx", problems)
    seen = agent.obs if agent.value else agent.seen
    feed = {"input": agent.observation[:, :seen]}
    if agent.mask:
        feed["action_masks"] = agent.legal > 0.5
    outputs = ["actions"] + ["values"] * agent.value + (["mean", "log_std"] if agent.box else ["logits"])
    names = [o.name for o in session.get_outputs()]
    if names != outputs + ["recurrent_out"] * (agent.width > 0):
        problems.append(f"the outputs are {names}")
    got = dict(zip(outputs + ["recurrent_out"], run(session, agent, feed, outputs)))
    want = {"values": agent.values, "logits": agent.policy, "mean": agent.policy, "log_std": agent.log_std,
            "recurrent_out": agent.after, "actions": agent.action}
    for key, numbers in got.items():
        if key == "logits" and agent.mask:
            if (numbers[agent.legal < 0.5] > -3e38).any():
                problems.append("an illegal option's logit is not -FLT_MAX")
            numbers = numpy.where(agent.legal > 0.5, numbers, agent.policy)
        if key == "actions" and not agent.box:
            if numbers.dtype != numpy.int64 or numbers.ndim != (1 if len(agent.sizes) == 1 else 2):
                problems.append(f"actions are {numbers.dtype} {numbers.shape}")
            check_choices(agent, numbers, problems)
            continue
        off = difference(numbers, want[key])
        worst = max(worst, off)
        if not off <= TOLERANCE or numbers.dtype != numpy.float32 or numbers.shape != want[key].shape:
            problems.append(f"{key}: {numbers.dtype} {numbers.shape}, off by {off:.2g}")
    worst_of_all = max(worst_of_all, worst)
    report(name, problems, f", off by at most {worst:.1e}")


def check_unity(name):
    """ML-Agents' names: shapes, constants, the likeliest actions, and the distribution of sampled ones."""
    agent, problems = Agent(name), []
    session = open_model(f"{folder}/{name}.unity.onnx", problems)
    seen = agent.obs if agent.value else agent.seen
    numbers = agent.observation[:, :seen]
    if agent.picture:
        feed = {"obs_0": numbers[:, :agent.picture].reshape([-1] + agent.shape)}
        if seen > agent.picture:
            feed["obs_1"] = numbers[:, agent.picture:]
    else:
        feed = {"obs_0": numbers}
    kind = "continuous" if agent.box else "discrete"
    if not agent.box:
        feed["action_masks"] = agent.legal
    inputs = {i.name: i.shape[1:] for i in session.get_inputs()}
    expected = {key: list(value.shape[1:]) for key, value in feed.items()}
    if agent.width:
        expected["recurrent_in"] = [1, agent.width]
    if inputs != expected:
        problems.append(f"the inputs are {inputs}, not {expected}")
    outputs = [f"deterministic_{kind}_actions", f"{kind}_actions"] + ["value_estimate"] * agent.value
    got = run(session, agent, feed, outputs)
    if agent.box:
        if not difference(got[0], agent.action) <= TOLERANCE:
            problems.append("the likeliest actions differ")
    else:
        check_choices(agent, got[0], problems)
    if got[0].shape != agent.action.shape or got[1].shape != agent.action.shape:
        problems.append(f"actions are {got[0].shape} and {got[1].shape}")
    if agent.value and not difference(got[2], agent.values) <= TOLERANCE:
        problems.append("value_estimate differs")
    feed = {key: numpy.repeat(value[:1], 20000, axis=0) for key, value in feed.items()}
    if agent.width:
        feed["recurrent_in"] = numpy.zeros((20000, 1, agent.width), numpy.float32)
    facts = ["version_number", "memory_size", f"{kind}_action_output_shape"]
    sampled, *facts = session.run([f"{kind}_actions"] + facts, feed)
    shape = [[agent.numbers]] if agent.box else [[agent.sizes]]
    for fact, want in zip(facts, [[3], [agent.width]] + shape):
        if fact.dtype != numpy.float32 or fact.tolist() != want:
            problems.append(f"{fact} is not {want}")
    five_sigma = 5 * 0.5 / 20000 ** 0.5
    if agent.box:
        low, high = sampled.min(0), sampled.max(0)
        below = (sampled <= got[0][0]).mean(0)
        inside = (got[0][0] > low) & (got[0][0] < high)
        if (abs(below - 0.5) > five_sigma)[inside].any():
            problems.append(f"shares of samples below the likeliest action: {below}")
    else:
        logits = numpy.where(agent.legal[0] > 0.5, agent.policy[0], -numpy.inf)
        for h, head in enumerate(numpy.split(logits, numpy.cumsum(agent.sizes)[:-1])):
            p = numpy.exp(head - head.max())
            share = numpy.bincount(sampled[:, h], minlength=len(p)) / 20000
            if abs(share - p / p.sum()).max() > five_sigma:
                problems.append(f"choice {h}: shares {share}, not {p / p.sum()}")
    report(f"{name}, ML-Agents' names", problems)


with open(f"{folder}/names") as names:
    names = names.read().split()
for name in names:
    for check in (check_standard, check_unity):
        try:
            check(name)
        except Exception as error:  # what one model raises must not hide the others
            report(f"{name}, {check.__name__}", [f"{type(error).__name__}: {str(error)[:300]}"])
print(f"1..{count}")
print(f"# onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}: {len(names)} agents, "
      f"off by at most {worst_of_all:.1e}")
sys.exit(failed > 0)
