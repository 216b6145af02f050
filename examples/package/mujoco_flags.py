"""mujoco_flags.py FOLDER python|system - prints the flags for a program with MuJoCo and Gymnasium's models, which are
packages of this Python or in FOLDER; system: libmujoco is the system's. Fails if something is missing."""
import glob
import importlib.util
import sys

sys.path.append(sys.argv[1])


def folder(package):
    found = importlib.util.find_spec(package)
    return list(found.submodule_search_locations)[0] if found else None


mujoco, gymnasium = folder("mujoco"), folder("gymnasium")
libraries = glob.glob(mujoco + "/libmujoco*") if mujoco else []
models = gymnasium + "/envs/mujoco/assets" if gymnasium else None
if not models or not libraries and sys.argv[2] != "system":
    sys.exit(1)
if libraries:
    print('-isystem "%s/include" "%s" -Wl,-rpath,"%s"' % (mujoco, libraries[0], mujoco))
else:
    print("-lmujoco")
print('"-DMUJOCO_MODELS=\\"%s\\""' % models)
