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
# **In short.** The numbers of chapter 03 come from the code that trains, agree with enumeration where that is possible,
# and have intervals. They can tell reductions apart that differ by powers of ten, but not by a factor of two or three.
# This chapter is for readers who want to check chapter 03; the story goes on in [chapter
# 04](04_the_boundary_policy.ipynb).
#
# **After this chapter you can** say how variance is measured where nothing can be enumerated, what a bootstrap interval
# is, and which numbers of the ladder deserve trust.
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
# `rltok.variance.laboratory` repeats what a training step does: take a fresh batch, draw boundaries, compute the policy
# gradient. It does so on many batches (`--batches`) and with several draws on each (`--draws`), and gives every
# estimator the same draws. A far larger number of draws on each batch (`--reference-draws`) stands in for the true gradient. On rows
# short enough to enumerate, the results agree with exact ones, as the package's tests check. One command made the
# record:

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
keys = ("gamma", "centring", "lambda_policy", "lambda_target")
print("trained with", ", ".join(f"{key} {objective[key]}" for key in keys))

# %% [markdown]
# ## Intervals, and the whole ladder
#
# Intervals come from the *bootstrap*: draw as many batches as there are, with replacement, and compute the number again
# from this *resample*. Of the numbers from many resamples, the middle 95 % make the interval. The figure shows the rows
# needed with their intervals, the table after it the lowest and the highest of the three seeds.

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
# The lower part shows each reduction *alone*. The batch mean alone saves powers of ten. At the start it saves more
# than the early exit alone, because a byte costs about the same in every row; early in training far less; late about as
# much.
#
# But *on top of the others* it saves nothing early. The reason is the mean reward, in the first three lines below: near
# 0, so there is hardly anything to subtract. The other lines say why every estimator needs more rows late than early.
# They divide late by early; the *squared signal* is the squared length of the mean gradient.

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
# The squared signal falls further than the variance, which for one estimator even rises.
#
# ## How good is the formula?
#
# The formula for rows needed, from chapter 03, is right within a factor of a few. To test it, the laboratory also
# averages real batches, and takes the cosine of the result with the mean of all other batches:

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
# At most 512 rows were averaged here, so larger numbers of rows rest on the formula. It asks for too many where a few
# batches carry most of the noise, as with the estimators without discount. So it can tell rungs apart that differ by
# powers of ten, but not by a factor of a few. The factor of three of causal credit needs no exact formula: with and
# without causal credit the mean is the same, and so, nearly, is the formula's error; what is left is the ratio of the variances. (The comparisons are from start and early,
# for policy and encoder; late, the true gradient is known too poorly.)

# %% [markdown]
# ## Bias against a long run
#
# A discount of 0.9 costs about a quarter of the gradient early in training, and most of it at the start. This is
# measured against the mean of a long run of an estimator without bias, which is itself uncertain: the *reference error*
# is its standard error, in units of its own length. Bias is in units of the true gradient's length. All but the last
# line are for the policy's own parameters.

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
    known = [one["reference_error"] for one in late]
    print(f"late, {group}: error {min(known):.2f} to {max(known):.2f}")

# %% [markdown]
# Late in training the true gradient is so short that even the long run knows it only roughly, and the intervals are
# wide.
#
# ## Both sides of the discount
#
# Chapter 03 shows the rows that a discount needs (right). Bias is the other side: how much of the direction it leaves
# (left; dotted: a useful direction).

# %% mystnb={"figure": {"caption": "Against the discount: what bias leaves of the direction (left), and rows to a cosine of 0.5 (right). All with causal credit, early-exit rewards and leave-one-out mean. Lines are medians over three seeds, dots the seeds; no line where most seeds never arrive.", "name": "fig-gamma-bias"}, "image": {"alt": "Left: in the early and late stages the cosine that bias allows is near 1 from a discount of 0.8 on and lower below; at the start it lies under one half up to 0.95, then rises to 1. Right: in the early and late stages rows needed are fewest at 0.8 and rise by about two powers of ten towards 1; at the start there is a line from 0.98 on only, nearly level."}}
plots.show(ch03_ladder.gamma_figure(record))

