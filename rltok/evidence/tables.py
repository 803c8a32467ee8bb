"""Tables of a sweep beside the paper's: Table 1, Table 3, what drives the losses, and the verdicts on all claims."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rltok.evidence import differences, words
from rltok.evidence.claims import POLICIES, claims
from rltok.evidence.criteria import Claim, curve_at
from rltok.evidence.paper import PLACE_NAMES, PLACES, TABLE_1, TABLE_3
from rltok.evidence.records import Sweep, is_learned
from rltok.evidence.small_claims import judged, small_claims
from rltok.evidence.verdicts import Finding
from rltok.evidence.words import NONE, many
from rltok.presets import size_of
from rltok.show.tables import markdown
from rltok.statistics import Difference, beats_guessing, mean_and_error

BASELINE = "even"  # what methods are compared with
CHOICES = [place for place in PLACES if place not in ("lambada", "test")]  # benchmarks with a choice, so with an accuracy
WHO = {
    "even": "evenly spaced boundaries, no policy",
    "random_k": "as many boundaries, at random places",
    "whitespace": "on the first byte after a word that is no letter or digit (SpaceByte); it has no target rate",
    "entropy": "where a small byte model, fitted before, finds the next byte hard to tell (BLT)",
    "bpe": "BPE guidance: on the first byte of each BPE token, which is mostly the space before a word",
    "bpe_causal": "where the last BPE token of the text so far starts; more of them",
    "dynamic_pooling": "dynamic pooling as published",
    "dynamic_pooling_port": "dynamic pooling as the paper's authors compared with it",
    "hnet": "H-Net as published",
    "hnet_port": "H-Net as the paper's authors compared with it",
    "policy": "the whole method with the discount of the authors' code, 0.9, and eight lags",
    "policy_x20": "the same with the discount 0.95, and 20 times the learning rate for the policy's own weights",
    "policy_x20_gamma0.9": "`policy_x20` with the discount 0.9",
    "policy_x20_gamma0.99": "`policy_x20` with the discount of the text, 0.99",
    "policy_x20_lags0": "`policy_x20` with a policy without memory",
    "policy_x20_lags7": "`policy_x20` with seven lags",
    "policy_x20_rate_bpe": "`policy_x20` with the rate at which `bpe` ends as its target",
    "random_k_rate_bpe": "`random_k` with the rate at which `bpe` ends",
    "policy_x20_rate_bpe_causal": "`policy_x20` with the rate at which `bpe_causal` ends as its target",
    "random_k_rate_bpe_causal": "`random_k` with the rate at which `bpe_causal` ends",
    "policy_x20_rate_whitespace": "`policy_x20` with the rate at which `whitespace` ends as its target",
    "random_k_rate_whitespace": "`random_k` with the rate at which `whitespace` ends",
    "policy_x20_rate_hnet_port": "`policy_x20` with the rate at which `hnet_port` ends as its target",
    "policy_x20_again_rate_hnet_port": "`policy_x20_rate_hnet_port` with a target lower by as much as that run missed it",
    "policy_x20_again_rate_whitespace": "`policy_x20_rate_whitespace` with a target lower by as much as that run missed it",
    "policy_authors": "the preset `147m_authors`: as the authors' code very probably was",
    "policy_raw": "`policy` without norms before the heads and the policy",
    "policy_raw_x20": "`policy_x20` without norms before the heads and the policy",
    "policy_raw_heads": "`policy` without norms before the heads",
    "policy_raw_policy": "`policy` without a norm before the policy",
    "policy_rounded_positions": "`policy` with rotary positions rounded to bf16",
    "policy_a_third_of_D": "`policy` with a third of the scale D",
    "random_k_rate_hnet_port": "`random_k` with the rate at which `hnet_port` ends",
    "ours": "the whole method with the discount of the text and eight lags",
    "ours_gamma0.9": "`ours` with the discount of the authors' code",
    "ours_gamma0.9_fp16": "`ours_gamma0.9` in fp16 with a gradient scaler",
    "ours_gamma0.9_rms": "`ours_gamma0.9` with the policy's weight raised until weight times advantages are those of `ours`",
    "ours_lags0": "`ours` with a policy without memory",
    "ours_lags1": "`ours` with one lag",
    "ours_lags7": "`ours` with seven lags",
    "ours_no_early": "`ours` but for the early exit in the rewards; the early head stays and is trained",
    "ours_no_centring": "`ours` but for the batch mean",
    "ours_gamma1": "`ours` but for the discount",
    "ours_no_rate_loss": "`ours` but for the rate loss, so nothing holds the rate down",
    "ours_rate_bpe": "`ours` with the rate at which `bpe` ends as its target",
    "ours_as_147m": "`ours_gamma0.9` with the learning rate, the warm-up in bytes and the rows of an update of the 147M plan",
    "ours_slow": "`ours_gamma0.9` with the learning rate and the warm-up in bytes of the 147M plan",
    "ours_rows": "`ours_gamma0.9` with the rows of an update of the 147M plan",
    "ours_low": "`ours_gamma0.9` with the peak of the learning rate of the 147M plan, reached as early as usual",
    "ours_late": "`ours_gamma0.9` with a late peak of the learning rate, as high as usual",
    "even_late": "`even` with a late peak of the learning rate, as high as usual",
    "naive": "the loss of all bytes of the row and the rate loss; no reduction of the variance",
    **{f"policy_x{times}{late}": f"the whole method with {times} times the learning rate for the policy's own weights{words}"
       for times in (1, 5, 60) for late, words in (("", ""), ("_late", ", which stay put at first"))},
    **{f"{name}_every_{bytes_}": f"`{name}` with one boundary in {bytes_} bytes as its target"
       for name in ("even", "random_k", "policy_x20", "entropy") for bytes_ in (2, 3, 8) if (name, bytes_) != ("entropy", 2)},
    "policy_x20_every_5": "`policy_x20` with one boundary in 5 bytes as its target",
    "policy_x20_any_rate": "`policy_x20` with the rate as an input: each micro-batch has its own target, from 1/10 to 1/2",
    "even_every_1": "a boundary after every byte",
    "policy_one_draw": "`policy_x20`",
    "policy_two_draws": "`policy_x20` with a second draw of each row as the baseline of the first",
    "policy_two_draws_train": "`policy_x20` with two draws of each row that both train, each against the other",
    "policy_antithetic": "`policy_x20` with two draws of each row, one with 1 - u where the other has u, that both train",
    "policy_early": "`policy_x20`",
    "policy_late": "`policy_x20` with the policy's weights staying put for the first 30 %",
    "policy_dense": "`policy_x20` that is to draw every second byte at first",
    "policy_warm": "`policy_x20` with draws nearer to chance at first",
    "policy_entropy": "`policy_x20` with a floor under its entropy at first",
    "policy_beta2": "`policy_x20` with a shorter average of squared gradients for the policy's weights",
    "policy_D": "`policy_x20` with a fourth of the scale D",
    "policy_slow_then_fast": "`policy_x20` with the network's learning rate for the first 30 %",
    "policy_fast_then_slow": "`policy_x20` with the network's learning rate after the first 30 %",
    "policy_restarts": "`policy_x20` with the policy set back twice",
    **{f"{name}_{size}": f"`{name}` with a vocabulary of {size}" for name in ("bpe", "bpe_causal") for size in (1000, 8000)},
    "policy_x20_late": "`policy_x20` with the policy's weights staying put at first",
}  # fmt: skip


def methods_of(sweep: Sweep) -> list[str]:
    """Methods of the sweep: those of the paper's Table 1 first, in its order, then the others in theirs."""
    return [name for name in TABLE_1 if name in sweep.runs] + [name for name in sweep.runs if name not in TABLE_1]


