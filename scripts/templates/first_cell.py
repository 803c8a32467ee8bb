# Works in a clone, after `pip install`, and on Colab. The torch that is there stays: pip stops rather than replace it.
# not compared: it describes this machine
import importlib.util
import os
import subprocess
import sys

import torch

REPOSITORY = ""
in_clone = any(os.path.exists(f"{place}/rltok/__init__.py") for place in ("..", "."))
if REPOSITORY and not in_clone:  # the notebook alone, as on Colab; a clone brings the stored results, too
    if not os.path.exists("rltok_clone"):
        subprocess.run(["git", "clone", "-q", "--depth", "1", REPOSITORY, "rltok_clone"])
    if os.path.exists("rltok_clone/notebooks"):
        os.chdir("rltok_clone/notebooks")
        if importlib.util.find_spec("rltok") is None:
            wanted = ["..[bpe]", f"torch=={torch.__version__}"]
            subprocess.run([sys.executable, "-m", "pip", "install", "-q", *wanted], check=True)
if importlib.util.find_spec("rltok") is None and os.path.exists("../rltok/__init__.py"):
    sys.path.insert(0, os.path.abspath(".."))  # a clone
if importlib.util.find_spec("rltok") is None:
    raise SystemExit("rltok is not installed. In a clone of its repository, run: pip install -e .")
if not (os.path.isdir("results") or os.path.isdir("notebooks/results")):
    print("No folder of stored results here, which some chapters read: open the notebook in a clone of the repository.")

if torch.cuda.is_available():
    card = torch.cuda.get_device_properties(0)
    precision = "bfloat16" if card.major >= 8 else "float32, as this card has no bfloat16"  # a T4 is 7.5
    print(f"{card.name}, {card.total_memory / 1e9:.0f} GB; trains in {precision}")
else:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    print(f"CPU with {os.cpu_count()} cores, {memory / 1e9:.0f} GB; trains in float32")
