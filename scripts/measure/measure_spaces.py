"""What a boundary after a space is worth to a network trained with boundaries of its own, and to one trained with random ones.

    python scripts/measure/measure_spaces.py --out notebooks/results/spaces.json

Both are the `tiny` preset on rows of 128 bytes of the bundled sample. `ch00_spaces.effects` says what is done to one boundary.
"""

import argparse
import tempfile
from pathlib import Path

import torch

import rltok
from rltok.config import with_settings
from rltok.data import load_corpus
from rltok.evidence.chapters.ch00_spaces import effects
from rltok.evidence.measuring import at_least, run, stored_record
from rltok.rng import row_uniforms
from rltok.runs.results import origin
from rltok.system.files import write_json

WHAT = "change of the loss of the next bytes when one boundary is removed, moved or added"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", nargs="+", default=["learned", "random_k"])
    parser.add_argument("--bytes", type=int, default=900_000, help="training text of each network (default: 900,000)")
    parser.add_argument("--rows", type=int, default=256, help="held-out rows (default: 256)")
    parser.add_argument("--places", type=int, default=1000, help="most places for each edit (default: 1000)")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    at_least(1, bytes=options.bytes, rows=options.rows, places=options.places)
    stored_record(options.out, WHAT)
    found = []
    for rule in options.rules:
        settings = {
            "data.sequence_length": 128, "train.training_bytes": options.bytes, "train.sequences_per_update": 8,
            "train.micro_batch": 8, "model.rule.name": rule,
        }  # fmt: skip
        config = with_settings(rltok.preset("tiny"), settings)
        corpus = load_corpus("sample", config.data)
        with tempfile.TemporaryDirectory() as folder:
            rltok.train(config, corpus, f"{folder}/run", device="cpu", full=False)
            model = rltok.load(f"{folder}/run").eval()
        numbers = range(options.rows)
        ids = corpus.validation.ids(numbers)
        with torch.no_grad():
            out = model(ids, uniforms=row_uniforms(0, 0, numbers, ids.shape[1] - 1))
        curves = effects(model, ids, out.boundaries, options.places)
        found.append(
            origin(config, corpus.description, torch.device("cpu"))
            | {
                "rule": rule,
                "nll": float(out.nll.mean()),
                "effects": {name: {"mean": m.tolist(), "half": h.tolist()} for name, (m, h) in curves.items()},
            }
        )
        print(rule, {name: round(float(mean.sum()), 3) for name, (mean, _) in curves.items()}, flush=True)
    write_json(options.out, {"schema": 1, "what": WHAT, "rows": options.rows, "places": options.places, "runs": found})


if __name__ == "__main__":
    run(main)