def who_is_who(sweep: Sweep) -> str:
    """Markdown: what each method's name stands for."""
    rows = [[f"`{name}`", WHO.get(name, NONE)] for name in methods_of(sweep)]
    return markdown(["contender", "how it draws boundaries"], rows)


def by_size(sweeps: Sequence[Sweep]) -> list[Sweep]:
    """Sweeps in the order of their models' size, smallest first."""
    return sorted(sweeps, key=lambda sweep: sweep.records[0]["matrix_parameters"])


def label(sweep: Sweep) -> str:
    """A sweep's name beside others; that of a smoke sweep says so."""
    return sweep.name if sweep.full or "smoke" in sweep.name else f"{sweep.name} (smoke)"


def _fewer(seeds: Mapping[str, int], most: int) -> str:
    """The numbers of seeds below the largest, in words: 1 seed, 1 to 2 seeds."""
    return words.many_seeds(count for count in seeds.values() if count < most)


def heading(sweep: Sweep) -> str:
    """What every table of the sweep describes, in a line: model, text, budget, seeds, device, commit."""
    runs = sweep.records
    first = runs[0]
    size = size_of(first["config"]["name"])
    budget = statistics.fmean(run["bytes"] for run in runs)
    rate = first["config"]["model"]["rule"]["target_rate"]
    seeds = {name: len(seeds) for name, seeds in sweep.runs.items()}
    most = max(seeds.values())
    fewer = [name for name, count in seeds.items() if count < most]
    counted = many(most, "seed")
    if fewer:
        whole, rest = many(len(seeds) - len(fewer), "contender"), many(len(fewer), "other")
        counted += f" of {whole}, {_fewer(seeds, most)} of {rest}"
    kind = "" if sweep.full else "**Smoke runs: they show that everything works, and their verdicts mean nothing.** "
    commits = sorted({run["commit"][:7] for run in sweep.everything})
    devices = sorted({run["device"] for run in sweep.everything})
    again = len(sweep.everything) - len(runs)
    counted += f"; {many(len(sweep.everything), 'run')}" + (f", {again} of them of a seed that was run before" if again else "")
    return (
        f"{kind}Preset `{size}` ({first['matrix_parameters'] / 1e6:.3g}M matrix parameters), {budget / 1e6:.3g} MB of training"
        f" text a run from {first['data']['name']} (the paper: 147M, 6 GB of FineWeb), target rate {rate:g}, {counted};"
        f" {', '.join(devices)}; commit {', '.join(commits)}."
    )


