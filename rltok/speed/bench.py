"""How fast whole updates are: an arm on the backend at hand, plain PyTorch beside it, and what both are measured against.

Updates run at learning rate 0: AdamW does all its work and the weights stay, so every update draws at the target rate.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from rltok.config import Config, with_settings
from rltok.data import Corpus
from rltok.data.batches import Prefetcher
from rltok.device import PRECISIONS, backend_of, gradient_scaler, precision_of
from rltok.errors import RltokError
from rltok.flops import attention_flops_per_byte, flops_per_byte
from rltok.kernels import backends
from rltok.metrics import StepMetrics
from rltok.optim import make_optimizer
from rltok.presets import check_batch_fits
from rltok.runs.memory import Step, peak_bytes, smaller_sizes, with_oom_advice
from rltok.runs.models import new_model
from rltok.runs.results import device_name, origin
from rltok.speed.kernel_times import compilations, time_split
from rltok.speed.policy_cost import check as check_cost
from rltok.speed.policy_cost import policy_cost
from rltok.speed.speeds import FULL_UPDATES
from rltok.step import train_step
from rltok.system.stopwatch import stopwatch

BENCH_SCHEMA = 1
BENCH_RECORD = "rltok bench"  # how the description of a record begins
PLAIN_UPDATES = 5  # beside kernels
WARM_UP = 3  # updates, the first of which compiles
PRODUCT_SIZE = {"cuda": 8192, "cpu": 1024}  # of the square matrices that are multiplied
PRODUCTS = 20  # timed
# Dense multiply-adds in bf16 and, as fast, in fp16, counted as two operations, per second, by the name that CUDA gives a card:
# NVIDIA's datasheets, whose rates for sparse matrices are halved (L4, H100, H200). Another variant of a card has another rate.
DATASHEET_RATES = {
    "NVIDIA L4": 121e12,
    **dict.fromkeys(("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB", "A100-SXM4-40GB", "A100-PCIE-40GB"), 312e12),
    **dict.fromkeys(("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"), 312e12),
    **dict.fromkeys(("NVIDIA H100 80GB HBM3", "NVIDIA H200"), 989.5e12),
}


Guard = Callable[..., StepMetrics]


def _without_advice(step: Step, *arguments: Any) -> StepMetrics:
    return step(*arguments)


@dataclass(frozen=True)
class Plan:
    """The size of a measurement."""

    updates: int
    plain_updates: int | None = None  # None: 5 beside kernels, 0 where the first arm is plain itself
    plain_micro_batch: int | None = None  # None: as many rows as fit
    policy_repeats: int | None = None  # that time the policy; None: none

    def check(self, config: Config) -> None:
        """Raise `RltokError` for what cannot be measured, before anything is."""
        if self.updates < 1:
            raise RltokError(f"--updates must be at least 1; got {self.updates}. {FULL_UPDATES} make a full record.")
        if self.plain_updates is not None and self.plain_updates < 0:
            raise RltokError(f"--plain-updates must be at least 0; got {self.plain_updates}. 0 leaves plain PyTorch out.")
        if self.plain_micro_batch is not None:
            try:
                with_settings(config, {"train.micro_batch": self.plain_micro_batch})
            except RltokError as error:
                raise RltokError(f"--plain-micro-batch: {error}") from error
        if self.policy_repeats is not None:
            check_cost(config, self.policy_repeats)


def bench(
    config: Config, corpus: Corpus, device: torch.device, plan: Plan, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Measure, and return the record.

    Args:
        config: what to time; its learning rate is not used.
        corpus: text, at least one update of it; rows repeat where it is short.
        device: where.
        plan: how much.
        say: called with a line of progress.

    Raises:
        RltokError: too little text or memory, a plan or a backend that cannot be had.
    """
    plan.check(config)
    check_batch_fits(config, len(corpus.train), corpus.train.total_bytes)
    backend, why = backend_of(config, device)
    if backend == "triton" and backends.interpreted():
        raise RltokError("TRITON_INTERPRET=1 is for tests: kernels that it runs say nothing of speed. Unset it to measure.")
    still = with_settings(config, {"train.warmup_fraction": 1.0, "train.warmup_start": 0.0})  # step 1 has learning rate 0
    plain_updates = plan.plain_updates
    if plain_updates is None:
        plain_updates = 0 if backend == "plain" else PLAIN_UPDATES
    product = product_rate(device, precision_of(config, device))
    say(f"backend {backend}: {why}; {plan.updates} updates of {config.bytes_per_update / 1e6:.2f} MB at learning rate 0")
    main = measure_arm(still, corpus, device, backend, plan.updates, with_oom_advice, product)
    plain = None
    if plain_updates:
        say(f"plain PyTorch: {plain_updates} updates")
        plain = plain_arm(still, corpus, device, plain_updates, plan.plain_micro_batch, product)
    cost = None
    if plan.policy_repeats is not None:
        say(f"cost of the policy: {plan.policy_repeats} repeats")
        with backends.use(backend):
            cost = policy_cost(still, corpus, device, plan.policy_repeats)
    return {
        "schema": BENCH_SCHEMA,
        "what": f"{BENCH_RECORD}: whole updates, data and optimizer included, at learning rate 0",
        **origin(config, corpus.description, device),
        "precision": PRECISIONS[precision_of(config, device)],
        "full": plan.updates >= FULL_UPDATES,
        "why_backend": why,
        "product": product,
        "arm": main,
        "plain": plain,
        "ratio": None if plain is None else main["bytes_per_second"] / plain["bytes_per_second"],
        "policy_cost": cost,
    }


