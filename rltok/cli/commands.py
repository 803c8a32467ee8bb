"""What each command of the command line does."""

import argparse
import json
import math
import os
import sys
from pathlib import Path

from rltok.cli import demo as demo_module
from rltok.cli.bench import bench
from rltok.cli.compare import compare
from rltok.cli.doctor import doctor
from rltok.cli.evaluate import evaluate, loaded, print_json, shown
from rltok.cli.generate import generate
from rltok.cli.models import export, models
from rltok.cli.options import parse_settings, use_colour
from rltok.cli.prepare import prepare
from rltok.cli.reading import MOST_TEXT, file_bytes, located, showable
from rltok.cli.variance import variance
from rltok.config import Config, from_dict, with_settings
from rltok.data import load_corpus
from rltok.data.sources import is_hub, text_bytes
from rltok.errors import RltokError
from rltok.explore import read
from rltok.presets import fit_to_corpus, preset, travel_advice
from rltok.runs.folder import check_folder
from rltok.runs.snapshots import boundary_view
from rltok.runs.training import train as train_model
from rltok.show.terminal import legend, paint_view
from rltok.show.words import many
from rltok.system.files import MISSING, check_name, quoted, read_file
from rltok.system.place import place
from rltok.unet import AutoregressiveUNet
from rltok.vocab import to_utf8

LITTLE_TEXT = 1000  # bytes
PASSAGES = (
    b"The lighthouse keeper counted seventeen ships before breakfast, and he wrote each name down in a small green book.",
    b"def longest(lines):\n    return max(len(line.rstrip()) for line in lines)",
)

__all__ = [
    "bench",
    "compare",
    "demo",
    "doctor",
    "evaluate",
    "export",
    "generate",
    "models",
    "prepare",
    "show",
    "train",
    "variance",
]


def _read_config(path: str) -> Config:
    check_name(path, "file", "--config")
    if os.path.isdir(path):
        raise RltokError(f"{path} is a folder. Name a file in it: --config {quoted(Path(path, 'config.json'))}")
    if os.path.exists(path) and not os.path.isfile(path):
        raise RltokError(f"{path} is no ordinary file. Write the settings to one, as the config.json of a run has them.")
    try:
        values = json.loads(read_file(Path(path)))
    except MISSING as error:
        raise RltokError(
            f"there is no file {path}. Name the config.json of a run, or take the settings of a preset: --preset tiny."
        ) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, RltokError):
            raise
        raise RltokError(f"{path} is not a JSON file of settings ({error}). Take the config.json of a run.") from error
    try:
        return from_dict(values)
    except RltokError as error:
        raise RltokError(f"{path}: {error}") from error


def _settings(options: argparse.Namespace) -> tuple[Config, str | None]:
    """The configuration, and a line about settings that were chosen to fit the text."""
    changes = parse_settings(options.set)
    if options.config and options.preset:
        raise RltokError("give --preset or --config, not both.")
    if options.config:
        return with_settings(_read_config(options.config), changes), None
    if options.preset is not None:
        return with_settings(preset(options.preset), changes), None
    stored = Path(options.out or "") / "config.json"
    if options.resume and options.out and stored.is_file():
        return with_settings(_read_config(str(stored)), changes), None
    base = preset("tiny")
    if options.data == "sample" or is_hub(options.data):
        return with_settings(base, changes), None
    size = text_bytes(
        options.data, max_bytes=options.max_bytes, allow_binary=options.allow_binary, force=options.force
    )  # fmt: skip
    chosen = with_settings(fit_to_corpus(base, size), changes)
    note = (
        f"preset tiny fitted to {size} bytes of text: rows of {chosen.data.sequence_length} bytes,"
        f" {chosen.train.sequences_per_update} rows an update, about {chosen.train.training_bytes / max(1, size):.0f} passes"
    )
    return chosen, note + ("" if size >= LITTLE_TEXT else f". So little text (under {LITTLE_TEXT} bytes) teaches next to nothing")


