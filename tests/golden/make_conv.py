"""Writes conv.h: convolutions and max pooling with their gradients by PyTorch, and a game of MinAtar's Breakout.

    pip install numpy torch minatar
    python make_conv.py

Everything is computed in float64 from numbers that are float32. Pictures are written pixel by pixel (NHWC), kernels as
(kernel, kernel, channels, out): the order of ppo.h.
"""
import importlib.util

import numpy as np
import torch

from golden import Header, r32

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
F = torch.nn.functional


def last(x):
    return x.detach().permute(0, 2, 3, 1)


def leaf(rng, *shape):
    return torch.tensor(r32(rng.normal(size=shape)), requires_grad=True)


def conv(h, number, n, channels, height, width, out, kernel, stride, activation):
    rng = np.random.default_rng(number)
    x, w, b = leaf(rng, n, channels, height, width), leaf(rng, out, channels, kernel, kernel), leaf(rng, out)
    y = activation(F.conv2d(x, w, b, stride))
    dy = torch.tensor(r32(rng.normal(size=y.shape)))
    dx, dw, db = torch.autograd.grad((y * dy).sum(), (x, w, b))
    name = "conv%d" % number
    h.case("%d pictures of %d x %d x %d, %d kernels of %d, moved by %d, %s" %
           (n, channels, height, width, out, kernel, stride, activation.__name__))
    h.floats(name, planes=x, x=last(x), w=w.detach().permute(2, 3, 1, 0), b=b, y=last(y), dy=last(dy), dx=last(dx),
             dw=dw.permute(2, 3, 1, 0), db=db)


def pool(h, number, n, channels, height, width, kernel, stride):
    rng = np.random.default_rng(100 + number)
    x = leaf(rng, n, channels, height, width)
    y = F.max_pool2d(x, kernel, stride)
    dy = torch.tensor(r32(rng.normal(size=y.shape)))
    dx, = torch.autograd.grad((y * dy).sum(), x)
    h.case("the largest of %d x %d, moved by %d" % (kernel, kernel, stride))
    h.floats("pool%d" % number, x=last(x), y=last(y), dy=last(dy), dx=last(dx))


def breakout(h):
    """A player who mostly follows the ball, for long enough to see the wall built anew."""
    spec = importlib.util.find_spec("minatar")  # the module alone: the package asks for gymnasium and more
    file = spec.submodule_search_locations[0] + "/environments/breakout.py"
    spec = importlib.util.spec_from_file_location("breakout", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng, steps, env = np.random.default_rng(3), [], module.Env()
    env.random.seed(4)
    env.reset()
    start = int(env.ball_x == 9)
    while not steps or not steps[-1][2]:
        action = 1 + int(env.ball_x > env.pos) if env.ball_x != env.pos else 0
        if rng.random() < 0.004 or len(steps) > 500:
            action = int(rng.integers(3))
        reward, done = env.act([0, 1, 3][action])
        picture = env.state().astype(int)
        where = [int(np.flatnonzero(picture[:, :, k].ravel())[0]) for k in range(3)]
        steps.append([action, reward, int(done)] + where + [int(picture[:, :, 3].sum())])
    steps = np.array(steps)
    h.case("Breakout: action, reward, terminated, pixels of paddle, ball and trail, bricks left",
           breakout_steps=len(steps), breakout_right=start)
    h.array("unsigned char", "breakout", steps)


identity, relu, tanh = torch.nn.Identity(), torch.relu, torch.tanh
identity.__name__ = "identity"
header = Header("make_conv.py", "Cases are numbered.", ["torch", "numpy", "minatar"])
conv(header, 0, 2, 3, 5, 4, 2, 3, 1, identity)
conv(header, 1, 3, 1, 7, 6, 5, 2, 2, relu)
conv(header, 2, 2, 2, 4, 4, 3, 4, 1, tanh)
conv(header, 3, 1, 4, 9, 8, 17, 3, 2, torch.relu)
conv(header, 4, 2, 5, 3, 5, 4, 1, 3, F.silu)
pool(header, 0, 2, 3, 5, 7, 2, 2)
pool(header, 1, 2, 2, 5, 4, 3, 1)
breakout(header)
header.save("conv.h")
