"""`rltok models` and `rltok export`: what comes with rltok, and a model as one file."""

import argparse
from typing import Any

from rltok.cli.evaluate import print_json
from rltok.runs.export import export as export_model
from rltok.runs.shipped import facts_of, shipped_models
from rltok.system.files import quoted

HEAD = f"{'name':16s}{'parameters':>12s}{'size':>9s}  {'language':11s}{'bits/byte':>10s}{'rate':>7s}{'white space':>12s}"


def models(options: argparse.Namespace) -> None:
    """`rltok models`."""
    facts = [facts_of(name) for name in shipped_models()]
    print_json({"models": facts}) if options.json else print("\n".join([HEAD, *map(_line, facts), "", *_legend(facts)]))


def _line(facts: dict[str, Any]) -> str:
    scores = facts["scores"]
    return (
        f"{facts['name']:16s}{facts['parameters']:12,d}{facts['file_bytes'] / 1e6:6.2f} MB  {facts['language']:11s}"
        f"{scores['bits_per_byte']:10.3f}{scores['rate']:7.3f}{scores['whitespace_share']:12.1%}"
    )


def _legend(facts: list[dict[str, Any]]) -> list[str]:
    return [
        "rate: boundaries per byte; white space: share of it with a boundary after it. Measured by",
        *dict.fromkeys(f"  {each['measured_by']}" for each in facts),
    ]


def export(options: argparse.Namespace) -> None:
    """`rltok export`."""
    path = export_model(options.run, options.file, bf16=options.bf16)
    if options.json:
        print_json({"file": str(path), "bytes": path.stat().st_size})
    else:
        print(f"{path}: {path.stat().st_size} bytes. Look at it: rltok show {quoted(path)} 'some text'")
