# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: cellView,jupyter,mystnb,tags,-all
#     formats: ipynb,py:percent
#     notebook_metadata_filter: rltok,-jupytext.text_representation.format_version,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   rltok:
#     constants:
#       '0.01': lambda_policy in the paper
#       '95': percent of resamples between the ends of an interval
#     download_mb: 0
# ---

# %% [markdown] tags=["header-strip"]
# # 03b How we measured
#
# **In short.** The numbers of chapter 03 are measured with the code that trains, held to enumeration where that is possible, and come
# with intervals. They decide between reductions that differ by powers of ten, and not between factors of a few. This is the chapter
# for readers who want to check the last one; the story goes on in [chapter 04](04_the_boundary_policy.ipynb).
#
# **After this chapter you can** say how variance is measured where nothing can be enumerated, what a bootstrap interval is, and which
# numbers of the ladder deserve trust.
#
# <!-- strip -->
# *CPU · under 1 minute on one x86_64 core · under 1 GB of memory · no download*
# <!-- /strip -->

# %% cellView="form" jupyter={"source_hidden": true} tags=["first-cell", "hide-input", "nbval-ignore-output"]
# not compared: it describes this machine
import os
import sys
from importlib import metadata, util

REPOSITORY = ""
sys.path.append(os.path.abspath(".."))  # a clone that was not installed
if getattr(util.find_spec("rltok"), "origin", None) is None:  # on Colab
    torch = metadata.version("torch").split("+")[0]  # stays as it is
    git = f"git clone -q --depth 1 '{REPOSITORY}' rltok_clone"
    pip = f"-m pip install -q './rltok_clone[bpe]' torch=={torch}"
    cloned = os.path.isdir("rltok_clone") or not os.system(git)
    if not cloned or os.system(f"'{sys.executable}' {pip}"):
        raise SystemExit("rltok was not installed: see the lines above")
from rltok.show.notebook import begin  # missing? pip install -e '.[bpe]'

begin()

# %% cellView="form" jupyter={"source_hidden": true} tags=["setup", "hide-input"]
import json
from pathlib import Path

import numpy as np
import torch
from IPython.display import Markdown

import rltok
from rltok.config import with_settings
from rltok.data import load_corpus
from rltok.evidence.chapters import ch03_ladder
from rltok.runs.models import new_model
from rltok.show import plots
from rltok.show.notebook import judge
from rltok.variance.laboratory import Sizes, batches_of
from rltok.variance.ladder import ALONE, CUMULATIVE
from rltok.variance.stages import measure_stage

plots.use_style()

# %% [markdown]
# ## The laboratory
#
# `rltok.variance.laboratory` does what training does, many times over: a fresh batch, and from it every estimator. Training draws once
# from a batch; the laboratory draws several times, to know better how one draw scatters. All estimators get the same draws. Its
# measures agree with enumeration where both are possible; the tests of the package hold them together. One command made the record:

# %%
record = ch03_ladder.check(
    json.loads(Path("results/variance_ladder.json").read_text())
)
seeds = list(dict.fromkeys(stage["seed"] for stage in record["stages"]))
draws = (record["draws"], record["reference_draws"])
print(f"rltok variance --batches {record['batches']} --draws {draws[0]} \\")
print(f"  --reference-draws {draws[1]} --seeds", *seeds, end=" ")
print("--out variance_ladder.json")
minutes = record["seconds"] / 60
print(f"{record['device']}, {minutes:.0f} minutes,", end=" ")
print(f"commit {record['commit'][:7]}, config {record['config_hash']}")
length, name = record["data"]["sequence_length"], record["data"]["name"]
print(f"batches of {record['rows']} rows of {length} bytes,", end=" ")
print(f"text: {name}, training split")
objective = record["config"]["objective"]
for key in ("gamma", "centring", "lambda_policy", "lambda_target"):
    print(f"{key}: {objective[key]}")

# %% [markdown]
# ## Intervals, and the whole ladder
#
# Intervals come from the *bootstrap*: draw as many batches as there are, with replacement, compute the number again, and do so
# many times. Each such set is a *resample*; 95 % of them lie between the ends of the interval. The figure shows the rows needed
# with their intervals; the table after it has the lowest and the highest of the three seeds.

