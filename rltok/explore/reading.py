"""What a model says of each byte of a text."""

import math

import torch

from rltok.errors import RltokError
from rltok.evaluation import checked_model, evaluation_mode
from rltok.rng import row_uniforms
from rltok.runs.snapshots import text_ids
from rltok.show.readings import Reading
from rltok.unet import AutoregressiveUNet
from rltok.vocab import to_utf8


@torch.inference_mode()
def read(
    model: AutoregressiveUNet, text: str | bytes, *, row_bytes: int | None = None, seed: int = 0, threshold: float | None = None
) -> Reading:
    """Boundaries, their probabilities, and surprise of each byte, in evaluation mode.

    Args:
        model: of any rule.
        text: read in rows; the model knows nothing of the rows before.
        row_bytes: bytes of a row; by default as in training, which a model of `rltok.load` knows.
        seed: of the draws; the first row is drawn as `boundary_view` draws it.
        threshold: boundaries stand where their probability is above it, in place of a draw.

    Raises:
        RltokError: a threshold for a rule without probabilities; half a surrogate pair; a length of rows that is not known.
    """
    row_bytes = checked_model(model).row_bytes if row_bytes is None else row_bytes
    if row_bytes is None:
        raise RltokError(
            "how long rows were in training is known of models of rltok.load, and not of this one. Give row_bytes, or set"
            " model.row_bytes."
        )
    if row_bytes < 1:
        raise RltokError(f"row_bytes must be at least 1; got {row_bytes}. Leave it out for rows as in training.")
    if threshold is not None and not model.rule.has_threshold:
        raise RltokError(f"{type(model.rule).__name__} draws without a probability of each boundary. Leave the threshold out.")
    data, device = to_utf8(text), model.embedding.weight.device
    starts = list(range(0, len(data), row_bytes))
    boundaries, probabilities, bits, early_bits = [], [], [], []
    with evaluation_mode(model):
        for number, start in enumerate(starts):
            # one byte more, which no decision before it can see: a boundary is drawn after the last byte, too
            ids = torch.nn.functional.pad(text_ids(data[start : start + row_bytes]), (0, 1), value=ord(" ")).to(device)
            width = ids.shape[1] - 1
            uniforms = row_uniforms(seed, 0, [number], width) if threshold is None else torch.full((1, width), threshold)
            out = model(ids, uniforms=uniforms.to(device))
            gates = out.soft if out.boundary_logits is None else out.boundary_logits.sigmoid()
            boundaries += out.boundaries[0, 1:].tolist()
            probabilities += [] if gates is None else gates[0, 1:].tolist()
            bits += (out.nll[0, :-1] / math.log(2)).tolist()
            early_bits += (out.early_nll[0, :-1] / math.log(2)).tolist()
    return Reading(data, boundaries, probabilities or None, bits, early_bits, starts)
