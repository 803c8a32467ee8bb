"""`make demo`: boundaries of a model that comes with rltok; then train a tiny one on bundled text, show where it learned to end
its tokens, compare with random boundaries."""

import json
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rltok.byte_classes import CLASSES
from rltok.config import Config, with_settings
from rltok.data import FIXED_TEXTS, Corpus, load_corpus
from rltok.device import backend_of, resolve_device
from rltok.evaluation import Evaluation, evaluate, paired_difference
from rltok.presets import preset
from rltok.runs.loading import load
from rltok.runs.models import new_model
from rltok.runs.shipped import facts_of, weights_of
from rltok.runs.snapshots import boundary_view
from rltok.runs.training import train
from rltok.show.terminal import legend, paint, paint_view
from rltok.system.files import check_name, new_folder, quoted

SHIPPED = "small-english"
SMOKE_BYTES = 12 * 8192
SHOWN_BYTES = 420
SHOWN_CLASSES = ("space", "word start", "letter", "punctuation")


def demo_config(seed: int, smoke: bool) -> Config:
    """The preset `tiny` at full or smoke size."""
    settings: dict[str, Any] = {"train.seed": seed}
    if smoke:
        settings |= {"train.training_bytes": SMOKE_BYTES, "train.evaluate_rows": 8}
    return with_settings(preset("tiny"), settings)


def rate_matched_random(config: Config, tokens_per_byte: float) -> Config:
    """The same run with boundaries at random places, as many as the learned model came to draw."""
    return with_settings(
        config, {"model.rule.name": "random_k", "model.rule.target_rate": min(tokens_per_byte, 0.999), "name": "tiny_random_k"}
    )


def passage(corpus: Corpus) -> bytes:
    """Some lines of held-out text, from the first full row of the test split, ending at a space."""
    text = bytes(corpus.test.bytes_[1][:SHOWN_BYTES])
    return text[: text.rfind(b" ")]


def show_shipped(own: bytes | None, device: torch.device, seed: int, colour: bool, tell: Callable[[str], None]) -> dict[str, str]:
    """Show a paragraph, and the user's text if there is one, with boundaries of a trained model; returns them without colour."""
    model = load(weights_of(SHIPPED)).to(device)
    tell(f"{SHIPPED}, a model of {facts_of(SHIPPED)['parameters']:,d} parameters that comes with rltok, ends its tokens here:\n")
    plain, views = {}, []
    for name, text in {"paragraph": FIXED_TEXTS["prose"].encode(), "text": own}.items():
        if text is not None:
            view = boundary_view(model, text, seed)
            tell(paint_view(text, view, colour) + "\n")
            views.append((text, view["boundaries"]))
            plain[name] = paint(text, view["boundaries"], None, False)
    tell(legend(colour, *views) + "\n")
    return plain


def _table(before: Evaluation, after: Evaluation, random: Evaluation) -> list[str]:
    lines = [f"{'held-out test text':28s}{'bits per byte':>20s}{'boundaries per byte':>22s}"]
    for name, result in (("learned boundaries", after), ("random, same number", random)):
        error = "" if result.standard_error is None else f" +- {result.standard_error:.3f}"
        lines.append(f"{name:28s}{f'{result.bits_per_byte:.3f}{error}':>20s}{result.rate:>22.3f}")
    lines += ["", f"{'how the policy changed':28s}{'before':>10s}{'after':>10s}"]
    lines.append(f"{'entropy, nats a decision':28s}{before.policy_entropy:>10.3f}{after.policy_entropy:>10.3f}")
    for name in SHOWN_CLASSES:
        pair = (before.class_rates[name], after.class_rates[name])
        lines.append(f"{'boundary after a ' + name:28s}" + "".join(f"{rate:>10.3f}" for rate in pair))
    return lines


