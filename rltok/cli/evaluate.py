"""`rltok evaluate`: a trained model's scores on held-out text, or on benchmark sets."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rltok.benchmarks.sets import TASKS
from rltok.benchmarks.task_items import TaskItems, hub_items, read_items
from rltok.benchmarks.tasks import TaskScore, score_items
from rltok.cli.options import MEAN_DRAWS, refuse_kernels, say
from rltok.config import Config
from rltok.data import load_corpus, load_test
from rltok.data.prepared import is_prepared, open_prepared
from rltok.data.rows import Rows, cut_documents, require_a_row
from rltok.data.sources import documents, is_hub, spec_name, summary
from rltok.device import resolve_device
from rltok.errors import RltokError
from rltok.evaluation import Evaluation
from rltok.evaluation import evaluate as evaluate_rows
from rltok.rng import name_draws
from rltok.rules.base import settings_of
from rltok.runs.loading import load, load_config, locate, trained_on
from rltok.unet import AutoregressiveUNet

EVALUATION_BATCH = 16
TASK_BATCH = 64  # rows of a benchmark set are a few hundred bytes long


def print_json(values: Any) -> None:
    """Print a result as JSON."""
    print(json.dumps(values, indent=1, allow_nan=False))


def shown(value: float | None) -> str:
    """A number to three digits, or `-` for a missing one."""
    return "-" if value is None else f"{value:.3f}"


def scoring_device(options: argparse.Namespace) -> torch.device:
    """The device on which a model is scored, always by plain operations."""
    refuse_kernels(options)
    return resolve_device(options.device)


def loaded(options: argparse.Namespace, place: Path) -> AutoregressiveUNet:
    """The model that a command runs, on its device, at the rate that the user chose."""
    model = load(place, rate=options.rate).to(scoring_device(options))
    if (rates := model.rule.rates) is not None:
        say(options, f"rate {model.rule.rate:.4g}, of a range from {rates[0]:.4g} to {rates[1]:.4g} (--rate)")
    return model


def _prepared_rows(options: argparse.Namespace, config: Config) -> Rows:
    """Validation rows of a prepared folder, or the test rows where the user asks for these."""
    if options.split == "all":
        raise RltokError(f"{options.data} was written by rltok prepare. Score its --split validation or test.")
    require_a_row(options.max_bytes, config.data.sequence_length)
    record = open_prepared(options.data).record
    stored = record["settings"]["cut"]
    if options.split != "test" and not record["splits"]["validation"]["documents"]:
        raise RltokError(
            f"{options.data} has no validation document of its own; training held out its last rows. Prepare with --validation"
            " TEXT or a larger --validation-fraction, or score other text."
        )
    data = replace(config.data, cut="documents" if stored == "documents" else "windows")
    rows = load_test(options.data, data) if options.split == "test" else load_corpus(options.data, data).validation
    if options.max_bytes is None:
        return rows
    return rows.subset(slice(0, options.max_bytes // rows.sequence_length))


def _check_split(options: argparse.Namespace) -> None:
    """Raise `RltokError` for a split without --data if the run was not trained on the bundled sample."""
    if options.data is not None or options.split is None:
        return
    trained = (trained_on(options.run) or {}).get("name")
    if trained not in ("sample", None):
        raise RltokError(
            f"--split {options.split} without --data is that of the bundled sample, but {options.run} was trained on {trained}."
            " Name the text: --data TEXT, or --data sample."
        )


def _rows_to_score(options: argparse.Namespace, config: Config) -> Rows:
    _check_split(options)
    options.data = "sample" if options.data is None else options.data
    if is_prepared(options.data):
        return _prepared_rows(options, config)
    if options.data == "sample":
        spec = "sample" if options.split == "all" else f"sample:{options.split or 'validation'}"
    elif options.split not in (None, "all"):
        raise RltokError(f"{options.data} has no {options.split} split. Leave --split out to score the whole text.")
    elif is_hub(options.data) and options.max_bytes is None:
        raise RltokError(f"{options.data!r} streams without a known end. Say how much to read: --max-bytes N.")
    else:
        spec = options.data
    limit = options.max_bytes
    stream = documents(spec, allow_binary=options.allow_binary, force=options.force, max_bytes=limit)
    rows = cut_documents(stream, config.data.sequence_length, "windows", name=spec_name(spec), max_bytes=limit)
    say(options, f"text: {summary(spec)}")
    return rows


def _check_options(options: argparse.Namespace) -> None:
    """Raise `RltokError` for no way of drawing, and for options of text together with those of benchmark sets."""
    name_draws(options.draws, _how_drawn(options)["num_draws"])
    of_text = {"--data": options.data is not None, "--split": options.split, "--max-bytes": options.max_bytes is not None}
    of_tasks = {"--task": options.task, "--max-items": options.max_items is not None}
    if options.tasks is None and any(of_tasks.values()):
        given = next(name for name, there in of_tasks.items() if there)
        raise RltokError(f"{given} chooses among benchmark sets. Say where they are: --tasks FOLDER or --tasks hub.")
    if options.tasks is not None and any(of_text.values()):
        given = next(name for name, there in of_text.items() if there)
        raise RltokError(f"--tasks scores benchmark sets instead of text, to which {given} belongs. Give one of the two.")


def _target(options: argparse.Namespace, config: Config) -> dict[str, float | None]:
    """The rate that was asked for: of the user, else of training; None of rules that aim at none."""
    return {"target_rate": settings_of(config.model).get("target_rate") if options.rate is None else options.rate}


def _how_drawn(options: argparse.Namespace) -> dict[str, Any]:
    count = options.num_draws
    if count is None:
        count = MEAN_DRAWS if options.draws == "mean" else 1
    return {"seed": options.seed, "draws": options.draws, "num_draws": count}


def evaluate(options: argparse.Namespace) -> None:
    """`rltok evaluate`."""
    _check_options(options)
    sets = [_items(options, name) for name in dict.fromkeys(options.task or TASKS)] if options.tasks else []  # before any score
    place = locate(options.run)
    config, model = load_config(place), loaded(options, place)
    target = _target(options, config)
    if options.tasks is None:
        result = evaluate_rows(model, _rows_to_score(options, config), batch=EVALUATION_BATCH, **_how_drawn(options))
        print_json(result.to_dict() | target) if options.json else print("\n".join(_text_lines(result, **target)))
        return
    scores = [_score(options, model, items) for items in sets]
    content = {"tasks": [score.to_dict() for score in scores]}
    print_json(content | target) if options.json else print("\n".join(_task_lines(scores, **target)))


def _items(options: argparse.Namespace, name: str) -> TaskItems:
    return hub_items(name, options.force) if options.tasks == "hub" else read_items(name, options.tasks)


def _score(options: argparse.Namespace, model: AutoregressiveUNet, items: TaskItems) -> TaskScore:
    count = len(items) if options.max_items is None else min(len(items), options.max_items)
    say(options, f"{items.task}: {count} of {len(items)} items")
    return score_items(model, items, batch=TASK_BATCH, max_items=options.max_items, **_how_drawn(options))


def _error(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f" +- {value:.{digits}f}"


def _drawn(draws: str, seed: int, target_rate: float | None) -> str:
    how = {"sample": f"one draw with seed {seed}", "threshold": "where p > 1/2"}.get(draws, f"{draws} draws with seed {seed}")
    return how if target_rate is None else f"{how}, target rate {target_rate:.4g}"


def _text_lines(result: Evaluation, target_rate: float | None) -> list[str]:
    whole, drawn = result.class_counts, _drawn(result.draws, result.seed, target_rate)
    by_class = (f"{name} {shown(rate)} (of {whole[name]})" for name, rate in result.class_rates.items())
    return [
        f"bits per byte {result.bits_per_byte:.4f}{_error(result.standard_error)} over {result.rows} rows,"
        f" {result.scored_bytes} bytes and end marks",
        f"{'':20s}{_error(result.standard_error_documents)} over {result.documents} documents"
        if result.documents > 1
        else f"{'':14s}all of one document, so without a standard error over documents",
        f"early head    {result.early_bits_per_byte:.4f}",
        f"boundaries    {result.rate:.4f} per byte, {result.tokens_per_byte:.4f} tokens per byte, {drawn}",
        f"entropy       {shown(result.policy_entropy)} nats per decision",
        f"by byte class {', '.join(by_class)}",
    ]


def _task_lines(scores: Sequence[TaskScore], target_rate: float | None) -> list[str]:
    lines = [f"{'set':12s}{'items':>7s}  {'bits per byte':20s}{'accuracy':18s}{'chance':8s}".rstrip()]
    for score in scores:
        accuracy = shown(score.accuracy) + _error(score.accuracy_error, 3)
        bits = f"{score.bits_per_byte:.4f}{_error(score.standard_error)}"
        noise = "no better than guessing" if score.at_chance else ""
        lines.append(f"{score.task:12s}{score.items:>7d}  {bits:20s}{accuracy:18s}{shown(score.chance):8s}{noise}".rstrip())
    drawn = _drawn(scores[0].draws, scores[0].seed, target_rate)
    return [
        *lines,
        f"+- standard error over items; boundaries: {drawn}. Bits per byte of the right"
        " continuation, the space before it included.",
        "Accuracy is noise for models of this size: compare bits per byte.",
    ]
