"""Write how the boundaries of the fixed texts moved during training, for the page that has a slider through them.

python scripts/book/make_moments.py    # from the stored records; a test fails while what it writes is out of date

rewrites book/_static/moments_data.js, which moments_widget.js shows, and book/_generated/moments.md, which stands in its place
until scripts run: the last moment of each run.
"""

import json
from pathlib import Path
from typing import Any

from make_intro import BAR, block, scripted

from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.evidence import headline, measuring
from rltok.evidence.records import Record, Sweep

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
DATA = ROOT / "book" / "_static" / "moments_data.js"
PAGE = ROOT / "book" / "_generated" / "moments.md"
BEGIN = "// Written by scripts/book/make_moments.py.\nconst rltokMoments = "
SEED = 0  # the one whose records keep the boundaries of texts
NAMES = headline.NAMES | {headline.LARGE_POLICY: "paper's policy, with a smaller discount"}
SCRIPTS = ("byte_view", "moments_data", "moments_widget")
WITHOUT = "With JavaScript there is a slider here through the moments of training; this is the last one of each run."


def _run(record: Record) -> dict[str, Any]:
    """Boundaries of each text at each moment: 0 or 1 a byte; percent: two digits a byte, of methods with probabilities."""
    moments = {
        name: [{key: shot[name][key] for key in ("boundaries", "percent") if shot[name][key]} for shot in record["snapshots"]]
        for name in FIXED_TEXTS
    }
    for name, text in FIXED_TEXTS.items():
        assert {shot[name]["text"].encode("latin-1") for shot in record["snapshots"]} == {text.encode()}
    return {"name": NAMES[record["name"]], "moments": moments}


def _size(sweep: Sweep, names: tuple[str, ...]) -> dict[str, Any]:
    runs = [sweep.runs[name][SEED] for name in names]
    (steps,) = {tuple(shot["step"] for shot in run["snapshots"]) for run in runs}
    (bytes_read,) = {run["bytes"] / run["updates"] for run in runs}
    return {
        "name": f"{runs[0]['matrix_parameters'] / 1e6:.0f}M parameters", "updates": runs[0]["updates"],
        "bytes_per_update": bytes_read, "steps": steps, "runs": [_run(run) for run in runs],
    }  # fmt: skip


def moments() -> dict[str, Any]:
    """The texts, and at each size the boundaries of policy, H-Net and BPE at each moment."""
    sizes = [
        _size(headline.best_sweep(RESULTS), (headline.FAST, "hnet_port", "bpe")),
        _size(headline.large_sweep(RESULTS), (headline.FAST, headline.LARGE_POLICY, "hnet_port", "bpe")),
    ]
    return {"texts": FIXED_TEXTS, "sizes": sizes}


def data(found: dict[str, Any]) -> str:
    """The script that holds them."""
    return BEGIN + json.dumps(found, ensure_ascii=False) + ";\n"


def page(found: dict[str, Any]) -> str:
    """The last moment of each run, and the scripts that put a slider in its place."""
    (name, text), *_ = FIXED_TEXTS.items()
    blocks = []
    for size in found["sizes"]:
        for run in size["runs"]:
            cuts = run["moments"][name][-1]["boundaries"]
            painted = "".join(sign + BAR * (cut == "1") for sign, cut in zip(text, cuts, strict=True))
            blocks.append(block(f"{size['name']}: {run['name']}", painted, len(text)))
    return scripted("rltok-moments", "\n".join(blocks), WITHOUT, SCRIPTS)


def main() -> None:
    """Rewrite both."""
    found = moments()
    DATA.write_text(data(found), encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    measuring.run(main)
