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
#       '0.1': nats below which a policy counts as decided
#       '95': level of an interval, in per cent
#     download_mb: 0
# ---

# %% [markdown] tags=["header-strip"]
# # 09 Beyond the paper
#
# **In short.** In our smallest network, less noise in the policy's gradient lowers the loss a little, and a start with many
# boundaries lowers it more; both cost extra computation. The chapters before this one rebuilt the paper and judged it. This one
# asks what limits its method. What we expected was written down before the runs, and not all of it held.
#
# **After this chapter you can** say what boundaries can give and at which price, prove that a baseline may know the whole text,
# and weigh less variance against its cost.
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
from pathlib import Path

import numpy as np
import torch
from IPython.display import Markdown

import rltok
from rltok import vocab
from rltok.evidence.chapters import (
    ch09_ceiling,
    ch09_courses,
    ch09_questions,
    ch09_rates,
    ch09_rungs,
    ch09_target,
)
from rltok.evidence.differences import gap
from rltok.runs.models import new_model
from rltok.show import plots
from rltok.show.notebook import judge
from rltok.statistics import SURE, t_limit
from rltok.variance.exact import all_strings, policy_log_prob
from rltok.variance.gradients import share

plots.use_style()
results = (
    Path("results") if Path("results").exists() else Path("notebooks/results")
)
stored = [
    ch09_questions.largest(results, question)
    for question in ch09_questions.QUESTIONS
]
ceiling, draws, optima, rates = stored
ceiling = ch09_ceiling.rules_at_rates(ceiling, results)
estimators = ch09_rungs.read(results / "estimators.json")

# %% [markdown]
# ## Four questions
#
# Runs are planned with the 32M network of chapter 07 and with `tiny`, the network of chapters 03 to 05b. The table says which of
# them answers each question below, from how many runs, seeds of each method, and megabytes of text:

# %%
Markdown(
    ch09_questions.questions_table(results, [ceiling, draws, optima, rates])
)

# %% [markdown]
# So all answers are of `tiny`, and may be others at 32M. *The policy* is the fast policy: it has twenty times the network's
# learning rate, and $D = 16$. Losses are of validation text. The number after ± is half of a 95 % interval ([how to read
# one](07_reading_the_results.ipynb#how-to-read-a-difference)).
#
# ## What can boundaries give?
#
# We trained the rules of [chapter 05b](05b_every_rule.ipynb) at several rates, up to a token for every byte. (BPE has no target
# rate; a smaller vocabulary gives more tokens.) With even spacing the loss falls from one token in five bytes to one in three,
# and again to one in two. Predict: does it fall once more, beyond its interval, with a token for each byte?

# %% tags=["prediction"]
guess = None  # "yes" or "no"

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
step = gap(ceiling, "even_every_1", "even_every_2", "validation")
print(judge(guess, "yes" if step.verdict == "lower" else "no"))
print(f"bits per byte move by {ch09_courses.cell(step)}")

# %% mystnb={"figure": {"caption": "Bits per byte of each rule at each of its rates, minus those of even spacing at one boundary in five bytes. Left: against tokens per byte, with 95\u00a0% intervals over seeds. Right: the same against training FLOPs per byte. BPE guidance looks at later bytes before it decides.", "name": "fig-beyond-ceiling"}, "image": {"alt": "Two panels with a line for each rule, all falling to the right but for white space, which is a single point. Random places lie highest, even spacing and the policy a little lower and close together, the entropy rule lower still at few tokens per byte. At the same number of tokens the three points of BPE guidance and of causal BPE lie below even spacing, random places and the policy, near the entropy rule; at the same FLOPs they lie below everything, and the entropy rule above even spacing. Even spacing comes near the lowest point of BPE guidance only with a token for every byte, at about twice the FLOPs."}}
plots.show(ch09_ceiling.figure(ceiling))

# %%
Markdown(ch09_ceiling.headroom(ceiling))

# %% [markdown]
# Losses at different prices say little, so compare rules at equal FLOPs (right panel), with even spacing's loss taken from the
# line between its points. *Clearly* means beyond the interval:

# %%
Markdown(ch09_ceiling.flops_table(ceiling))

