"""Updates that several processes compute together, or one alone, and all that comes of them."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from helpers import STRAIGHT_THROUGH, tiny_config

from rltok.config import Config, DataConfig, ObjectiveConfig, TrainConfig
from rltok.data import cut_documents
from rltok.data.batches import micro_batches
from rltok.data.corpus import Corpus, describe
from rltok.data.documents import Document
from rltok.errors import RltokError
from rltok.optim import make_optimizer
from rltok.ranks import Ranks
from rltok.runs import together
from rltok.runs.models import new_model
from rltok.runs.together import joined, same_state
from rltok.step import train_step

CPU = torch.device("cpu")
LENGTH = 24
ROWS = 6  # of an update
OBJECTIVE = ObjectiveConfig(lambda_policy=1.0, lambda_target=1.0, gamma=0.8)
# Rule, its settings, rows of which eq. (17) takes a mean, and how the policy is paid. Of 6 rows in an update, micro-batches of 2
# are too few for 2 processes to have whole ones, those of 3 for 3, and those of 6 for both.
CASES = {
    "boundaries given": ("even", {}, 2, {}),
    **{f"policy, {rows} rows": ("learned", {}, rows, {}) for rows in (2, 3, 6)},
    "leave one out": ("learned", {}, 6, {"centring": "leave_one_out"}),
    "not centred": ("learned", {}, 6, {"centring": "none"}),
    "whole row": ("learned", {}, 6, {"credit": "total", "gamma": 1.0}),
    "two draws": ("learned", {}, 3, {"draws": 2}),
    "two draws that train": ("learned", {}, 3, {"draws": 2, "further_draws": "train"}),
    "an antithetic pair": ("learned", {}, 3, {"draws": 2, "further_draws": "antithetic"}),
    "entropy kept up": ("learned", {}, 6, {"lambda_entropy": 1.0, "least_entropy": 0.69}),
    "no early head": ("learned", {}, 3, {"relative_rewards": False}),
    **{
        f"{rule} {variant}, {rows} rows": (rule, {"variant": variant}, rows, {})
        for rule, variant in STRAIGHT_THROUGH
        for rows in (2, 6)
    },
}


def config_of(name: str, **train) -> Config:
    """A network of width 16 and ragged rows of at most 24 bytes; no gradient is clipped."""
    rule, settings, rows, objective = CASES[name]
    sizes = {"sequences_per_update": ROWS, "micro_batch": rows, "training_bytes": 50 * ROWS * LENGTH, "clip_norm": 1e9}
    return Config(
        model=tiny_config(rule, **settings), objective=replace(OBJECTIVE, **objective),
        data=DataConfig(sequence_length=LENGTH, cut="windows"), train=TrainConfig(**sizes, **train),
    )  # fmt: skip


def corpus_of() -> Corpus:
    """Rows of 16 to 24 bytes, from documents of 16 to 61."""
    generator = np.random.default_rng(0)
    texts = [bytes(generator.choice(list(b"abc .,\xc3"), size)) for size in range(16, 62)]
    documents = [Document(text, "made", str(number)) for number, text in enumerate(texts)]
    rows = cut_documents(documents, LENGTH, "windows", name="made")
    return Corpus(rows, rows, None, {"train": describe(rows), "validation": describe(rows)})


def updates(config: Config, corpus: Corpus, ranks: Ranks, count: int) -> dict[str, np.ndarray]:
    """Metrics of each update, gradients of the last, and the weights after it."""
    model = new_model(config, CPU)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(ranks.number)  # others than process 0 begin with other weights
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    optimizer = make_optimizer(model, config.train)
    ranks = same_state(ranks, model, optimizer)
    seen = []
    for step in range(1, count + 1):
        metrics = train_step(model, optimizer, micro_batches(corpus, config, step, CPU, ranks), config, step, ranks=ranks)
        seen.append([float(value or 0) for value in metrics.to_dict().values()] + [metrics.scored_bytes, metrics.tokens])
    named = dict(model.named_parameters())
    gradients = {f"gradient of {name}": weight.grad.numpy() for name, weight in named.items() if weight.grad is not None}
    return {"metrics": np.array(seen)} | gradients | {name: weight.detach().numpy() for name, weight in named.items()}


def compute(cases: dict[str, int]) -> dict[str, dict[str, np.ndarray]]:
    """`updates` of each case, as many as it says, by the processes that torchrun started, or by this one."""
    corpus, made = corpus_of(), {}
    for rows in sorted({CASES[case][2] for case in cases}):
        these = {case: count for case, count in cases.items() if CASES[case][2] == rows}
        with joined(config_of(next(iter(these))), corpus, CPU) as ranks:
            made |= {case: updates(config_of(case), corpus, ranks, count) for case, count in these.items()}
    return made


def write_updates(cases: dict[str, int], folder: str, number: int) -> None:
    """`compute` in one of the processes of a job, into a file for each case."""
    for case, arrays in compute(cases).items():
        np.savez(Path(folder, f"{case} {number}.npz"), **arrays)


def unlike(code: str = "1", precision: str = "float32", backend: str = "plain") -> None:
    """Meet with other processes, as if this one had code of that digest, or a card of that precision or with that backend.

    An error ends it as a command would.
    """
    together._code = lambda: code
    together.precision_of = lambda *_: getattr(torch, precision)
    together.backend_of = lambda *_: (backend, "for a test")
    try:
        compute({"policy, 6 rows": 1})
    except RltokError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(2)


def fail_twice() -> None:
    """Fail in a run, and say what comes of the next one."""
    for _ in range(2):
        try:
            with joined(config_of("policy, 6 rows"), corpus_of(), CPU):
                raise RltokError("the first run fails.")
        except RltokError as error:
            print(error, file=sys.stderr, flush=True)
