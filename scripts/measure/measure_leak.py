"""How much BPE boundaries tell of bytes to come: shifted against causal, and both against random places, in bits per byte.

    python scripts/measure/measure_leak.py --seeds 0 1 2 --out notebooks/results/bpe_leak.json

Three measurements on the bundled sample:

* `words`, without any training: how much better is the next byte of a word told from the word's beginning and its boundary
  bits than from its beginning alone, by counts of the training text's words? Causal bits follow from the beginning, so
  they tell 0 by construction.
* `unet`, for every seed: the preset tiny with shifted BPE, causal BPE, shifted BPE of a smaller vocabulary that draws as
  often as the causal one, and for both constructions as many boundaries at random places. Rules differ in where the
  tokens lie, so no gap here is the leak alone; those at equal rate come nearest.
* `probe`, for every seed: one small byte model without tokens that is told the boundary bits up to the byte from which it
  predicts: none, causal or shifted. Causal bits are a function of bytes that it could see, so they hold no news, whatever
  tokens are good for; shifted bits do. But a small model is also spared work by bits it could compute, so the difference of
  the two is the leak less that help. Its window is longer than nearly all tokens.

The last two also say where the bits are saved: by the place of the predicted byte in its token, and by the token's length,
as the whole segmentation has them. Scores are of the validation split; `--test` takes the test split, once at the end.
The byte window of tiny is 4, so that its decoder knows the older bytes of a long word from tokens alone.
"""

import argparse
import math
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from leak_words import fitted, measure_words
from torch import Tensor, nn

from rltok.config import Config, with_settings
from rltok.data import Corpus, Rows, load_corpus
from rltok.evaluation import evaluate, evaluation_mode, paired_difference
from rltok.evidence.measuring import at_least, run, stored_record
from rltok.evidence.rates import text_rates
from rltok.presets import preset
from rltok.rules.bpe import BpeRule
from rltok.rules.entropy import ByteModel
from rltok.runs.loading import load
from rltok.runs.results import device_name, repository_commit, versions
from rltok.runs.training import train
from rltok.system.files import write_json
from rltok.system.workers import end_with_parent, stopping
from rltok.vocab import EOS, PAD, PREDICTED

WHAT = "the leak of BPE boundaries on the bundled sample: preset tiny and a byte model told the boundary bits"
BATCH = 16
PROBE_BATCH = 4  # smaller, for more updates from the same bytes
WORD_VOCABULARIES = (2048, 8192, 200_000)
PLACES = ("first byte", "second and third", "fourth and later")  # of the predicted byte in its token
UNETS = ("shifted", "random as shifted", "causal", "random as causal", "shifted as often as causal")
PROBES = ("no bits", "shifted bits", "causal bits")
PAIRS = (  # a, b: b's bits per byte minus a's
    ("shifted as often as causal", "causal"),
    ("shifted", "causal"),
    ("shifted", "random as shifted"),
    ("causal", "random as causal"),
)
LENGTHS = ("1 to 3 bytes", "4 to 6 bytes", "7 and more")  # of that token


def smaller_vocabulary(config: Config, tokens: float, corpus: Corpus, rows: Rows) -> int:
    """The vocabulary with which shifted BPE makes about so many tokens per byte; fewer ids make more tokens."""
    low, high = 256, fitted(config, corpus).reached_vocabulary
    while high - low > 16:
        middle = (low + high) // 2
        rule = fitted(with_settings(config, {"model.rule.vocabulary": middle}), corpus)
        more = text_rates(rule, rows, batch=256).tokens_per_byte > tokens
        low, high = (middle, high) if more else (low, middle)
    return high


