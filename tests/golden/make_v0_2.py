"""Writes v0_2.h and v0_1.h: policies, checkpoints and models as versions 0.2 and 0.1 of ppo.h wrote them, and what these
versions computed next. Version 0.1 is the last commit before ppo.h had a version number.

    git worktree add ../ppo-0.2 4b75a2e
    git worktree add ../ppo-0.1 7e5b4fb~1
    pip install numpy==2.4.6
    python make_v0_2.py ../ppo-0.2 ../ppo-0.1
"""
import os
import subprocess
import sys
import tempfile

from golden import Header

FILES = ["discrete.policy", "discrete.checkpoint", "box.policy", "box.checkpoint", "reinforce.policy", "lm.model",
         "lm.checkpoint", "tokenizer"]


def write(checkout, version, prefix):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "v0_2.c")
    h = Header("make_v0_2.py", "Version %s of ppo.h, plain kernels. Each array is a file, byte by byte." % version,
               ["numpy"])
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "v0_2")
        subprocess.run(["cc", "-O1", "-I" + checkout, source, "-o", program, "-lm", "-pthread"], check=True)
        figures = subprocess.run([program], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
        for name in FILES:
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                continue
            with open(path, "rb") as file:
                h.case(name)
                h.array("unsigned char", prefix + name.replace(".", "_"), list(file.read()))
    h.case("what the plain kernels computed from them: see v0_2.c")
    for line in figures.splitlines():
        name, x = line.split()
        if not name.startswith("reinforce_") or name.endswith("action"):
            h.value("float", prefix + name, float(x))
    h.save("v%s.h" % "_".join(version.split(".")[:2]))


write(os.path.abspath(sys.argv[1]), "0.2.0", "")
write(os.path.abspath(sys.argv[2]), "0.1", "v0_1_")
