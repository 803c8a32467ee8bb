"""Does the estimator find boundaries whose worth is known? Runs on the toy language, about a minute each on one core.

    python scripts/measure/measure_toy.py --seeds 0 1 2 --out notebooks/results/toy.json

For every seed and lexicon ("early": the first letter tells words apart; "late": only the last one does):

* the policy trained by every rung of the ladder, from naive REINFORCE to the full estimator (of "late": naive and full); naive
  twice, the second time with a fiftieth of the weight, as its advantages are tens of times as large as the full estimator's;
* the oracle, with a boundary at every word end, and boundaries at random places as often, both of the same size and budget;
* a boundary at another letter of every word (of "early" the first, of "late" the first and the second), and of "early" random
  places as often as naive draws, which is more often than it is asked for;
* "independent", where no word foretells another: the full estimator, as a control.

Runs that the file holds already, of the same settings, stay in it and are not made again; each says with which code and where
it was made. The record is written after every run. `--jobs` runs at a time, one thread each; `--training-bytes` for shorter
runs, marked as not full. Curves are of validation rows; `test` is one look at other rows at the end, which nothing was
chosen by.
"""

import argparse
import functools
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from rltok.evidence.measuring import at_least, run, stored_runs
from rltok.evidence.toy.lexicon import WORDS
from rltok.evidence.toy.measures import CONTROLS, LETTERS, MORE_RANDOM, ORACLE, RANDOM, Run, key_of, shares
from rltok.evidence.toy.runs import ESTIMATORS, FULL, QUIET, Arm, run_arm, toy_corpus
from rltok.runs.results import device_name, repository_commit, versions
from rltok.system.files import write_json
from rltok.system.workers import end_with_parent, stopping

WHAT = "estimators on the toy language, with boundaries at word ends and at random places beside them"
LOOKS = 40  # of a run
LETTER1, LETTER2 = LETTERS
NAMES = (*CONTROLS, *ESTIMATORS)


def arms_of(seeds: Sequence[int]) -> list[Arm]:
    """All runs, seed by seed, those with an oracle beside them first."""
    made = []
    for seed in seeds:
        made += [Arm(words, "second", name, seed) for name in (FULL, ORACLE, RANDOM, "naive", QUIET) for words in WORDS]
    for seed in seeds:
        made += [Arm("early", "second", name, seed) for name in ESTIMATORS if name not in (FULL, "naive", QUIET)]
        made += [Arm("early", "independent", FULL, seed)]
        made += [Arm(words, "second", LETTER1, seed) for words in WORDS]
        made += [Arm("late", "second", LETTER2, seed), Arm("early", "second", MORE_RANDOM, seed)]
    return made


def settings_of(training_bytes: int | None) -> dict[str, Any]:
    """Settings of all runs on top of those of `toy_runs`."""
    return {} if training_bytes is None else {"train.training_bytes": training_bytes}


def rounded(values: Any) -> Any:
    """The same with five decimals."""
    if isinstance(values, dict):
        return {key: rounded(value) for key, value in values.items()}
    if isinstance(values, list):
        return [rounded(value) for value in values]
    return round(values, 5) if isinstance(values, float) else values


def one_run(arm: Arm, settings: dict[str, Any]) -> Run:
    """A run as the record has it; one thread, so that runs at a time do not slow each other down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        made = run_arm(arm, settings, LOOKS)
        del made["data"]  # stands once in the record
        return rounded(made) | {"commit": repository_commit(), "device": device_name(torch.device("cpu"))}
    finally:
        torch.set_num_threads(before)


def results(arms: Sequence[Arm], settings: dict[str, Any], jobs: int) -> Iterator[Run]:
    """Runs as they are done, in this process or in so many others."""
    if jobs == 1:
        yield from (one_run(arm, settings) for arm in arms)
        return
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(jobs, mp_context=context, initializer=end_with_parent) as pool,
        stopping(pool, jobs, "Run the same command again with --jobs 1: what is done stays."),
    ):
        yield from (done.result() for done in as_completed([pool.submit(one_run, arm, settings) for arm in arms]))


@functools.cache
def language_of(words: str, order: str, training_bytes: int | None) -> dict[str, Any]:
    """A language's exact numbers, its text, and what a reader who knows it needs for the scored rows."""
    arm = Arm(words, order, ORACLE, 0)
    language = arm.language
    corpus = toy_corpus(language, arm.config(settings_of(training_bytes)))
    return {
        "words": words,
        "order": order,
        "lexicon": [word.decode("latin-1") for word in WORDS[words]],
        "entropy_rate": language.entropy_rate,
        "bytes_per_word": language.bytes_per_word,
        "validation_bits_per_byte": float(language.bits(corpus.validation.bytes_).mean()),
        "test_bits_per_byte": float(language.bits(corpus.test.bytes_).mean()),
        "data": corpus.description,
    }


def record_of(runs: Sequence[Run], training_bytes: int | None) -> dict[str, Any]:
    """The runs in order, with everything that names the measurement."""
    order = [*WORDS, "second", "independent"]
    runs = sorted(runs, key=lambda r: (order.index(r["words"]), order.index(r["order"]), NAMES.index(r["name"]), r["seed"]))
    shared = Arm("early", "second", FULL, 0).config(settings_of(training_bytes))
    read = dict.fromkeys((one["words"], one["order"]) for one in runs)
    return rounded(
        {
            "schema": 1,
            "what": WHAT,
            "full": training_bytes is None,
            "config": shared.to_dict(),  # of all runs, but for rule, estimator and seed
            "config_hash": shared.digest(),
            "versions": versions(),
            "languages": [language_of(*language, training_bytes) for language in read],
            "shares": shares(runs),
            "runs": runs,
        }
    )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All runs that are missing; an interruption loses only what is under way."""
    settings = settings_of(options.training_bytes)
    runs = stored_runs(
        options.out, WHAT, key_of, lambda one: Arm(*key_of(one)).config(settings),
        lambda runs: record_of(runs, options.training_bytes),
    )  # fmt: skip
    have = {key_of(one) for one in runs}
    arms = [arm for arm in arms_of(options.seeds) if (arm.words, arm.order, arm.name, arm.seed) not in have]
    for number, one in enumerate(results(arms, settings, options.jobs), start=1):
        runs.append(one)
        write_json(options.out, record_of(runs, options.training_bytes))
        line = f"{one['words']} {one['order']} {one['name']}, seed {one['seed']}: {one['seconds']:.0f} s"
        print(f"{number}/{len(arms)}  {line}, {one['test']['bits_per_byte']:.3f} bits per byte", file=sys.stderr, flush=True)
    return record_of(runs, options.training_bytes)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--training-bytes", type=int, help="shorter runs, marked as not full")
    parser.add_argument("--jobs", type=int, default=1, help="so many runs at a time, one thread each")
    options = parser.parse_args()
    at_least(1, jobs=options.jobs, training_bytes=options.training_bytes)
    at_least(0, seeds=min(options.seeds))
    options.seeds = list(dict.fromkeys(options.seeds))
    record = measure(options)
    write_json(options.out, record)
    for line in record["shares"]:
        print(f"{line['words']:6s} {line['name']:30s} share of the oracle's gain {line['mean_share']:.3f}")


if __name__ == "__main__":
    run(main)