# %% [markdown]
# So the tokenizers predict better than even spacing, clearly at nearly all points. The policy cannot be told from it here; at 32M
# it is better (chapter 07). The entropy rule predicts better than the policy at equal tokens (left), but needs a second network,
# whose FLOPs count.
#
# ## Estimators beyond the paper
#
# The paper compares a row with *other* rows (17), whose texts differ. A second draw of boundaries on the *same* text is a closer
# comparison. These estimators continue the ladder of [chapter 03](03_variance_ladder.ipynb):
#
# * **Baseline of 1 other draw**: subtract the return of a second draw; only the first draw trains.
# * **Leave one out**: every draw trains, against the mean of the others {cite}`kool2019`.
# * **Antithetic**: a boundary is drawn where a random number $u$ lies below its probability. The second draw takes $1 - u$, so
#   that the two seldom have boundaries at the same places. Both train {cite}`dong2020`.
# * **Linear value, whole text**: subtract a linear prediction of the return from bytes before and after.
# * **Mean return of the text**: subtract the mean over a dozen further draws.
# * **One decision in 16 flipped**: flip a decision, draw the rest of the row again, and compare {cite}`titsias2015`.
#
# ### Any function of the text may be a baseline
#
# Let $V_i$ depend on the whole text $x$, bytes after $i$ included, and on decisions before $i$, but on no others. Then
#
# $$\mathbb{E}\big[V_i\,\nabla \log \pi(a_i)\big] = \mathbb{E}\Big[V_i \sum_{a} \pi(a \mid x, a_{<i})\,\nabla \log \pi(a \mid x,
# a_{<i})\Big] = \mathbb{E}\Big[V_i\,\nabla \sum_{a} \pi(a \mid x, a_{<i})\Big] = \mathbb{E}\big[V_i\,\nabla 1\big] = 0.$$
#
# The first step takes the mean over $a_i$, on which $V_i$ does not depend; the second uses $\pi \nabla \log \pi = \nabla \pi$. So
# subtracting $V_i$ from the return changes no expectation. A policy may not see later bytes, because a model that writes does not
# have them yet. A baseline, used in training alone, may. And it may be the return of a second draw, which, given the text, does
# not depend on the first.
#
# Check it by enumerating all decisions on a short row. Add a baseline of your own to `baselines`: a number for each position,
# made from `text` and earlier `bits`.

# %%
model = new_model(rltok.preset("tiny"), torch.device("cpu")).double()
with torch.random.fork_rng(devices=[]), torch.no_grad():
    torch.manual_seed(0)
    for weights in model.rule.parameters():  # a policy that is not even
        weights.add_(torch.randn_like(weights))
row = torch.tensor([[vocab.BOS, *b"to be or", vocab.EOS]])
strings = all_strings(row)
log_pi = policy_log_prob(model, share(model, row), strings)[:, 0]
probabilities = log_pi.sum(dim=1).exp().detach()
bits, text = strings[:, 0].double(), row[0, 1:].double()


def expectation(baseline):
    """Length of the vector E[sum_i V_i grad log pi(a_i)]."""
    weighted = probabilities[:, None] * baseline * log_pi
    grads = torch.autograd.grad(
        weighted.sum(), list(model.rule.parameters()), retain_graph=True
    )
    return float(torch.cat([grad.flatten() for grad in grads]).norm())


baselines = {
    "one": torch.ones_like(text),
    "the next byte": text,
    "all later bytes": text.flip(0).cumsum(0).flip(0),
    "boundaries before": bits.cumsum(dim=1) - bits,
    "boundaries up to here": bits.cumsum(dim=1),
}
print(f"{len(strings)} strings, of probability {probabilities.sum():.6f}")
for name, baseline in baselines.items():
    length = expectation(baseline)
    print(f"{name:22s}", "0" if length < 1e-9 else f"not 0: {length:.3f}")

# %% [markdown]
# The last baseline counts the decision that it judges. That decision, and later ones, which depend on it, are all that a baseline
# may not know.
#
# ### The ladder
#
# How many times less variance than the paper's one draw does each estimator have? The table has the least and the most of three
# moments of training. Rows are full, the run is of `tiny` as chapter 03 trains it ($D = 1$, one learning rate), FLOPs are those
# of an update:

# %%
Markdown(ch09_rungs.rungs_table(estimators))

# %% [markdown]
# A second draw as a baseline does most of what the mean over a dozen does. Where both draws train, variance falls further. A
# linear value does next to nothing, and flipping little for its price.
#
# Short rows can be computed exactly:

# %%
Markdown(ch09_rungs.exactly(estimators))

# %% [markdown]
# So even a baseline without noise of its own can *double* the variance: the mean is not the best baseline ([chapter 02, exercise
# 1](02_stochastic_computation_graph.ipynb#exercises)).
#
# ## Does less noise lower the loss?
#
# Eight seeds train with one draw, and eight with each of three estimators that have two. A policy counts as *decided* once the
# mean entropy of its decisions is 0.1 nats. Bold means: differs from the first row beyond its interval, before rounding.

