"""`rltok models` and `rltok export`: what comes with rltok, and a model as one file."""

import argparse
from typing import Any

from rltok.cli.evaluate import print_json
from rltok.errors import RltokError
from rltok.runs.export import export as export_model
from rltok.runs.shipped import card_of, facts_of, shipped_models
from rltok.system.files import quoted

HEAD = f"{'name':16s}{'parameters':>12s}{'size':>9s}  {'language':11s}{'bits/byte':>10s}{'rate':>7s}{'white space':>12s}"
LEGEND = [
    "rate: boundaries per byte; white space: share of it with a boundary after it. On which text, where else",
    "tokens end, data, licences and limits, the card of a model says: rltok models NAME",
]


def models(options: argparse.Namespace) -> None:
    """`rltok models`."""
    names = shipped_models()
    if options.name not in (None, *names):
        raise RltokError(f"no model {options.name!r} comes with rltok. Its models: {', '.join(names)}.")
    facts = [facts_of(name) for name in names if options.name in (None, name)]
    if options.json:
        print_json({"models": facts})
    else:
        print("\n".join([HEAD, *map(_line, facts), "", *LEGEND]) if options.name is None else card_of(options.name))


def _line(facts: dict[str, Any]) -> str:
    scores = facts["scores"]
    return (
        f"{facts['name']:16s}{facts['parameters']:12,d}{facts['file_bytes'] / 1e6:6.2f} MB  {facts['language']:11s}"
        f"{scores['bits_per_byte']:10.3f}{scores['rate']:7.3f}{scores['whitespace_share']:12.1%}"
    )


def export(options: argparse.Namespace) -> None:
    """`rltok export`."""
    path = export_model(options.run, options.file, bf16=options.bf16)
    if options.json:
        print_json({"file": str(path), "bytes": path.stat().st_size})
    else:
        print(f"{path}: {path.stat().st_size} bytes. Look at it: rltok show {quoted(path)} 'some text'")
