"""`rltok variance`: options to measurement, measurement to a table."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from rltok.cli.options import parse_settings, refuse_kernels, say
from rltok.config import Config, with_settings
from rltok.data import Corpus, load_corpus
from rltok.device import backend_of, resolve_device
from rltok.errors import RltokError
from rltok.presets import preset
from rltok.runs.loading import load, load_config, locate, trained_on
from rltok.system.files import check_record_path, write_record
from rltok.variance.gradients import GROUPS
from rltok.variance.laboratory import Sizes, batches_of, default_names
from rltok.variance.ladder import estimator
from rltok.variance.stages import LADDER_RECORD, measure_ladder, measure_stage, record_of
from rltok.variance.statistics import KNOWN

LEGEND = (
    "variance: trace of the covariance of one batch's gradient. limit of cosine: with the true gradient, after any number of",
    "rows; 1 without bias. In brackets: 95 % bootstrap interval over batches, - for an end without bound. never: the bias leaves",
    "a cosine below 0.5. not resolved: too little was measured to see a signal; take more --batches or --reference-draws.",
    "without end: share of bootstrap resamples in which no number of rows is enough.",
)


def variance(options: argparse.Namespace) -> None:
    """`rltok variance`."""
    names = list(dict.fromkeys(options.estimators or default_names()))
    _check(options, names)
    record = _measure_stages(options, names) if options.run is None else _measure_run(options, names)
    if options.out is not None:
        write_record(Path(options.out), record)
    if options.json:
        print(json.dumps(record, indent=1, allow_nan=False))
        return
    for stage in record["stages"]:
        print("\n".join(table(stage, record["rows"])))
    print("\n".join(["", *LEGEND]))
    if options.out is not None:
        print(f"record: {options.out}")


def _check(options: argparse.Namespace, names: list[str]) -> None:
    """What can be refused before anything is read, trained or measured."""
    for name in names:
        if estimator(name).centring != "none" and options.rows == 1:
            raise RltokError(
                f"estimator {name!r} compares a row with the others of its batch (eq. 17); with --rows 1 there is no other, every"
                " advantage is 0, and no signal is left. Take --rows 2 or more."
            )
    if options.run is not None and not options.run.strip():
        raise RltokError("RUN is empty. Name a run's folder, or leave it out to train first.")
    if len(set(options.seeds)) < len(options.seeds):
        raise RltokError(
            f"--seeds names a seed twice: {' '.join(map(str, options.seeds))}. It would count double; name each once."
        )
    for seed in options.seeds:
        if not 0 <= seed < 2**63:
            raise RltokError(f"--seeds must lie between 0 and 2**63 - 1; got {seed}.")
    if options.out is not None:
        check_record_path(options.out, LADDER_RECORD)


def _measure_stages(options: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    settings = parse_settings(options.set)
    if "train.seed" in settings:
        raise RltokError(f"train.seed is set by --seeds here. Write --seeds {settings['train.seed']}.")

    def configs(seed: int) -> Config:
        return with_settings(preset(options.preset or "tiny"), settings | {"train.seed": seed})

    config, device = configs(options.seeds[0]), resolve_device(options.device)
    backend_of(config, device)
    _check_rule(config)
    sizes = _sizes(options, config)  # before the text is read
    corpus = _corpus(options, config)
    return measure_ladder(configs, corpus, names, sizes, options.seeds, device, say=lambda line: say(options, line))


def _corpus(options: argparse.Namespace, config: Config) -> Corpus:
    reading = {"max_bytes": options.max_bytes, "allow_binary": options.allow_binary, "force": options.force}
    corpus = load_corpus(options.data, config.data, **reading)
    say(options, corpus.summary)
    return corpus


def _check_rule(config: Config) -> None:
    if config.model.rule.name != "learned":
        raise RltokError(
            f"model.rule.name={config.model.rule.name!r} has no policy, so there is no policy gradient to measure."
            " Take 'learned'."
        )


def _sizes(options: argparse.Namespace, config: Config) -> Sizes:
    rows = config.train.micro_batch if options.rows is None else options.rows
    more = options.draws if options.reference_draws is None else options.reference_draws
    return Sizes(rows, options.batches, options.draws, more)


def _measure_run(options: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    if options.preset or options.set:
        raise RltokError("a trained RUN brings its own settings. Leave --preset and --set out, or leave RUN out to train first.")
    if len(options.seeds) > 1:
        raise RltokError(f"a trained RUN is one model; got {len(options.seeds)} seeds. Give one, it decides rows and draws.")
    place = locate(options.run)  # once: a name of the hub is looked up over the network
    config, device, start = load_config(place), resolve_device(options.device), time.perf_counter()
    refuse_kernels(options)
    _check_rule(config)
    sizes, seed = _sizes(options, config), options.seeds[0]
    corpus = _corpus(options, config)
    text = f"{corpus.description['name']}{_elsewhere(place, corpus)}"
    say(options, f"measuring {len(names)} estimators on training rows of {text}")
    chosen = batches_of(corpus.train, sizes, seed, device)
    model = load(place).to(device).train()  # capped logits, as training draws
    measured = {"seed": seed, "stage": "trained", "step": None, **measure_stage(model, chosen, names, sizes, seed)}
    return record_of(config, corpus, [measured], sizes, device, start)


def _elsewhere(place: Path, corpus: Corpus) -> str:
    """Says so where the run was trained on another text than the one that is measured."""
    trained = trained_on(place)
    try:
        same = trained is None or trained["train"]["hash"] == corpus.description["train"]["hash"]
        return "" if same else f"; it was trained on {trained['name']}, which --data would name"
    except (KeyError, TypeError):  # damaged
        return ""


def _shown(values: list[float | None], digits: int = 3) -> str:
    value, low, high = values
    if value is None:
        return "not resolved"
    return f"{value:.{digits}g} ({'-' if low is None else f'{low:.{digits}g}'}..{'-' if high is None else f'{high:.{digits}g}'})"


def rows_shown(measures: dict[str, Any], reference_error: float | None) -> str:
    """Rows needed, "never" where the bias forbids it, or "not resolved" where the rows measured show no signal."""
    if measures["limit"][0] is None or not known(reference_error):
        return "not resolved"
    value, low, high = measures["rows_needed"]
    return (
        "never"
        if value is None
        else f"{value:,.0f} ({'-' if low is None else f'{low:,.0f}'}..{'-' if high is None else f'{high:,.0f}'})"
    )


def known(reference_error: float | None) -> bool:
    """Whether the direction of the reference is worth a cosine."""
    return reference_error is not None and reference_error <= KNOWN


def without_end(measures: dict[str, Any]) -> float:
    """Share of resamples in which no number of rows is enough: the bias forbids it, or no signal is left."""
    return measures["never"] + 1 - measures["resolved"]


def table(stage: dict[str, Any], rows: int) -> list[str]:
    """One stage as lines: for the policy's and the encoder's parameters, every estimator."""
    lines = [""]
    for group in GROUPS:
        measured = stage[group]
        error = measured["reference_error"]
        lines.append(
            f"seed {stage['seed']}, {stage['stage']}, {group} parameters, batches of {rows} rows;"
            f" standard error of the reference {'not resolved' if error is None else f'{error:.2f} of its length'}"
        )
        lines.append(
            f"  {'estimator':34s} {'variance':>27s} {'limit of cosine':>25s} {'rows to cosine 0.5':>30s} {'without end':>12s}"
        )
        for name, measures in measured["estimators"].items():
            limit = _shown(measures["limit"]) if known(error) else "not resolved"
            lines.append(
                f"  {name:34s} {_shown(measures['variance']):>27s} {limit:>25s} {rows_shown(measures, error):>30s}"
                f" {without_end(measures):>12.0%}"
            )
    return lines