# %%
Markdown(ch09_courses.courses_table(draws, "policy_one_draw", "decided"))

# %% [markdown]
# All three policies decide sooner. With two of them the loss falls clearly, but little, at a fifth more FLOPs; more tokens buy as
# much for less ([exercise 1](#exercises)). May the gain be luck ([exercise 3](#exercises))?
#
# ## Where do boundaries end up?
#
# The policy with one draw (*unchanged*) trains in nine more ways. Six change the first three tenths of training:
#
# * **late start**: at first, the policy's weights stay put;
# * **slow, then fast**: at first, they have the network's learning rate, afterwards the high one;
# * **fast, then slow**: the reverse;
# * **dense start**: the target rate falls from one in two to one in five;
# * **warm start**: draws stay random for longer (logits are divided by a falling number);
# * **entropy held up**: a term of the loss keeps decisions open.
#
# Three more are a quarter of $D$ (**smaller D**), **another β₂** of the optimizer, and **two restarts** of the policy's weights
# from zero.
#
# A seed *ends after spaces* if in the end most words have a boundary after the space before them. Unchanged, all seeds do; the
# paper's policy moves late, and in chapter 07 not all of its seeds did. Predict: in how many of the nine ways do most seeds end elsewhere?

# %% tags=["prediction"]
guess = None  # a number from 0 to 9

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
spaces = {
    name: [ch09_courses.ended(run) == "after spaces" for run in runs.values()]
    for name, runs in optima.runs.items()
}
print(judge(guess, sum(np.mean(there) < 0.5 for there in spaces.values())))

# %%
Markdown(ch09_courses.courses_table(optima, "policy_early", "after spaces"))

# %% mystnb={"figure": {"caption": "Bits per byte of each run, minus the mean of all runs with the same seed. The form of a point says where most words have a boundary at the end of the run.", "name": "fig-beyond-optima"}, "image": {"alt": "A row of eight points for each of ten policies. All points of the dense start lie left of zero, between minus 0.01 and minus 0.06; the points of the others lie between minus 0.02 and plus 0.03 and overlap, those of two restarts all right of zero. Nearly all points are circles, after spaces. Two squares, before second letters, are of the late start, and one diamond, at none of these places, of slow, then fast; all three lie at zero or a little to the left."}}
plots.show(ch09_courses.figure(optima))

# %% [markdown]
# Nearly all runs end after spaces and yet differ in loss, so something other than the kind of place decides it. The few that end
# elsewhere predict no worse.
#
# The dense start predicts best, far beyond its interval. The other bold differences pass theirs narrowly, as one in twenty
# does by chance. The dense start has more tokens at first, which its FLOPs count; in the end it has hardly more than the others, too few
# to explain its lead. Even spacing with such a start was not tried.
#
# ## One model for many rates?
#
# If one network served all rates, its user could choose how much to compute. So here the policy takes the wanted rate $r$ as an
# input: the bias of (22) becomes the logit of $r$, and its difference from the old bias, times a new vector, is added to $W_0$ of (21) ([in
# full](../book/using_rltok.md#one-model-for-many-rates)). The rest of the network sees only the boundaries. Each update draws $r$
# between one in ten and one in two. Predict: at which of one in three, five and eight does this network predict worse, beyond its
# interval, than one trained for that rate?

# %% tags=["prediction"]
guess = None  # "none", or some of "1/3, 1/5, 1/8"

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
curve = ch09_rates.rate_curve(rates)
worse = [f"1/{1 / at.target:.0f}" for at in curve if at.difference.sign() > 0]
print(judge(guess, ", ".join(worse) or "none"))

# %%
Markdown(ch09_rates.rates_table(rates))

# %% mystnb={"figure": {"caption": "Loss against tokens per byte of one model at three rates, and of three models with a rate each; 95\u00a0% intervals over seeds.", "name": "fig-beyond-rates"}, "image": {"alt": "At few and medium tokens per byte the points of one model for all rates lie within the wide intervals of models with one rate. At the most tokens per byte the model with that rate lies clearly lower, and the line of the one model is almost flat."}}
plots.show(ch09_rates.rates_figure(rates))

# %% [markdown]
# Rates are held about as well as by networks with one rate. At one in three the idea **failed**: a network of its own is clearly
# better, and the one for all rates gains next to nothing from more tokens. At one in five and eight the intervals are too wide to
# tell. Is the network too small for many rates, or a single vector too little? These runs do not say.
#
# ## What we expected, and what came
#
# Written before the runs ([log of decisions](../book/log_of_runs.md#decisions)); *undecided* means that what came may be luck:

