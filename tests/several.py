"""Updates that several processes compute together, or one alone, and everything that came of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from helpers import tiny_config

from rltok.config import Config, DataConfig, ObjectiveConfig, TrainConfig
from rltok.data import cut_documents
from rltok.data.batches import micro_batches
from rltok.data.corpus import Corpus, describe
from rltok.data.documents import Document
from rltok.optim import make_optimizer
from rltok.ranks import ALONE, Ranks
from rltok.runs.models import new_model
from rltok.runs.together import joined, same_state
from rltok.step import train_step

CPU = torch.device("cpu")
LENGTH = 24
ROWS = 6  # of an update
OBJECTIVE = ObjectiveConfig(lambda_policy=1.0, lambda_target=1.0, gamma=0.8)
# What is learned, and the rows of which eq. (17) takes a mean: whole micro-batches for each process, or a part of one for each.
RULES = [("learned", {}), ("even", {}), ("random_k", {}), ("whitespace", {}), *(
    (rule, {"variant": variant}) for rule, variants in (("dynamic_pooling", ("faithful", "authors")), ("hnet", ("faithful", "port")))
    for variant in variants
)]  # fmt: skip
CASES = {f"{rule} {settings.get('variant', '')} of {rows}": (rule, settings, rows, {}) for rule, settings in RULES for rows in (2, 6)}
CASES |= {
    f"learned {name} of {rows}": ("learned", {}, rows, objective)
    for name, objective in {
        "centred": {}, "left out": {"centring": "leave_one_out"}, "not centred": {"centring": "none"},
        "whole row": {"credit": "total", "gamma": 1.0}, "no early head": {"relative_rewards": False},
    }.items() for rows in (2, 3, 6)
}  # fmt: skip


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


def compute(cases: dict[str, int], ranks: Ranks | None, folder: str = "") -> dict[str, dict[str, np.ndarray]]:
    """`updates` of each case, as many as it says; `ranks` None: in processes that torchrun started."""
    corpus, made = corpus_of(), {}
    for name, count in cases.items():
        config = config_of(name)
        if ranks is not None:
            made[name] = updates(config, corpus, ranks, count)
            continue
        with joined(config, corpus, CPU) as these:
            made[name] = updates(config, corpus, these, count)
    return made


def write_updates(cases: dict[str, int], folder: str, number: int) -> None:
    """`compute` in one of the processes of a job, into a file for each case."""
    for case, arrays in compute(cases, None).items():
        np.savez(Path(folder, f"{case} {number}.npz"), **arrays)


def alone(cases: dict[str, int]) -> dict[str, dict[str, np.ndarray]]:
    """`compute` in this process."""
    return compute(cases, ALONE)
