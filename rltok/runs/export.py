"""A run's model as one file that can be passed on."""

import os
import re
from pathlib import Path

from rltok.errors import RltokError
from rltok.runs.loading import load, load_config, locate, trained_on
from rltok.runs.weights import weights_bytes
from rltok.system.files import check_name, check_writable, write_bytes


def export(run: str | Path, file: str | Path, *, bf16: bool = False) -> Path:
    """Write a model into one safetensors file, its settings inside, which `load` takes; returns the file's path.

    Args:
        run: what `load` takes.
        file: a new file whose name ends in .safetensors.
        bf16: round the weights to bf16, half the size.

    Raises:
        RltokError: no such model, or no file of that name can be made.
    """
    check_name(file, "file", "FILE")
    path = Path(file)
    if path.suffix != ".safetensors":
        name = re.sub(r"\.safetensors$", "", path.name, flags=re.IGNORECASE) or "model"
        raise RltokError(f"{path} must be a NAME.safetensors, by which others know what it is. Name it {name}.safetensors.")
    if os.path.lexists(path):
        raise RltokError(f"{path} exists already. Name a new file.")
    if not os.path.isdir(path.parent):
        raise RltokError(f"there is no folder {path.parent}. Make it first.")
    check_writable(path.parent, f"FILE {path}")
    place = locate(run)  # once: a name of the hub is looked up over the network
    content = weights_bytes(load(place).state_dict(), load_config(place), trained_on(place), bf16)
    try:
        write_bytes(path, content)
    except OSError as error:
        raise RltokError(
            f"cannot write {path} ({error.strerror}). Make room for {len(content)} bytes, or name another file."
        ) from error
    return path