# %% mystnb={"figure": {"caption": "Rows of text until the expected cosine with the true gradient of the policy's parameters reaches 0.5. Tiny preset, bundled English (not the paper's corpus), rows of 512 bytes, batches of 16 rows; three training seeds, bars are 95 % bootstrap intervals over batches. Above the line rungs are added to the ones before (the two discounts and the two means are alternatives), below it rungs stand alone, discounts with causal credit, which they need. A bar that runs to the right edge: in some resamples no number of rows is enough.", "name": "fig-whole-ladder"}, "image": {"alt": "Three panels, start, early and late in training, with a logarithmic axis of rows. Naive REINFORCE needs millions of rows in each. Causal credit moves the dots a little to the left, early-exit rewards by three to four powers of ten and late by two, discounts further, except at the start, where a discount of 0.9 never arrives for two of three seeds."}}
plots.show(ch03_ladder.ladder_figure(record))

# %%
Markdown(
    ch03_ladder.ladder_table(
        record,
        [*CUMULATIVE, *(name for name in ALONE if name not in CUMULATIVE)],
    )
)

# %% [markdown]
# Two things that the short form in chapter 03 leaves out. The **batch mean alone** gives powers of ten at the start, where a byte
# costs about the same in every row, and more than the early exit does; at the early stage it gives far less, late about as much.
# And the batch mean *on top of the others* saves nothing early, because there is hardly anything to subtract, as the mean rewards
# show, the first lines below. The other lines divide late by early: the *squared signal* is the squared length of the mean
# gradient.

# %%
for stage in ch03_ladder.stage_names(record):
    leads = [
        one["means"]["early_nll"] - one["means"]["nll"]
        for one in ch03_ladder.at(record, stage)
    ]
    print(f"{stage:5s}: mean reward", end=" ")
    print(f"{min(leads):+.3f} to {max(leads):+.3f} nats per byte over seeds")


def change(name: str, measure: str, power: int = 1) -> str:
    """Late over early, smallest to largest over seeds."""
    early, late = (
        [
            one["policy"]["estimators"][name][measure][0] ** power
            for one in ch03_ladder.at(record, stage)
        ]
        for stage in ("early", "late")
    )
    ratios = [b / a for a, b in zip(early, late, strict=True)]
    return f"{min(ratios):.2g} to {max(ratios):.2g}"


print("late over early                             squared signal  variance")
for name in (
    "naive",
    "causal+early",
    "causal+early+gamma0.9",
    "causal+early+gamma0.9+batch",
):
    signal, noise = change(name, "signal", 2), change(name, "variance")
    print(f"{ch03_ladder.words(name):41s} {signal:>16s}  {noise}")

# %% [markdown]
# For every estimator the squared signal falls further than the variance, which for one of them even rises. So late in training
# each needs more rows.
#
# ## How good is the formula?
#
# "Rows needed" is the formula of chapter 03, fed with measured bias and variance. Where it gives less than a batch, a single
# batch is more than enough. The laboratory also averages real batches and compares them with a reference from all the others:

# %%
one = ch03_ladder.at(record, "early")[0]["policy"]
for name in ("causal+early+gamma0.9+batch", "causal+early+loo"):
    measures = one["estimators"][name]
    noise = 1 / measures["snr"][0]
    print(ch03_ladder.words(name))
    for rows, seen in one["cosines"][name]:
        formula = measures["limit"][0] / np.sqrt(
            1 + noise * record["rows"] / rows
        )
        print(f"  {rows:5.0f} rows: cosine measured {seen:.2f},", end=" ")
        print(f"by the formula {formula:.2f}")
ratios = ch03_ladder.formula_against_measured(record, most_error=0.2)
low, middle, high = np.percentile(ratios, [5, 50, 95])
print(f"rows by the formula over rows measured, {len(ratios)} comparisons:")
print(f"median {middle:.2f}, 90 % between {low:.2f} and {high:.2f}")

# %% [markdown]
# These comparisons come from the start and early stages, policy and encoder together; late, the reference is too uncertain. No
# more than 512 rows were averaged here, so larger numbers of rows are the formula's, made from measured bias and variance. Where
# a few batches carry most of the noise (the wide intervals of the estimators without discount), the variance overstates the noise
# of a typical batch, so the formula asks for too many rows. It decides between rungs that differ by powers of ten; between
# factors of a few it does not. (Where two estimators have no bias and the same signal, as with the factor of causal credit, rows
# compare as the variances do, and nothing rests on the formula.)

# %% [markdown]
# ## Bias against a long run
#
# Bias cannot be seen on one draw. It is measured against the mean of a long run of an estimator without bias. That mean is itself
# uncertain, and the record says by how much. Here are the policy's parameters, one seed after the other. Bias is in units of the
# true gradient's length; the *reference error* is the standard error of the long run's mean, in units of that mean's length. A
# resample of the bootstrap can show no signal at all; it then counts as infinitely many rows.

