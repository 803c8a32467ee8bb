# Works in a clone, after `pip install`, and on Colab, where it clones the repository and keeps the torch that is there.
# not compared: it describes this machine
import os
import sys
from importlib.metadata import version

REPOSITORY = ""
sys.path.append(os.path.abspath(".."))  # a clone that was not installed
try:
    from rltok.show.notebook import begin
except ModuleNotFoundError as missing:
    if not REPOSITORY or missing.name.split(".")[0] != "rltok":
        raise SystemExit(f"{missing}. In a clone of rltok's repository, run: pip install -e '.[bpe]'") from None
    clone = f"test -d rltok_clone || git clone -q --depth 1 '{REPOSITORY}' rltok_clone"
    install = f"'{sys.executable}' -m pip install -q './rltok_clone[bpe]' torch=={version('torch').split('+')[0]}"
    if os.system(clone) or os.system(install):
        raise SystemExit("rltok was not installed, see above. Delete rltok_clone if it is here and run this again.") from None
    sys.modules.pop("rltok", None)  # a folder of that name, which is no package
    from rltok.show.notebook import begin
begin()