def _cell(mean: Difference | None) -> str:
    if mean is None:
        return NONE
    errors = [NONE if error is None else f"{error:.3f}" for error in (mean.error_units, mean.error_seeds)]
    return f"{mean.bits:.3f} ± {' / '.join(errors)}"


def table_1(sweep: Sweep) -> str:
    """Markdown: bits per byte of every method on four benchmarks and held-out text, the paper's row below each."""
    rows = []
    for name in methods_of(sweep):
        rows.append([f"**{name}**", *(_cell(sweep.mean(name, place)) for place in PLACES)])
        if name in TABLE_1:
            rows.append(
                [f"{name}, paper", *(f"{v.mean:.3f} ± {v.error:.3f}" for v in (TABLE_1[name][place] for place in PLACES))]
            )
    return markdown(["bits per byte", *(PLACE_NAMES[place] for place in PLACES)], rows)


def over_seeds(values: Sequence[float], shown: str) -> str:
    """Mean of a number of every seed, ± its error where there are several."""
    return words.number(*mean_and_error(values), shown) if values else NONE


def table_3(sweep: Sweep) -> str:
    """Markdown: boundaries per byte on held-out text after training, and the paper's."""
    rows = [
        [name, over_seeds(sweep.values(name, "rate"), ".3f"), over_seeds(sweep.values(name, "tokens_per_byte"), ".3f"),
         f"{TABLE_3[name]:.3f}" if name in TABLE_3 else NONE]
        for name in methods_of(sweep)
    ]  # fmt: skip
    return markdown(["contender", "boundaries per byte", "tokens per byte", "paper"], rows)


def side_by_side(sweeps: Sequence[Sweep], names: Sequence[str] | None = None, reference: str = BASELINE) -> str:
    """Markdown: every method, or those named, sizes under each other; ± over units / over seeds, the rest ± over seeds.

    Bits per byte may be compared down a size, and across where the text that was read is the same. What may be compared across is
    the difference from the reference of the same size, paired by unit and seed; it is of the test split where every run of the
    size has a score there, else of validation, and then says so. A single seed borrows its error over seeds, in parentheses.
    """
    donor = next((sweep for sweep in by_size(sweeps) if differences.deviation(sweep, "validation") is not None), None)
    sizes = [differences.borrowing(sweep, donor) for sweep in by_size(sweeps)]
    rows = []
    for name in dict.fromkeys(name for sweep in sizes for name in methods_of(sweep) if names is None or name in names):
        for sweep in (sweep for sweep in sizes if name in sweep.runs):
            place = "test" if all(run["scores"]["test"] for run in sweep.records) else "validation"
            gap = None if name == reference else differences.gap(sweep, name, reference, place)
            runs = sweep.runs[name].values()
            rows.append([
                name, label(sweep), str(len(runs)), f"{statistics.fmean(run['bytes'] for run in runs) / 1e6:.3g}",
                _cell(sweep.mean(name, "validation")), _cell(sweep.mean(name, "test")),
                _minus(gap, place, name, reference, sweep), over_seeds(sweep.values(name, "rate"), ".3f"),
                over_seeds(sweep.values(name, "whitespace_share"), ".2f"),
            ])  # fmt: skip
    head = ["contender", "size", "seeds", "MB read", "validation, bits per byte", "test, bits per byte", f"minus {reference}",
            "boundaries per byte", "white space"]  # fmt: skip
    return markdown(head, rows)


