"""Writes v0_2.h: policies, checkpoints and a model as version 0.2 of ppo.h wrote them, and what it computed next.

    git worktree add ../ppo-0.2 4b75a2e
    pip install numpy==2.4.6
    python make_v0_2.py ../ppo-0.2
"""
import os
import subprocess
import sys
import tempfile

from golden import Header

FILES = ["discrete.policy", "discrete.checkpoint", "box.policy", "box.checkpoint", "reinforce.policy", "lm.model",
         "lm.checkpoint"]


def main(checkout):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "v0_2.c")
    h = Header("make_v0_2.py", "Version 0.2.0 of ppo.h, plain kernels. Each array is a file, byte by byte.", ["numpy"])
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "v0_2")
        subprocess.run(["cc", "-O1", "-I" + checkout, source, "-o", program, "-lm", "-pthread"], check=True)
        figures = subprocess.run([program], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
        for name in FILES:
            with open(os.path.join(folder, name), "rb") as file:
                h.case(name)
                h.array("unsigned char", name.replace(".", "_"), list(file.read()))
    h.case("what the plain kernels computed from them: see v0_2.c")
    for line in figures.splitlines():
        name, x = line.split()
        if not name.startswith("reinforce_") or name.endswith("action"):
            h.value("float", name, float(x))
    h.save("v0_2.h")


main(os.path.abspath(sys.argv[1]))
