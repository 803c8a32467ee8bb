"""From a name to a model.

A name stands for a run's folder, a checkpoint, a file of `rltok export`, a model that comes with rltok, or one on the hub.
"""

import difflib
import json
import os
from pathlib import Path
from typing import Any

from rltok.config import Config, from_dict
from rltok.data.documents import one_line
from rltok.data.hub import hub_reachable
from rltok.errors import RltokError
from rltok.fast.unet import FastUNet
from rltok.runs.checkpoint import WEIGHTS, fill, find_checkpoint, load_weights, read_state
from rltok.runs.names import ADDRESS, HUB_FILE, HUB_NAME, NAMES
from rltok.runs.shipped import shipped_models, weights_of
from rltok.runs.weights import no_constant, read_facts, read_tensors
from rltok.system.files import MISSING, quoted, read_file
from rltok.unet import AutoregressiveUNet

PROBE_SECONDS = 2.0


def locate(name_or_path: str | Path) -> Path:
    """The checkpoint or the file of weights that a name stands for.

    Tried in this order: what exists at that path; the name of a model that comes with rltok; OWNER/NAME on the Hugging Face
    hub, unless there is a folder OWNER here. `hf:OWNER/NAME` is always the hub's, a `Path` always a path.

    Raises:
        RltokError: there is nothing of that name, no finished checkpoint, no network.
    """
    if not isinstance(name_or_path, str | os.PathLike):
        what = "a model" if isinstance(name_or_path, AutoregressiveUNet) else type(name_or_path).__name__
        raise RltokError(f"what names a model is a text or a path; got {what}. Name {NAMES}.")
    if not str(name_or_path).strip():
        raise RltokError(f"the name of a model is empty. Name {NAMES}.")
    path, name = Path(name_or_path), name_or_path if isinstance(name_or_path, str) else ""
    if (address := ADDRESS.match(name.strip())) and not os.path.lexists(path):
        there = "" if address[1] is None else f", here hf:{address[1]}"
        raise RltokError(
            f"{name} is an address, and nothing is read from one. Of a model on the Hugging Face hub give OWNER/NAME{there};"
            " download any other file, and name that."
        )
    if path.suffix == ".safetensors" and not os.path.isdir(path):
        if not os.path.exists(path):
            raise RltokError(f"there is no file {path}. Write one: rltok export RUN {quoted(path)}")
        return path
    if os.path.lexists(path):
        return find_checkpoint(path)
    if name in shipped_models():
        return weights_of(name)
    hub = HUB_NAME.fullmatch(name)
    if hub and (hub[1] or not os.path.lexists(hub[3])):
        return _from_hub(hub[2])
    if near := _nearest(name):
        raise RltokError(f"there is no run, file or model {name!r}. Did you mean {near!r}?")
    return find_checkpoint(path)


def _nearest(name: str) -> str | None:
    """The model that comes with rltok which a name most likely means: in whatever case, and also a part of it."""
    name, models = name.lower(), shipped_models()
    parts = [model for model in models if len(name) > 2 and name in model]
    return next(iter([*difflib.get_close_matches(name, models, n=1), *parts]), None)


def _from_hub(repository: str) -> Path:
    """The weights of a model on the hub, downloaded or from an earlier download."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise RltokError(
            f"there is no run {repository!r} here, and to look on the Hugging Face hub needs the package huggingface_hub:"
            " pip install 'rltok[data]'."
        ) from error
    try:
        if hub_reachable(PROBE_SECONDS):
            return Path(huggingface_hub.hf_hub_download(repository, HUB_FILE))
        kept = huggingface_hub.try_to_load_from_cache(repository, HUB_FILE)
    except Exception as error:  # its HTTP and file-system libraries each have exceptions of their own
        raise RltokError(
            f"there is no run {repository!r} here, and {HUB_FILE} of that name cannot be had from the Hugging Face hub:"
            f" {one_line(error)}. Check the name."
        ) from error
    if isinstance(kept, str):
        return Path(kept)
    raise RltokError(
        f"there is no run {repository!r} here, and the Hugging Face hub cannot be reached (no network, or offline by a switch)."
        f" Get its {HUB_FILE} by other means and name that file; rltok models lists what comes with rltok."
    )


def _is_file(place: Path) -> bool:
    """Whether what `locate` found is a file of weights, and not a checkpoint."""
    return place.suffix == ".safetensors" and not os.path.isdir(place)


def load_config(name_or_path: str | Path) -> Config:
    """The configuration of a model; names as in `locate`."""
    place = locate(name_or_path)
    return read_facts(place)[0] if _is_file(place) else from_dict(read_state(place, (WEIGHTS,))["config"])


def trained_on(name_or_path: str | Path) -> dict[str, Any] | None:
    """What a model's run says of its text, `Corpus.description`; None where that is missing, as beside a copied checkpoint."""
    place = locate(name_or_path)
    if _is_file(place):
        return read_facts(place)[1]
    try:
        data = json.loads(read_file(place.parents[1] / "data.json"), parse_constant=no_constant)
    except (*MISSING, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def load(name_or_path: str | Path, rate: float | None = None) -> AutoregressiveUNet:
    """The model of that name (`locate`), on the CPU, in fp32 and in evaluation mode; of a run, that of its newest checkpoint.

    Args:
        name_or_path: as in `locate`.
        rate: boundaries per byte that a model is to draw which was trained for a range of them; by default its target rate.

    Raises:
        RltokError: there is nothing of that name, no finished checkpoint, or a damaged one; a rate that it was not trained for.
    """
    place = locate(name_or_path)
    config = load_config(place)
    model = FastUNet(config.model)
    model.row_bytes = config.data.sequence_length
    if _is_file(place):
        fill(model, read_tensors(place), place)
    else:
        load_weights(place, model)
    if rate is not None:
        model.rule.use_rate(rate)
    return model.eval()