def configs(options: argparse.Namespace, corpus: Corpus, rows: Rows) -> dict[str, Config]:
    """The five runs, but for their seeds. Rates are matched on the rows that will be scored, fitted with the preset's seed."""
    made = {}
    for kind in ("shifted", "causal"):
        settings = {"model.rule.vocabulary": options.vocabulary, "train.evaluate_every": 10_000}
        if options.training_bytes is not None:
            settings["train.training_bytes"] = options.training_bytes
        made[kind] = with_settings(preset("tiny_bpe" if kind == "shifted" else "tiny_bpe_causal"), settings)
        tokens = text_rates(fitted(made[kind], corpus), rows, batch=256).tokens_per_byte
        changes = {"model.rule.name": "random_k", "model.rule.target_rate": tokens, "name": f"tiny_random_as_{kind}"}
        made[f"random as {kind}"] = with_settings(made[kind], changes)
    fewer = smaller_vocabulary(made["shifted"], tokens, corpus, rows)
    made["shifted as often as causal"] = with_settings(made["shifted"], {"model.rule.vocabulary": fewer})
    return made


def bits_of(rule: BpeRule, ids: Tensor) -> Tensor:
    """Boundaries of the rule for every position of ids [B, n]."""
    return rule.decide(torch.zeros(*ids.shape, 0), ids, torch.zeros(ids.shape)).boundaries


class Places:
    """Sums of bits by the place of the predicted byte in its token, and by that token's length."""

    def __init__(self, rule: BpeRule) -> None:
        self.rule = rule
        self.sums = torch.zeros(len(PLACES), len(LENGTHS), 2, dtype=torch.float64)  # bits, bytes

    def add(self, ids: Tensor, nll: Tensor) -> None:
        """Take in nll [B, N] of predicting ids[:, 1:], nats."""
        starts = bits_of(self.rule, ids)
        starts[:, 1] = True  # the first token of a text starts there
        token = starts.long().cumsum(1)
        index = torch.arange(ids.shape[1]).expand_as(ids)
        first = torch.where(starts, index, 0).cummax(1).values
        size = torch.zeros(len(ids), int(token.max()) + 1, dtype=torch.long).scatter_add_(1, token, torch.ones_like(token))
        length, place = size.gather(1, token)[:, 1:], (index - first)[:, 1:]
        scored = ids[:, 1:] < 256
        kind = (
            torch.bucketize(place.contiguous(), torch.tensor([0, 2])),
            torch.bucketize(length.contiguous(), torch.tensor([3, 6])),
        )
        for values, column in ((nll.double() / math.log(2), 0), (torch.ones_like(nll).double(), 1)):
            self.sums[..., column].index_put_((kind[0][scored], kind[1][scored]), values[scored], accumulate=True)

    def to_dict(self) -> dict[str, Any]:
        """Bits per byte and number of bytes of every class."""

        def table(sums: Tensor, names: tuple[str, ...]) -> dict[str, Any]:
            return {
                name: {"bits": bits / max(1, n), "bytes": int(n)} for name, (bits, n) in zip(names, sums.tolist(), strict=True)
            }

        return {"by_place": table(self.sums.sum(1), PLACES), "by_length": table(self.sums.sum(0), LENGTHS)}


def run_unet(config: Config, corpus: Corpus, rows: Rows, places: Places, out: Path) -> tuple[dict[str, Any], Any]:
    """Train and score one model; its numbers, and the evaluation for paired differences."""
    start = time.perf_counter()
    record = train(config, corpus, out, device="cpu")
    model = load(out)
    score = evaluate(model, rows, seed=config.train.seed, batch=BATCH)
    with evaluation_mode(model), torch.no_grad():
        for first in range(0, len(rows), BATCH):
            ids = rows.ids(range(first, min(len(rows), first + BATCH)))
            places.add(ids, model(ids).nll)
    numbers = score.to_dict() | places.to_dict() | {"fitted": record.fitted, "config_hash": config.digest()}
    return numbers | {"seconds": round(time.perf_counter() - start, 1)}, score