def course_table(sweep: Sweep, parts: Sequence[float] = (0.25, 0.5, 0.75, 1.0)) -> str:
    """Markdown: held-out bits per byte minus those of even boundaries after parts of training, ± over seeds.

    Curves are of fewer rows than the scores after training.
    """
    budget = sweep.records[0]["bytes"]
    rows = [
        [f"`{name}`", *(over_seeds(on_the_way(sweep, name, BASELINE, part * budget), "+.3f") for part in parts)]
        for name in methods_of(sweep)
        if name != BASELINE
    ]
    return markdown([f"held-out text, minus `{BASELINE}`", *(f"after {part * budget / 1e6:.0f} MB" for part in parts)], rows)


def on_the_way(sweep: Sweep, name: str, reference: str, read: float) -> list[float]:
    """Held-out bits per byte minus the reference's when both had read so many bytes, one for each seed that both have."""

    def bits(name: str, seed: int) -> float:
        return statistics.fmean(curve_at(run["held_out"], read, "bytes") for run in sweep.of_seed(name, seed))

    return [bits(name, seed) - bits(reference, seed) for seed in sweep.runs[name] if seed in sweep.runs.get(reference, {})]


def _minus(gap: Difference | None, place: str, name: str, reference: str, sweep: Sweep) -> str:
    """The difference from the reference; on which split unless it is test, and why there is none."""
    if gap is not None:
        return str(gap) + ("" if place == "test" else f" ({place})")
    if name == reference:
        return NONE
    return f"no seed in common with {reference}" if reference in sweep.runs else f"no run of {reference}"


def _accuracy(accuracies: Sequence[float], size: int) -> str:
    if not accuracies:
        return NONE
    mean, seeds = mean_and_error(accuracies)
    items = math.sqrt(mean * (1 - mean) / size)
    return f"{mean:.3f} ± {items:.3f} / {NONE if seeds is None else f'{seeds:.3f}'}"


def _accuracies(sweep: Sweep, name: str, place: str) -> list[float]:
    return sweep.each(name, lambda run: (run["scores"].get(place) or {}).get("accuracy"))


def at_chance(sweep: Sweep) -> list[str]:
    """Benchmarks on which no method answers better than by guessing: exact binomial test at 5 %, shared among the methods.

    The right answers of a method are their mean over seeds, which answer the same questions.
    """
    places = []
    for place in CHOICES:
        scored = [run["scores"][place] for run in sweep.records if run["scores"].get(place)]
        means = [statistics.fmean(known) for name in sweep.runs if (known := _accuracies(sweep, name, place))]
        if not means:
            continue
        items, chance = scored[0]["items"], scored[0]["chance"]
        if not any(beats_guessing(round(mean * items), items, chance, len(means)) for mean in means):
            places.append(place)
    return places


def accuracy_table(sweep: Sweep) -> str:
    """Markdown: share of items whose right answer has the fewest bits per byte, ± binomial error over items / over seeds."""
    sizes = {place: max((run["scores"].get(place) or {"items": 0})["items"] for run in sweep.records) for place in CHOICES}
    rows = [
        [name, *(_accuracy(_accuracies(sweep, name, place), sizes[place]) for place in CHOICES)] for name in methods_of(sweep)
    ]  # fmt: skip
    scores = [sweep.records[0]["scores"].get(place) for place in CHOICES]
    rows.append(["chance", *(NONE if score is None else f"{score['chance']:.3f}, {score['items']} items" for score in scores)])
    useless = at_chance(sweep)
    useful = [f"no: {words.NO_USE}" if place in useless else "yes" for place in CHOICES]
    rows.append(["better than guessing?", *(NONE if score is None else word for word, score in zip(useful, scores, strict=True))])
    return markdown(["accuracy", *(PLACE_NAMES[place] for place in CHOICES)], rows)