def train(options: argparse.Namespace) -> None:
    """`rltok train`."""
    if options.out is not None:
        check_name(options.out, "folder")
    config, note = _settings(options)
    out = options.out or f"runs/{config.name}"
    leads = place().number == 0  # of several processes the first one alone has a folder, and speaks
    if leads:
        check_folder(out, options.resume)  # before anything is read or downloaded
    if note and leads:
        print(note, file=sys.stderr)
    max_bytes = options.max_bytes
    if max_bytes is None and is_hub(options.data):
        max_bytes = round(config.train.training_bytes / (1 - config.data.held_out_fraction))
    corpus = load_corpus(
        options.data, config.data, validation_spec=options.validation, max_bytes=max_bytes,
        allow_binary=options.allow_binary, force=options.force,
    )  # fmt: skip
    record = train_model(
        config, corpus, out, options.resume, device=options.device, tensorboard=options.tensorboard, note=options.note,
        progress=not options.json,
    )  # fmt: skip
    if not leads:
        return
    if options.json:
        result = {"out": out, "text": corpus.summary, "updates": record.updates, "bytes": record.bytes}
        print_json(result | {"evaluation": record.evaluation, "advice": travel_advice(config)})
        return
    scores = record.evaluation
    print(
        f"{record.updates} updates, {record.bytes} bytes, {record.bytes_per_second:.0f} bytes/s on {record.device}\n"
        f"held-out bits per byte {scores['bits_per_byte']:.3f} of {scores['rows']} rows"
        f" (early head {scores['early_bits_per_byte']:.3f}), boundaries per byte {scores['rate']:.3f},"
        f" share of white space with a boundary {shown(scores['whitespace_share'])}\n"
        f"look at it: rltok show {quoted(out)} 'some text'"
    )


def _text_to_show(options: argparse.Namespace) -> bytes | None:
    """What the user gave."""
    if not 1 <= options.bytes <= MOST_TEXT:
        raise RltokError(f"--bytes must lie between 1 and {MOST_TEXT}; got {options.bytes}.")
    if options.text is not None and options.file is not None:
        raise RltokError("give a text or --file, not both.")
    if options.file is not None:
        return showable(file_bytes(options.file, options.bytes))
    return None if options.text is None else showable(to_utf8(options.text))


def _passage(model: AutoregressiveUNet) -> bytes:
    """The one of PASSAGES that the model expects most: the code, for a model of code."""

    def surprise(data: bytes) -> float:
        return sum(read(model, data, row_bytes=len(data), seed=0).bits) / len(data)

    return min(PASSAGES, key=surprise)


def show(options: argparse.Namespace) -> None:
    """`rltok show`."""
    data = _text_to_show(options)
    model = loaded(options, located(options, data))
    data = _passage(model) if data is None else data
    view = boundary_view(model, data, options.seed)
    if not all(map(math.isfinite, view["probabilities"] or ())):
        raise RltokError(
            "probabilities of a boundary come out as nan: the weights have grown too large. Take an earlier checkpoint, or train"
            " again with a lower train.learning_rate."
        )
    if options.json:
        print_json({"bytes": list(data), "seed": options.seed, **view})
        return
    colour = use_colour(options.color)
    print(paint_view(data, view, colour))
    counts = f"{many(sum(view['boundaries']), 'boundary')} in {many(len(data), 'byte')}"
    signs = legend(colour, (data, view["boundaries"]), drawn=view["probabilities"] is None)
    print(f"\n{signs}; {counts}, one draw with seed {options.seed}")


def demo(options: argparse.Namespace) -> None:
    """`rltok demo`."""
    text = None if options.text is None else showable(to_utf8(options.text))
    result = demo_module.run_demo(
        options.out, seed=options.seed, device=options.device, smoke=options.smoke, quiet=options.json, text=text
    )  # fmt: skip
    if options.json:
        print_json(result)