def verdict(after: Evaluation, random: Evaluation) -> str:
    """What the comparison says and what it does not, from the numbers."""
    gap = paired_difference(random, after)
    if gap.sign() == 0:
        outcome = f"no difference that this test can see (gap {gap.bits:+.4f} bits per byte, paired over {after.rows} rows)"
    else:
        size, side = f"{abs(gap.bits):.4f} +- {gap.error_units:.4f} bits per byte", "better" if gap.sign() > 0 else "worse"
        outcome = f"learned boundaries are {side} by {size} (paired over {after.rows} rows)"
    rates = {name: rate for name in SHOWN_CLASSES if (rate := after.class_rates[name]) is not None}
    most, least = max(rates, key=rates.get), min(rates, key=rates.get)
    return (
        f"Against random places: {outcome}.\n"
        f"The policy now ends a token most often after a {most} ({rates[most]:.2f}),"
        f" least often after a {least} ({rates[least]:.2f}).\n"
        "It was told how often to end a token (the target rate), not where: no spaces, no vocabulary, no rules, only the\n"
        "reward of predicting the next bytes better.\n"
        "What this cannot show: one seed, a model of a quarter million parameters, a few megabytes of old books. Whether\n"
        "learned boundaries beat other rules at scale needs the larger presets and more seeds."
    )


def run_demo(
    out: str | None, *, seed: int, device: str, smoke: bool, quiet: bool, text: bytes | None = None
) -> dict[str, Any]:  # fmt: skip
    """Train learned and random boundaries, print the story, write demo.json; returns what it holds.

    text: of the user, to be shown first with the boundaries of a model that comes with rltok.
    """
    if out is not None:
        check_name(out, "folder")
    with new_folder(None if out is None else Path(out), "demo") as folder:
        return _run(folder, text, seed=seed, device=device, smoke=smoke, quiet=quiet)


def _run(folder: Path, own: bytes | None, *, seed: int, device: str, smoke: bool, quiet: bool) -> dict[str, Any]:
    tell: Callable[[str], None] = (lambda text: None) if quiet else partial(print, flush=True)
    chosen = resolve_device(device)
    config = demo_config(seed, smoke)
    backend_of(config, chosen)
    colour = not quiet and sys.stdout.isatty()
    shipped = show_shipped(own, chosen, seed, colour, tell)
    corpus = load_corpus("sample", config.data)
    rows = 32 if smoke else None

    def score(model: Any) -> Evaluation:
        return evaluate(model.to(chosen), corpus.test, seed=seed, batch=config.train.micro_batch, max_rows=rows)

    passes = config.num_updates * config.bytes_per_update / corpus.train.total_bytes
    tell(f"1/2  {passes:.1f} passes over {corpus.train.total_bytes / 1e6:.1f} MB of bundled English: the boundaries are learned")
    untrained = new_model(config, chosen)
    text = passage(corpus)
    views = {"before": boundary_view(untrained, text, seed)}
    before = score(untrained)
    train(config, corpus, folder / "learned", device=device, progress=not quiet, full=not smoke)
    learned = load(folder / "learned").to(chosen)
    after, views["after"] = score(learned), boundary_view(learned, text, seed)
    tell(f"2/2  the same model and data with {after.tokens_per_byte:.3f} tokens per byte at random places")
    matched = rate_matched_random(config, after.tokens_per_byte)
    train(matched, corpus, folder / "random", device=device, progress=not quiet, full=not smoke)
    random = score(load(folder / "random"))
    for moment in ("before", "after"):
        tell(f"\n--- {moment} training\n" + paint_view(text, views[moment], colour))
    seen = [(text, view["boundaries"]) for view in views.values()]
    tell("\n" + legend(colour, *seen) + "\n\n" + "\n".join(_table(before, after, random)) + "\n\n" + verdict(after, random))
    gap = paired_difference(random, after)
    result = {
        "shipped": shipped, "smoke": smoke, "seed": seed, "config_hash": config.digest(), "before": before.to_dict(),
        "learned": after.to_dict(), "random": random.to_dict(),
        "passage": {moment: paint(text, view["boundaries"], None, False) for moment, view in views.items()},
        "random_minus_learned": gap.bits, "standard_error": gap.error_units, "classes": CLASSES,
    }  # fmt: skip
    (folder / "demo.json").write_text(json.dumps(result, indent=1, allow_nan=False) + "\n")
    tell("\n" + last_words(folder, smoke))
    return result


def last_words(folder: Path, smoke: bool) -> str:
    """How a demo ends: with a command to try, and with a warning where it was too short to learn anything."""
    command = "rltok" if shutil.which("rltok") else ".venv/bin/rltok"
    warning = "This was a smoke run, too short to learn anything. " if smoke else ""
    return f"{warning}Everything is in {folder}. Try your own words: {command} show {quoted(folder / 'learned')} 'any text'"