# %%
print("seed  stage  reference error   bias of gamma 0.9 (interval)")
for stage in record["stages"]:
    measures = stage["policy"]["estimators"]["causal+early+gamma0.9+loo"]
    value, low, high = measures["bias"]
    error = stage["policy"]["reference_error"]
    print(f"{stage['seed']:4d}  {stage['stage']:5s}  {error:16.2f}", end="  ")
    print(f"{value:16.2f} ({low:.2f} to {high:.2f})")
for group in ("policy", "encoder"):
    late = [stage[group] for stage in ch03_ladder.at(record, "late")]
    lost = max(
        1 - measures["resolved"]
        for one in late
        for measures in one["estimators"].values()
    )
    known = [one["reference_error"] for one in late]
    print(
        f"late, {group}: error {min(known):.2f} to {max(known):.2f};", end=" "
    )
    print(f"at most {lost:.0%} of the resamples show no signal")

# %% [markdown]
# Late in training the true gradient is so small that even the long run knows it only roughly, and the intervals are wide.
#
# ## Both sides of the discount
#
# Chapter 03 shows the rows. Here is the other side, what bias leaves of the direction (the dotted line is a useful direction):

# %% mystnb={"figure": {"caption": "Against the discount: what bias leaves of the direction (left), and rows to a cosine of 0.5 (right). All with causal credit, early-exit rewards and leave-one-out mean. Lines are medians over three seeds, dots the seeds; no line where the median is never.", "name": "fig-gamma-bias"}, "image": {"alt": "Left: in the early and late stages the cosine that bias allows is near 1 from a discount of 0.8 on and lower below; at the start it lies under one half up to 0.95, then rises to 1. Right: in the early and late stages rows needed are fewest at 0.8 and rise by about two powers of ten towards 1; at the start there is a line from 0.98 on only, nearly level."}}
plots.show(ch03_ladder.gamma_figure(record))

# %% [markdown]
# With a larger $\gamma$ returns are larger, so the same $\lambda_\pi$ pulls harder. The size of the advantages (root mean square, nats):

# %%
measured = {
    "γ = 0.9": "causal+early+gamma0.9+batch",
    "γ = 0.99": "causal+early+gamma0.99+batch",
    "no discount": "causal+early+loo",
}
print("       ", *(f"{words:>12s}" for words in measured))
for stage in ch03_ladder.stage_names(record):
    found = ch03_ladder.at(record, stage)
    medians = [
        np.median([one["advantage_rms"][name] for one in found])
        for name in measured.values()
    ]
    print(f"{stage:7s}", *(f"{value:12.2g}" for value in medians))

# %% [markdown]
# ## Where in the row
#
# The paper's section 2.4 says that the network's lead over its early exit grows with the position, because later positions have more
# context. That is a reason to centre each position by itself.
#
# Predict: without a discount, does the spread of the return grow, fall or stay level along the row?

# %% tags=["prediction"]
guess = None  # "grows", "falls" or "stays level"

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
spread = ch03_ladder.at(record, "late")[0]["return_spread"]["1"]
ratio = spread[-1] / spread[0]
found = "grows" if ratio > 2 else "falls" if ratio < 0.5 else "stays level"
print(judge(guess, found))

# %% mystnb={"figure": {"caption": "Late in training, first seed: mean relative reward by position (left); spread of returns by position for three discounts (right).", "name": "fig-positions"}, "image": {"alt": "Left: the mean reward rises over the first few dozen positions, then stays level. Right: without a discount the spread of the return falls all along the row, fastest at its end; with 0.99 it falls by a quarter, is level from about 200 to 400, then falls again; with 0.9 it is flat, but for the end."}}
plots.show(ch03_ladder.positions_figure(record, "late"))

# %%
late = ch03_ladder.at(record, "late")
first, rest = (
    [np.mean(one["mean_reward"][part]) for one in late]
    for part in (slice(0, 1), slice(8, None))
)
print("mean reward, three seeds")
print("first 16 positions:   ", [f"{value:.3f}" for value in first])
print("after position 128:   ", [f"{value:.3f}" for value in rest])
starts = [
    np.mean(one["mean_reward"]) for one in ch03_ladder.at(record, "start")
]
print("at the start, anywhere:", [f"{value:.3f}" for value in starts])

