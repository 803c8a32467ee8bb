"""How the boundaries of a few fixed texts change during training, at log-spaced steps."""

from typing import Any

import numpy as np
import torch

from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.evaluation import checked_model, evaluation_mode
from rltok.rng import row_uniforms
from rltok.unet import AutoregressiveUNet
from rltok.vocab import BOS, encode

NUM_SNAPSHOTS = 20


def snapshot_steps(num_updates: int) -> set[int]:
    """20 steps from 0 to the end, evenly spaced on a logarithmic scale but for the first, which follow each other.

    All steps of a run shorter than that.
    """
    if num_updates < NUM_SNAPSHOTS:
        return set(range(num_updates + 1))
    steps = [0]
    for spaced in np.geomspace(1, num_updates, NUM_SNAPSHOTS - 1):
        steps.append(max(round(float(spaced)), steps[-1] + 1))  # early ones would fall on the same whole number
    return set(steps)


def text_ids(text: str | bytes) -> torch.Tensor:
    """ids [1, n + 1] of a text: BOS, then its bytes."""
    return torch.from_numpy(np.concatenate([[BOS], encode(text)]))[None]


@torch.no_grad()
def boundary_view(model: AutoregressiveUNet, text: str | bytes, seed: int = 0) -> dict[str, list]:
    """Boundaries after each byte of a text, in evaluation mode: probability and one seeded draw, lists of n entries.

    The probability is the policy's; a straight-through rule shows its soft gate; other rules have None.
    The last byte has a boundary decision too, though nothing is predicted after it: the text is scored with one byte
    appended, which no decision before it can see.
    """
    device = next(checked_model(model).parameters()).device
    ids = torch.nn.functional.pad(text_ids(text), (0, 1), value=ord(" ")).to(device)
    with evaluation_mode(model):
        out = model(ids, uniforms=row_uniforms(seed, 0, [0], ids.shape[1] - 1).to(device))
    gates = out.soft if out.boundary_logits is None else out.boundary_logits.sigmoid()
    return {
        "boundaries": out.boundaries[0, 1:].int().tolist(),
        "probabilities": gates if gates is None else gates[0, 1:].tolist(),
    }


def snapshot(model: AutoregressiveUNet, step: int, seed: int) -> dict[str, Any]:
    """One line of snapshots.jsonl: the view of every fixed text after `step` updates."""

    def rounded(view: dict[str, list]) -> dict[str, list]:
        return view | {"probabilities": view["probabilities"] and [round(p, 4) for p in view["probabilities"]]}

    return {
        "step": step,
        "texts": {name: {"text": text} | rounded(boundary_view(model, text, seed)) for name, text in FIXED_TEXTS.items()},
    }