def measure_arm(
    config: Config, corpus: Corpus, device: torch.device, backend: str, updates: int, guard: Guard, product: dict[str, Any]
) -> dict[str, Any]:
    """A fresh model, warmed up and timed on one backend; `guard` does an update with a step."""
    cuda = device.type == "cuda"
    with backends.use(backend):
        if cuda:
            torch.cuda.empty_cache()  # what an arm before this one left is none of its memory
            torch.cuda.reset_peak_memory_stats(device)
        model = new_model(config, device).train()
        model.rule.fit(corpus.train, config.train.seed)
        optimizer, batches = make_optimizer(model, config.train), Prefetcher(corpus, config, device, WARM_UP + updates + 1)
        step = partial(train_step, after_backward=batches.prepare, scaler=gradient_scaler(config, device))

        def update(number: int) -> StepMetrics:
            return guard(step, model, optimizer, batches(number), config, 1)

        warm_up = [stopwatch(partial(update, number), device)[0] for number in range(1, WARM_UP + 1)]
        built = compilations()
        timed = [stopwatch(partial(update, number), device) for number in range(WARM_UP + 1, WARM_UP + 1 + updates)]
        built = compilations() - built
        peak = peak_bytes(model, device) if cuda else None
        split = time_split(partial(update, WARM_UP + 1 + updates), device)
    seconds = [spent for spent, _ in timed]
    scored = [metrics.scored_bytes for _, metrics in timed]
    tokens = statistics.fmean(metrics.to_dict()["tokens_per_byte"] for _, metrics in timed)
    return {
        "backend": backend,
        "micro_batch": config.train.micro_batch,
        "updates": updates,
        "cold_start_seconds": warm_up[0],
        "warm_up_seconds": warm_up[1:],
        "seconds": seconds,
        "bytes": scored,
        "tokens_per_byte": tokens,
        "peak_memory_bytes": peak,
        "compilations_after_warm_up": built,
        **speeds(config, device, tokens, [size / spent for size, spent in zip(scored, seconds, strict=True)], product["rate"]),
        "time_split": split,
    }


def speeds(config: Config, device: torch.device, tokens: float, rates: list[float], product: float) -> dict[str, Any]:
    """Median and quartiles of bytes/s, and what they are in FLOPs: with attention, and without as the paper counts."""
    middle = statistics.median(rates)
    quarters = statistics.quantiles(rates, n=4, method="inclusive") if len(rates) > 1 else [middle] * 3
    without = flops_per_byte(config.model, tokens)
    whole = without + attention_flops_per_byte(config.model, tokens, config.data.sequence_length)
    narrow = precision_of(config, device) != torch.float32
    sheet = DATASHEET_RATES.get(device_name(device)) if narrow else None
    flops = {"without_attention": without, "with_attention": whole}
    return {
        "bytes_per_second": middle,
        "quartiles": [quarters[0], quarters[2]],
        "flops_per_byte": flops,
        "flops_per_second": {key: middle * value for key, value in flops.items()},
        "share_of_product": {key: middle * value / product for key, value in flops.items()},
        "share_of_datasheet": None if sheet is None else {key: middle * value / sheet for key, value in flops.items()},
    }


def plain_arm(
    config: Config, corpus: Corpus, device: torch.device, updates: int, micro_batch: int | None, product: dict[str, Any]
) -> dict[str, Any]:
    """Plain PyTorch, at the micro-batch given or at the largest one that gets through.

    Raises:
        RltokError: none does.
    """
    sizes = [config.train.micro_batch, *smaller_sizes(config)] if micro_batch is None else [micro_batch]
    for rows in sizes:
        arm = with_settings(config, {"train.micro_batch": rows})
        try:
            return measure_arm(arm, corpus, device, "plain", updates, _without_advice, product)
        except torch.OutOfMemoryError:
            pass  # leaving the block lets go of what the traceback holds
        if device.type == "cuda":
            torch.cuda.empty_cache()
    raise RltokError(
        f"out of memory in plain PyTorch at {', '.join(map(str, sizes))} rows per forward pass."
        " Leave it out with --plain-updates 0, or lower --plain-micro-batch."
    )


def product_rate(device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Operations a second of a large matrix product of random numbers: median of several, what this machine reaches today."""
    size = PRODUCT_SIZE[device.type]
    generator = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(size, size, device=device, generator=generator).to(dtype) for _ in range(2))
    seconds = [stopwatch(lambda: a @ b, device)[0] for _ in range(WARM_UP + PRODUCTS)][WARM_UP:]
    return {"size": size, "dtype": str(dtype).removeprefix("torch."), "rate": 2 * size**3 / statistics.median(seconds)}
