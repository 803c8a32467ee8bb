# Works in a clone, after `pip install`, and on Colab. The torch that is there stays: pip stops rather than replace it.
# not compared: it describes this machine
import importlib.util
import os
import shutil
import subprocess
import sys

import torch

REPOSITORY = ""


def is_clone(place):
    return all(os.path.exists(f"{place}/{part}") for part in ("rltok/__init__.py", "notebooks"))


def is_missing():
    found = importlib.util.find_spec("rltok")
    return found is None or found.origin is None  # a folder of that name is no package


alone = bool(REPOSITORY) and not (is_clone("..") or is_clone("."))  # as on Colab; a clone brings the stored results, too
if alone and not os.path.exists("rltok_clone") and shutil.which("git"):
    subprocess.run(["git", "clone", "-q", "--depth", "1", REPOSITORY, "rltok_clone"])
if alone and is_clone("rltok_clone"):
    os.chdir("rltok_clone/notebooks")
    if is_missing():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "..[bpe]", f"torch=={torch.__version__}"])
if is_missing() and is_clone(".."):
    sys.path.insert(0, os.path.abspath(".."))
if is_missing():
    again = f" Or see that git and the network work, delete rltok_clone if it is here, and run this again; it clones {REPOSITORY}"
    raise SystemExit("rltok is not installed. In a clone of its repository, run: pip install -e ." + (again if alone else ""))
if not (os.path.isdir("results") or os.path.isdir("notebooks/results")):
    print("No folder of stored results here, which some chapters read: open the notebook in a clone of the repository.")

if torch.cuda.is_available():
    card = torch.cuda.get_device_properties(0)
    precision = "bfloat16" if card.major >= 8 else "float32, as this card has no bfloat16"  # a T4 is 7.5
    print(f"{card.name}, {card.total_memory / 1e9:.0f} GB; trains in {precision}")
else:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    print(f"CPU with {os.cpu_count()} cores, {memory / 1e9:.0f} GB; trains in float32")
