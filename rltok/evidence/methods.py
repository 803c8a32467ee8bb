"""The plan of `rltok compare`: every way of drawing boundaries by name, on one network, one data order, one budget."""

import difflib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rltok.config import Config, with_settings
from rltok.errors import RltokError
from rltok.evidence.plan import Plan, Planned
from rltok.policy_settings import OF_ESTIMATOR, OF_LEARNED, OF_POLICY
from rltok.presets import WAYS as RULES
from rltok.presets import fit_to_corpus, preset, presets

MATCHED = "random_k_as_"  # as many boundaries as the named rule came to draw, at random places
MATCHED_RANDOM = tuple(MATCHED + rule for rule in ("whitespace", "bpe", "bpe_causal"))  # of rules that do not control their rate
BUDGETS = ("smoke", "full")
SMOKE_UPDATES = 8
SMOKE_ROWS = 32  # scored at the end
# What tells methods or runs apart; the comparison sets it.
TAKEN = ("name", "model.rule.name", "model.rule.variant", "model.rule.bpe_boundary", "train.seed")


def named_methods(names: Sequence[str]) -> list[str]:
    """The methods that a user names, each once, rate-matched random ones last; `all` stands for every one.

    Raises:
        RltokError: an unknown name, or a rate-matched one without the rule whose rate it takes.
    """
    wanted = [known for name in names for known in (RULES + MATCHED_RANDOM if name == "all" else (name,))]
    for name in wanted:
        if name not in RULES + MATCHED_RANDOM:
            close = difflib.get_close_matches(name, RULES + MATCHED_RANDOM, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise RltokError(f"there is no rule {name!r}.{hint} Known: all, {', '.join(RULES + MATCHED_RANDOM)}.")
        if name in MATCHED_RANDOM and name.removeprefix(MATCHED) not in wanted:
            base = name.removeprefix(MATCHED)
            raise RltokError(f"{name} draws as many boundaries as {base} came to draw. Name {base} in --rules too.")
    return sorted(dict.fromkeys(wanted), key=lambda name: name in MATCHED_RANDOM)


def base_config(
    size: str | None, settings: dict[str, Any], *, budget: str, seed: int, text_bytes: int | None = None,
    names: Sequence[str] = RULES,
) -> Config:  # fmt: skip
    """What all methods share: network, data, objective, training. Its rule is the learned one, if that competes.

    Args:
        size: a preset without variant; None is tiny, fitted to the text if its size is given.
        settings: dotted settings for every method; those of a rule touch the rules that read them.
        budget: "smoke", or "full" for the preset's own.
        seed: of the run.
        text_bytes: size of a text to fit rows, batch and budget to.
        names: who competes. Without the learned rule, nothing must suit its limits (softcap, micro-batch).

    Raises:
        RltokError: an unknown size or budget, or a setting that the comparison makes itself.
    """
    if budget not in BUDGETS:
        raise RltokError(f"there is no budget {budget!r}. Use {' or '.join(BUDGETS)}.")
    size = size or "tiny"
    sizes = [name for name in presets() if f"{name}_even" in presets()]
    if size not in sizes:
        raise RltokError(f"--preset {size!r} is no size: {', '.join(sizes)}. Change what all rules share with --set.")
    for name in TAKEN:
        if name in settings:
            raise RltokError(f"--set {name} is what the comparison sets itself. Use --rules and --seeds.")
    for name in OF_LEARNED:
        if "learned" not in names and name in settings:
            raise RltokError(f"--set {name} is of the rule learned, which does not compete. Name it in --rules.")
    base = preset(size)
    if text_bytes is not None:
        base = fit_to_corpus(base, text_bytes)
    settings = settings | ({} if "learned" in names else {"model.rule.name": "even"})
    base = with_settings(base, settings | {"train.seed": seed})
    if budget == "full":
        return base
    smoke = {"train.training_bytes": min(base.train.training_bytes, SMOKE_UPDATES * base.bytes_per_update)}
    return with_settings(base, smoke | {"train.evaluate_rows": min(8, base.train.evaluate_rows)} | settings)


def method_config(base: Config, size: str | None, name: str, settings: dict[str, Any]) -> Config:
    """The base with the rule of the preset variant `name`, and nothing else changed.

    Two exceptions, which change no result of other rules: straight-through rules may need smaller micro-batches, and the
    entropy rule's byte model sees at most a third of the training bytes. Rules with random first weights of their own
    (learned, entropy, dynamic_pooling, hnet) draw them in between the network's, whose first weights are then others too.
    """
    size = size or "tiny"
    learned = name == "learned"
    own = {key: value for key, value in settings.items() if key.startswith("model.rule.") and (learned or key not in OF_LEARNED)}
    variant = with_settings(preset(size if learned else f"{size}_{name}"), own)
    rule = variant.model.rule
    if rule.name == "entropy" and "model.rule.fit_bytes" not in own:
        rule = replace(rule, fit_bytes=max(1, min(rule.fit_bytes, base.train.training_bytes // 3)))
    batch = min(base.train.micro_batch, variant.train.micro_batch)
    if base.train.sequences_per_update % batch:
        batch = base.train.micro_batch
    train = replace(base.train, micro_batch=batch, **({} if learned else OF_POLICY))
    objective = replace(base.objective, **({} if learned else OF_ESTIMATOR))
    model = replace(base.model, rule=rule)
    return replace(base, name=f"{size}_{name}", model=model, objective=objective, train=train)


def comparison(
    sweep: str, names: Sequence[str], bases: Sequence[Config], *, size: str | None, settings: dict[str, Any], full: bool,
    split: str,
) -> Plan:  # fmt: skip
    """The plan of a comparison: each method on each base, rate-matched random ones at the tokens per byte of their rule.

    Args:
        sweep: name of the plan.
        names: of `named_methods`.
        bases: of `base_config`, one a seed, with this size and these settings.
        full: whether they have the preset's own budget.
        split: by whose score rates are matched.
    """
    runs = [_planned(name, base, size, settings) for base in bases for name in names]
    return Plan(sweep, size or "tiny", full, {}, runs, matched="tokens_per_byte", match_at=split)


def _planned(name: str, base: Config, size: str | None, settings: dict[str, Any]) -> Planned:
    seed = base.train.seed
    if name not in MATCHED_RANDOM:
        return Planned(name, seed, base=method_config(base, size, name, settings))
    random = with_settings(base, OF_LEARNED | {"model.rule.name": "random_k"})
    return Planned(name, seed, rate_of=name.removeprefix(MATCHED), base=random)
