"""From a run's folder or a checkpoint back to a model."""

import json
from pathlib import Path

from rltok.config import Config, from_dict
from rltok.fast.unet import FastUNet
from rltok.runs.checkpoint import find_checkpoint, load_weights, read_state
from rltok.system.files import MISSING, read_file
from rltok.unet import AutoregressiveUNet


def load_config(path: str | Path) -> Config:
    """The configuration stored in a run's newest checkpoint, or in the checkpoint given."""
    return from_dict(read_state(find_checkpoint(path))["config"])


def text_name(path: str | Path) -> str | None:
    """The name of a run's text, from its data.json; None if that is missing, as beside a copied checkpoint, or damaged."""
    try:
        return json.loads(read_file(find_checkpoint(path).parents[1] / "data.json"))["name"]
    except (*MISSING, ValueError, KeyError, TypeError):
        return None


def load(name_or_path: str | Path) -> AutoregressiveUNet:
    """The model of a run's newest checkpoint, or of the checkpoint given, on the CPU in evaluation mode.

    Raises:
        RltokError: no such folder, no finished checkpoint, or a damaged one.
    """
    checkpoint = find_checkpoint(name_or_path)
    model = FastUNet(load_config(checkpoint).model)
    load_weights(checkpoint, model)
    return model.eval()