def drivers_table(sweep: Sweep) -> str:
    """Markdown: what goes with a loss. Advantages times their weight say how hard the policy is pulled."""
    rows = []
    for name in methods_of(sweep):
        runs = list(sweep.runs[name].values())
        weight = runs[0]["config"]["objective"]["lambda_policy"]
        learned = is_learned(runs[0])
        pulls = sweep.each(name, lambda run: statistics.median(point["advantage_rms"] for point in run["curve"]))
        rows.append([
            name, _cell(sweep.mean(name, "validation")), over_seeds(sweep.values(name, "rate"), ".3f"),
            over_seeds(sweep.values(name, "whitespace_share"), ".2f"), over_seeds(sweep.values(name, "policy_entropy"), ".3f"),
            over_seeds(pulls, ".3g") if learned else NONE, f"{weight:.3g}" if learned else NONE,
            f"{statistics.fmean(run['flops'] for run in runs):.3g}",
            f"{statistics.fmean(run['flops'] + run['attention_flops'] for run in runs):.3g}",
            f"{statistics.fmean(run['seconds'] for run in runs):.0f}",
        ])  # fmt: skip
    head = ["contender", "validation, bits per byte", "rate", "white space", "entropy, nats", "RMS of advantages", "weight",
            "FLOPs", "with attention", "seconds"]  # fmt: skip
    return markdown(head, rows)


def judged_claims(sweep: Sweep | None) -> list[tuple[Claim, list[Finding | None]]]:
    """Every claim with a finding for each of POLICIES, None where it is not asked of one. Without a sweep: no run yet."""
    shown = sweep or Sweep("none", {}, [])
    judged = [(claim, [claim.criterion(shown, policy) for policy in POLICIES]) for claim in claims()]
    useless = at_chance(shown)
    return [
        (claim, [one and replace(one, smoke=not shown.full, at_chance=any(part.place in useless for part in one.parts))
                 for one in findings])
        for claim, findings in judged
    ]  # fmt: skip


def _cell_of(finding: Finding | None, mark: str = "") -> str:
    """The verdict with its marks, and below it a line for each part that was measured."""
    if finding is None:
        return NONE
    return "<br>".join([f"**{words.verdict(finding)}**{mark}{words.chance_mark(finding)}", *words.lines(finding)])


def _shared_runs(findings: Iterable[Finding | None]) -> dict[frozenset[tuple[str, int]], str]:
    """A mark for each set of runs by which several findings were judged: a number, in the order of the table."""
    counts = Counter(one.runs for one in findings if one is not None and one.measured)
    shared = [runs for runs, count in counts.items() if count > 1 and runs]
    return {runs: f" (runs {number})" for number, runs in enumerate(shared, start=1)}


def claims_table(sweep: Sweep | None) -> str:
    """Markdown: every claim about runs at scale, with a verdict for the gamma of the text and for that of the authors' code.

    Claims that were judged by the very same runs carry the same number.
    """
    size = "" if sweep is None else f", {size_of(sweep.records[0]['config']['name'])}"
    judged = judged_claims(sweep)
    marks = _shared_runs(one for _, findings in judged for one in findings)
    rows = [
        [f"{claim.text} ({claim.source})", claim.paper.replace("\n", "<br>"),
         *(_cell_of(one, "" if one is None else marks.get(one.runs, "")) for one in findings)]
        for claim, findings in judged
    ]  # fmt: skip
    return markdown(["claim", "paper", f"ours{size}, γ = 0.99", f"ours{size}, γ = 0.9"], rows)


def small_claims_table(results: Path) -> str:
    """Markdown: every claim that small runs, counts or enumeration answer."""
    rows = [[f"{claim.text} ({claim.source})", claim.paper, _cell_of(judged(claim, results))] for claim in small_claims()]
    return markdown(["claim", "paper", "ours"], rows)


def counts(sweep: Sweep | None) -> dict[str, int]:
    """How many verdicts of each kind there are, on all claims and either gamma."""
    verdicts = [words.verdict(one) for _, findings in judged_claims(sweep) for one in findings if one is not None]
    return dict(sorted(Counter(verdicts).items()))
