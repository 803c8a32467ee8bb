"""Write what Python makes of some fixed texts with the demo model of the book's first page.

python scripts/book/make_demo_expected.py     # from the model that book/_static/demo_weights.js names

writes book/demo_page.json. scripts/book/check_demo.py compares it with what the page computes, and
tests/scripts/book/test_demo_page.py with what rltok computes now. All is in double precision, so that another machine gives
the same digits.
"""

from pathlib import Path
from typing import Any

import make_demo_weights
import torch

import rltok
from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.evaluation import evaluation_mode
from rltok.rng import row_uniforms
from rltok.runs.snapshots import text_ids
from rltok.system.files import json_text

EXPECTED = Path(__file__).resolve().parents[2] / "book" / "demo_page.json"
TEXTS = {
    "empty": "",
    "one byte": "a",
    "English": FIXED_TEXTS["prose"],
    "code": FIXED_TEXTS["code"],
    "many scripts": FIXED_TEXTS["multilingual"],
    "emoji": "ok 👍🏽 👩‍👩‍👧 🏳️‍🌈 done",
    "right to left": "קראתי ספר طويل جدا, then left to right.",
    "line ends": "one\r\ntwo\r\n\r\n\tthree\n",
    "5,000 bytes": (" ".join(FIXED_TEXTS.values()) * 8).encode()[:5000].decode(errors="ignore"),
}
THRESHOLD = 0.3
SEED = 27
MARGIN = 1e-5  # by which a uniform must miss its probability, so that rounding decides no boundary
DIGITS = 5


def uniforms(text: bytes, seed: int, row_bytes: int) -> list[float]:
    """One uniform a byte, which decides the boundary after it; each row draws its own."""
    rows = -(-len(text) // row_bytes)
    return [round(value, DIGITS) for value in row_uniforms(seed, 0, range(rows), row_bytes).flatten().tolist()][: len(text)]


@torch.no_grad()
def computed(model: rltok.AutoregressiveUNet, text: bytes, drawn: list[float], row_bytes: int) -> dict[str, Any]:
    """Probability of a boundary after each byte, the boundaries under the uniforms, and bits per byte, row by row."""
    found: dict[str, list] = {"probabilities": [], "boundaries": [], "bits": []}
    dtype = next(model.parameters()).dtype
    for start in range(0, len(text), row_bytes):
        row = text[start : start + row_bytes]
        ids = torch.nn.functional.pad(text_ids(row), (0, 1), value=ord(" "))  # one more, so that the last byte is decided upon
        given = torch.tensor([[0.0, *drawn[start : start + len(row)]]], dtype=dtype)
        with evaluation_mode(model):
            out = model(ids, uniforms=given)
        found["probabilities"] += out.boundary_logits[0, 1:].sigmoid().tolist()
        found["boundaries"] += out.boundaries[0, 1:].int().tolist()
        found["bits"] += (out.nll[0, :-1] / torch.log(torch.tensor(2.0, dtype=dtype))).tolist()
    return found


def is_clear(found: dict[str, Any], drawn: list[float]) -> bool:
    """Whether no decision hangs on rounding."""
    return all(abs(p - u) > MARGIN for p, u in zip(found["probabilities"], drawn, strict=True))


def case(model: rltok.AutoregressiveUNet, name: str, text: str, row_bytes: int) -> dict[str, Any]:
    """A text with the uniforms of the first seed that decides clearly, and with the threshold."""
    data = text.encode()
    for seed in range(SEED, SEED + 100):
        drawn = uniforms(data, seed, row_bytes)
        found = computed(model, data, drawn, row_bytes)
        if is_clear(found, drawn):
            break
    level = [THRESHOLD] * len(data)
    above = computed(model, data, level, row_bytes)
    if not (is_clear(found, drawn) and is_clear(above, level)):
        raise SystemExit(f"a decision in the text {name!r} hangs on rounding. Change THRESHOLD or SEED.")
    return {"name": name, "text": text, "uniforms": drawn} | _rounded(found) | {"above": _rounded(above)}


def _rounded(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "probabilities": [round(p, DIGITS) for p in found["probabilities"]],
        "boundaries": "".join(map(str, found["boundaries"])),
        "bits": [round(b, DIGITS) for b in found["bits"]],
    }


def render() -> str:
    """The file: model, digest of its weights, threshold, and each text with what was computed."""
    asset = make_demo_weights.read()
    model = rltok.load(asset["model"]).double()
    cases = [case(model, name, text, asset["settings"]["row_bytes"]) for name, text in TEXTS.items()]
    return json_text({"model": asset["model"], "sha256": asset["sha256"], "threshold": THRESHOLD, "texts": cases})


def main() -> None:
    """Rewrite the file."""
    EXPECTED.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