# %% [markdown]
# A larger $\gamma$ also makes the returns larger, so the same $\lambda_\pi$ pulls the policy harder. Here is the
# typical size of an advantage (root mean square, nats):

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
# The paper's section 2.4 says that the network's lead over its early exit grows with the position, because later
# positions have more context. That is a reason to subtract the batch mean at each position by itself.
#
# Predict: without a discount, does the spread of the return (its standard deviation over rows and draws) grow, fall or
# stay level along the row? The return at $i$ is the sum of all rewards from $i$ on.

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
# The lead grows over the first few dozen positions and is level after that (left panel). Before training there is none:
# the mean reward is negative for two seeds and positive for one.
#
# The right panel is an argument for discounting: without a discount, a decision early in the row is paid with
# the noise of all that follows.
#
# ## Shared parameters and the weight 0.01
#
# The paper's $\lambda_\pi = 0.01$ turns the encoder's gradient, but not far. The encoder gets two terms (chapter 02b):
# the loss's own gradient (12) and the policy gradient (13). In the gradient of the expected loss both have the weight
# 1; in training the second has the weight $\lambda_\pi$. For four such weights the table shows the cosine of the mean
# with the true gradient, and the rows needed (less than one: a single row is more than enough). With the weight 1, what
# is missing is due to the discount of 0.9.

# %%
name = "causal+early+gamma0.9+batch"
print("stage  lambda     cosine of the mean         rows needed")
for stage in ch03_ladder.stage_names(record):
    found = [one["shared"][name] for one in ch03_ladder.at(record, stage)]
    for row in zip(*found, strict=True):
        limits = [one["limit"] for one in row]
        rows = [one["rows_needed"] for one in row]
        print(f"{stage:5s} {row[0]['lambda']:7g}", end="   ")
        print(f"{min(limits):.3f} to {max(limits):.3f}", end="   ")
        print(f"{min(rows):15.2f} to {max(rows):.2f}")
    shares = [one[0]["share"] for one in found]
    print(f"{stage:5s} length of (13) over length of (12):", end=" ")
    print(f"{min(shares):.2f} to {max(shares):.2f}")

# %% [markdown]
# In the encoder, term (12) is at least twice as long, so leaving out nearly all of (13) changes little. (Late, the true
# gradient of the encoder is known only roughly, so take those cosines with care.) The policy's own parameters get only
# (13) and the pressure towards the target rate; for them $\lambda_\pi$ sets the balance of these two.
#
# ## Run it yourself, small
#
# The same laboratory on this machine, at smoke size: the untrained `tiny` network, rows of 64 bytes, a few batches. So
# small a measurement is rough, and only powers of ten are printed.

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
print("variance divided by that of the last line")
for name, value in variances.items():
    power = round(2 * np.log10(value / last)) / 2
    print(f"{ch03_ladder.words(name):42s} 10^{power:.1f}")
falling = sorted(variances.values(), reverse=True)
print("every step lowers it:", falling == list(variances.values()))

# %% [markdown]
# ## What we saw
#
# * Variance on real text is measured with the code that trains, and agrees with enumeration on rows short enough for
#   it.
# * The formula for "rows needed" is right within a factor of a few. The ladder's large steps are powers of ten;
#   it cannot tell smaller ones apart.
# * Late in training even the true gradient is uncertain, and the intervals are wide.
# * The weight 0.01 turns the encoder's gradient, but not far.
#
# ## Exercises
#
# **1. A bootstrap by hand** (easy, 10 minutes). Draw twelve numbers from a normal distribution. Make a 95 % interval
# for their mean by 2000 resamples. Compare it with the mean plus and minus two standard errors.

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