# %% [markdown]
# In the left panel the lead over the early exit grows over the first dozens of positions and is level after that. Before training
# there is no lead to speak of: the mean is negative for some seeds and positive for another.
#
# The right panel is the better argument for discounting: without it, decisions early in the row are paid with the noise of the
# whole row behind them.
#
# ## Shared parameters and the weight 0.01
#
# Chapter 02b found, on one fresh model, that encoder parameters get two terms: the loss's own gradient (12) and the policy
# gradient (13). The true gradient of eq. (11) weighs both with 1. The paper trains with $\lambda_\pi = 0.01$, so the encoder sees
# a hundredth of the second term: for shared parameters that is not the gradient of the right side of eq. (10). How wrong is the
# direction on real text?

# %%
name = "causal+early+gamma0.9+batch"
print("stage  lambda   cosine that bias allows   rows needed")
for stage in ch03_ladder.stage_names(record):
    found = [one["shared"][name] for one in ch03_ladder.at(record, stage)]
    for row in zip(*found, strict=True):
        limits = [one["limit"] for one in row]
        rows = [one["rows_needed"] for one in row]
        print(f"{stage:5s} {row[0]['lambda']:7g}", end="   ")
        print(f"{min(limits):.3f} to {max(limits):.3f}", end="   ")
        print(f"{min(rows):15.2f} to {max(rows):.2f}")
    shares = [one[0]["share"] for one in found]
    print(f"{stage:5s} policy term over loss term, lengths:", end=" ")
    print(f"{min(shares):.2f} to {max(shares):.2f}")

# %% [markdown]
# For the encoder the loss term is at least twice as long, so leaving out nearly all of the policy term turns the direction, but
# not far, and the rows needed change by about a half at most. (Late, the reference of the encoder is known only roughly, see
# above, so take those cosines with care.) The policy's own parameters get only (13), and in training the pressure towards the
# target rate; for them $\lambda_\pi$ sets the balance of these two.
#
# ## Run it yourself, small
#
# The same laboratory on this machine, at smoke size: the untrained `tiny` network, rows of 64 bytes, a few batches. Its figures
# are rough, so only the order of things is printed.

# %%
config = with_settings(
    rltok.preset("tiny"), {"data.sequence_length": 64, "train.seed": 0}
)
corpus = load_corpus("sample", config.data, max_bytes=200_000)
model, device = (
    new_model(config, torch.device("cpu")).train(),
    torch.device("cpu"),
)
little = Sizes(rows=8, batches=12, draws=4, reference_draws=32)
measured = measure_stage(
    model,
    batches_of(corpus.train, little, 0, device),
    ["naive", "causal", "causal+early", "causal+early+gamma0.9+batch"],
    little,
    seed=0,
)
variances = {
    name: one["variance"][0]
    for name, one in measured["policy"]["estimators"].items()
}
last = variances["causal+early+gamma0.9+batch"]
print("variance, as a power of ten times that of the last")
for name, value in variances.items():
    power = round(2 * np.log10(value / last)) / 2
    print(f"{ch03_ladder.words(name):42s} 10^{power:.1f}")
falling = sorted(variances.values(), reverse=True)
print("every step lowers it:", falling == list(variances.values()))

# %% [markdown]
# ## What we saw
#
# * Variance on real text is measured with the code that trains, and held to enumeration on rows short enough for it.
# * The formula for "rows needed" is right within a factor of a few. The ladder's steps are powers of ten.
# * Late in training even the reference is uncertain. Intervals say so, and so should readers.
# * The weight 0.01 turns the encoder's gradient, but not far.
#
# ## Exercises
#
# **1. A bootstrap by hand** (easy, 10 minutes). Draw twelve numbers from a normal distribution. Make a 95 % interval for their mean by
# 2000 resamples. Compare it with the mean plus and minus two standard errors.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
rng = np.random.default_rng(0)
numbers = rng.normal(size=12)
resampled = rng.choice(numbers, size=(2000, 12)).mean(axis=1)
low, high = np.percentile(resampled, [2.5, 97.5])
error = numbers.std(ddof=1) / np.sqrt(12)
print(f"bootstrap: {low:.2f} to {high:.2f}")
wide = (numbers.mean() - 2 * error, numbers.mean() + 2 * error)
print(f"two standard errors: {wide[0]:.2f} to {wide[1]:.2f}")
print("Of so few numbers the bootstrap's interval is a little too narrow.")

# %% [markdown]
# ## Where to go next
#
# [Chapter 04](04_the_boundary_policy.ipynb): what the policy looks like, and how it keeps its rate.
