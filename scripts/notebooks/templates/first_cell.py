# not compared: it describes this machine
import os
import sys
from importlib import metadata, util

REPOSITORY = ""
sys.path.append(os.path.abspath(".."))  # a clone that was not installed
if getattr(util.find_spec("rltok"), "origin", None) is None:  # as on Colab: clone, and install beside the torch that is there
    clone = f"test -d rltok_clone || git clone -q --depth 1 '{REPOSITORY}' rltok_clone"
    install = f"'{sys.executable}' -m pip install -q './rltok_clone[bpe]' torch=={metadata.version('torch').split('+')[0]}"
    if os.system(clone) or os.system(install):
        raise SystemExit("rltok was not installed, see above. In a clone of its repository, run: pip install -e '.[bpe]'")
from rltok.show.notebook import begin  # a module is missing? In the clone, run: pip install -e '.[bpe]'

begin()