# %%
Markdown(ch09_questions.expected_table(ceiling, draws, optima, rates))

# %% [markdown]
# The second held by its wording: no change exceeds the spread of seeds. Compared seed by seed, two changes are clear nevertheless.
#
# ## A target, before its runs
#
# When may one say that a policy can replace BPE guidance? The rule was written before the runs that will decide it. It has four
# parts, all to be met with equally many boundaries, at 32M and at 147M. The runs known then, `32m_best`, meet one of them ([chapter
# 07](07_reading_the_results.ipynb) explains *leans for*):

# %%
Markdown(ch09_target.judged(results))

# %% [markdown]
# Why the last part? With seeds that vary so much, the interval in the first row is several times the margin, and no small lead
# can be shown.
#
# ## What we saw
#
# * With even spacing, more tokens lower the loss, at a price. At equal FLOPs tokenizers' boundaries are ahead of even spacing;
#   the policy's not clearly.
# * A baseline may know the whole text and every earlier decision, but neither the one that it judges nor later ones.
# * A second draw cuts the variance several times at a fifth more FLOPs, and the loss by little.
# * A start with many boundaries lowers the loss more. Why, these runs do not show.
# * Nearly all policies end after spaces, and yet differ in loss.
# * One model holds many rates, but makes less of many tokens than a model of its own.
#
# All but the target is of `tiny` alone.
#
# ## Exercises
#
# **1. The price of a hundredth** (easy, 10 minutes). From one boundary in five to one in three: by what share do FLOPs per byte
# rise for each hundredth of a bit that even spacing gains? What do the dense start and a second draw as the baseline pay for one?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
points = {point.name: point for point in ch09_ceiling.points(ceiling)}
before, after = points["even"], points["even_every_3"]
gain = -100 * after.gap.bits
rise = after.flops / before.flops - 1
print(f"more tokens: {rise / gain:.1%} for each of {gain:.1f} hundredths")
for name, sweep, other, first in (
    ("dense start", optima, "policy_dense", "policy_early"),
    ("second draw", draws, "policy_two_draws", "policy_one_draw"),
):
    mine, theirs = sweep.runs[other], sweep.runs[first]
    rise = np.mean([mine[s]["flops"] / theirs[s]["flops"] for s in mine]) - 1
    gain = -100 * gap(sweep, other, first, "validation").bits
    print(f"{name}: {rise / gain:.1%} for each of {gain:.1f} hundredths")

# %% [markdown]
# **2. Draws or rows?** (medium, 15 minutes). Instead of a second draw one could read more rows in each update: twice as many
# halve the variance, at twice the FLOPs. If variance were all that counts, which estimators of the ladder would pay, at every
# moment?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
costs = estimators["stages"][-1]["costs"]
for rung in ch09_rungs.SHOWN[1:]:
    least = min(ch09_rungs.times_less(estimators, rung))
    price = costs[rung]["flops"]
    word = "pays" if least > price else "does not"
    print(f"{rung:27s} {least:5.2f} times less at {price:.2f}: {word}")
print("More rows, though, also train the network. That is why the loss, and")
print("not the variance, decides.")

# %% [markdown]
# **3. Luck?** (hard, 20 minutes). Over eight seeds, three methods are compared with the same fourth. Suppose that all four are
# equally good. How often does at least one of the three come out lower beyond its 95 % interval, and how often do two? Simulate
# it, and say what that means for the estimators with two draws.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
rng = np.random.default_rng(0)
reference = rng.normal(size=(20_000, 1, 8))
apart = rng.normal(size=(20_000, 3, 8)) - reference
error = apart.std(axis=2, ddof=1) / np.sqrt(8)
lower = (apart.mean(axis=2) < -t_limit(SURE, 7) * error).sum(axis=1)
print(f"at least one: {(lower > 0).mean():.1%}")
print(f"at least two: {(lower > 1).mean():.1%}")
verdicts = ch09_courses.moved(draws, "policy_one_draw").values()
lower = list(verdicts).count("lower")
print(f"in the table: {lower}, so luck is unlikely, even though bad luck of")
print("the one draw would count three times. (It is also the unchanged")
print("policy of the next table: the same runs.)")

# %% [markdown]
# ## Where to go next
#
# This was the last chapter. `scripts/measure/run_sweep.py` runs the plans that have not run, and [a rule of your
# own](../book/a_new_rule.md) is one file.