class Probe(nn.Module):
    """A byte model that is also told a bit at every position."""

    def __init__(self) -> None:
        super().__init__()
        self.body = ByteModel(dim=64, layers=2, window=16, norm_eps=1e-6, rope_theta=10000.0)
        self.bits = nn.Embedding(2, 64)
        nn.init.zeros_(self.bits.weight)

    def forward(self, ids: Tensor, bits: Tensor) -> Tensor:
        """NLL [B, N] in nats of ids[:, 1:], 0 where it is PAD."""
        handle = self.body.embedding.register_forward_hook(lambda _, __, states: states + self.bits(bits.long()))
        log_probs = self.body(ids[:, :-1])
        handle.remove()
        targets = ids[:, 1:].masked_fill(ids[:, 1:] == EOS, PREDICTED.index(EOS))
        nll = nn.functional.nll_loss(log_probs.transpose(1, 2), targets.masked_fill(targets == PAD, 0), reduction="none")
        return nll.masked_fill(ids[:, 1:] == PAD, 0.0)


def run_probe(rule: BpeRule | None, corpus: Corpus, rows: Rows, places: Places, seed: int, budget: int) -> dict[str, Any]:
    """Train the probe with a rule's bits (None: all 0), score it; bits per byte by row as well."""
    torch.manual_seed(seed)
    probe, generator = Probe(), torch.Generator().manual_seed(seed)

    def bits(ids: Tensor) -> Tensor:
        return torch.zeros_like(ids[:, :-1]) if rule is None else bits_of(rule, ids[:, :-1])

    steps = max(1, budget // (PROBE_BATCH * corpus.train.sequence_length))
    optimizer = torch.optim.AdamW(probe.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: min(1.0, (done + 1) / 50) * (1 - done / (steps + 1)))
    for _ in range(steps):
        ids = corpus.train.ids(torch.randint(len(corpus.train), (PROBE_BATCH,), generator=generator).numpy())
        optimizer.zero_grad()
        (probe(ids, bits(ids)).sum() / (ids[:, 1:] != PAD).sum()).backward()
        nn.utils.clip_grad_norm_(probe.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    per_row, total, scored = [], 0.0, 0
    with torch.no_grad():
        for first in range(0, len(rows), BATCH):
            ids = rows.ids(range(first, min(len(rows), first + BATCH)))
            nll, counts = probe(ids, bits(ids)), (ids[:, 1:] != PAD).sum(1)
            places.add(ids, nll)
            per_row += (nll.sum(1) / counts / math.log(2)).tolist()
            total, scored = total + float(nll.double().sum()), scored + int(counts.sum())
    return {"bits_per_byte": total / scored / math.log(2), "row_bits": per_row} | places.to_dict()


def saved(less: list[float], more: list[float]) -> dict[str, float]:
    """Mean over rows of more - less, with its standard error."""
    gaps = torch.tensor(more, dtype=torch.float64) - torch.tensor(less, dtype=torch.float64)
    return {"bits_per_byte": float(gaps.mean()), "standard_error": float(gaps.std() / math.sqrt(len(gaps)))}


Task = tuple[int, str, str]  # seed, "unet" or "probe", name


def tasks(seeds: Sequence[int]) -> list[Task]:
    """Everything that is trained; independent of each other."""
    return [(seed, kind, name) for seed in seeds for kind, names in (("unet", UNETS), ("probe", PROBES)) for name in names]


def run_task(task: Task, runs: dict[str, Config], corpus: Corpus, rows: Rows) -> tuple[dict[str, Any], Any]:
    """Train and score one model; its numbers, and what paired differences need."""
    seed, kind, name = task
    made = {run: with_settings(config, {"train.seed": seed}) for run, config in runs.items()}
    places = Places(fitted(made["shifted"], corpus))
    if kind == "unet":
        with tempfile.TemporaryDirectory() as folder:
            numbers, bits = run_unet(made[name], corpus, rows, places, Path(folder) / "run")
    else:
        rule = fitted(made[name.removesuffix(" bits")], corpus) if name != "no bits" else None
        numbers = run_probe(rule, corpus, rows, places, seed, made["shifted"].train.training_bytes)
        bits = numbers.pop("row_bits")
    print(f"seed {seed}, {kind}, {name}: {numbers['bits_per_byte']:.4f} bits per byte", flush=True)
    return numbers, bits


_shared: list[Any] = []  # of a worker process


def _start_worker(*shared: Any) -> None:
    end_with_parent()
    torch.set_num_threads(1)
    _shared.extend(shared)


def _in_worker(task: Task) -> tuple[dict[str, Any], Any]:
    return run_task(task, *_shared)


def run_all(options: argparse.Namespace, corpus: Corpus, rows: Rows) -> list[dict[str, Any]]:
    """Both measurements for every seed, `--jobs` models at a time."""
    wanted, runs = tasks(options.seeds), configs(options, corpus, rows)
    if options.jobs == 1:
        done = [run_task(task, runs, corpus, rows) for task in wanted]
    else:
        context = multiprocessing.get_context("spawn")
        with (
            ProcessPoolExecutor(options.jobs, context, _start_worker, (runs, corpus, rows)) as pool,
            stopping(pool, options.jobs, "Take --jobs 1."),
        ):
            done = list(pool.map(_in_worker, wanted))
    results = dict(zip(wanted, done, strict=True))
    return [of_seed(seed, results) for seed in options.seeds]


def of_seed(seed: int, results: dict[Task, tuple[dict[str, Any], Any]]) -> dict[str, Any]:
    """The numbers of one seed with their paired differences."""
    unet = {name: results[seed, "unet", name] for name in UNETS}
    probe = {name: results[seed, "probe", name] for name in PROBES}
    differences = {f"{b} - {a}": paired_difference(unet[b][1], unet[a][1]) for a, b in PAIRS}
    gaps = {name: {"bits_per_byte": gap.bits, "standard_error": gap.error_units} for name, gap in differences.items()}
    leak = {
        "causal bits - shifted bits": saved(probe["shifted bits"][1], probe["causal bits"][1]),
        "no bits - causal bits": saved(probe["causal bits"][1], probe["no bits"][1]),
    }
    numbers = {kind: {name: one[0] for name, one in runs.items()} for kind, runs in (("unet", unet), ("probe", probe))}
    return {"seed": seed, "unet": numbers["unet"], "unet_gaps": gaps, "probe": numbers["probe"], "probe_gaps": leak}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Every seed, with everything that names the measurement."""
    config = preset("tiny_bpe")
    with_settings(config, {"model.rule.vocabulary": options.vocabulary})  # refuses an impossible one before anything is fitted
    corpus = load_corpus("sample", config.data)
    rows = corpus.test if options.test else corpus.validation
    if options.rows is not None:
        rows = rows.subset(slice(0, options.rows))
    return {
        "schema": 1,
        "what": WHAT,
        "split": "test" if options.test else "validation",
        "vocabulary": options.vocabulary,
        "full": options.training_bytes is None and options.rows is None,
        "config": config.to_dict(),
        "config_hash": config.digest(),
        "data": corpus.description,
        "commit": repository_commit(),
        "device": device_name(torch.device("cpu")),
        "versions": versions(),
        "words": {
            str(v): measure_words(fitted(with_settings(config, {"model.rule.vocabulary": v}), corpus), corpus, rows)
            for v in WORD_VOCABULARIES
        },
        "runs": run_all(options, corpus, rows),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--test", action="store_true", help="score the test split instead of the validation split")
    parser.add_argument("--vocabulary", type=int, default=200_000)
    parser.add_argument("--training-bytes", type=int, help="a shorter run, marked as not full")
    parser.add_argument("--jobs", type=int, default=1, help="so many models at a time, one thread each")
    parser.add_argument("--rows", type=int, help="score the first so many rows only, marked as not full")
    options = parser.parse_args()
    at_least(1, jobs=options.jobs, training_bytes=options.training_bytes)
    at_least(2, rows=options.rows)
    options.seeds = list(dict.fromkeys(options.seeds))
    stored_record(options.out, WHAT)  # before anything is run
    write_json(options.out, measure(options))


if __name__ == "__main__":
    run(main)
