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
#       '0.5': the cosine that this chapter calls useful
#       '0.9': a discount, the one that the authors' released code very probably used
#       '0.99': the discount that the paper states
#     download_mb: 0
# ---

# %% [markdown] tags=["header-strip"]
# # 03 The variance ladder
#
# **In short.** The plain policy gradient, *naive REINFORCE*, is right on average and very noisy: it takes far more rows
# of text than training can afford before it points roughly the right way. Four changes that lower its variance bring
# this down to about one batch, early in training. In whole training runs naive REINFORCE ends worse than boundaries
# that are simply evenly spaced. With the four changes, learned boundaries end about level with those, as long as policy
# and network share one learning rate, as in the paper ([chapter 07](07_reading_the_results.ipynb) gives the policy its
# own). Chapter 02 made the estimate right on average; this chapter makes it usable.
#
# **After this chapter you can** say of any change to a policy-gradient estimator what it costs in bias and what it buys
# in variance, check both against exact numbers, and read off how many rows of text each change saves.
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
from rltok import vocab
from rltok.config import ModelConfig, RuleConfig
from rltok.estimator import advantages, policy_loss
from rltok.evidence import differences, records, words
from rltok.evidence.chapters import ch03_ladder
from rltok.show import plots
from rltok.show.notebook import judge
from rltok.variance import exact
from rltok.variance.gradients import (
    follow,
    group_slices,
    policy_gradients,
    policy_parameters,
    share,
)
from rltok.variance.ladder import GAMMAS, estimator, gamma_sweep
from rltok.variance.statistics import rows_needed

plots.use_style()

# %% [markdown]
# ## How far off is one estimate?
#
# [Chapter 02](02_stochastic_computation_graph.ipynb) showed that the policy gradient
#
# $$\mathbb{E}_{a \sim \pi_\theta} \big[ \log p_\theta(y \mid a, x)\, \nabla_\theta \log \pi_\theta(a \mid x) \big] \tag{13}$$
#
# can be estimated from one draw of the boundaries, right *on average*. Let $g$ be the estimate from one batch of rows,
# and $g^*$ the true gradient. Three numbers say how far off such an estimate is:
#
# * **bias**: how far its average $\mathbb{E} g$ is from $g^*$;
# * **variance**: its mean squared distance from its own average, summed over all parameters;
# * **rows needed**: how many rows of text one has to average over until the result points roughly where $g^*$ does.
#
# *Roughly* means here that the cosine of the angle between the two is 0.5. (1 is the same direction, 0 a right angle.
# In thousands of dimensions a random direction has a cosine near 0, so 0.5 is a *useful direction*.)
#
# An average over $n$ batches has the same mean and the variance divided by $n$. So its squared length is about
# $|\mathbb{E} g|^2 + \mathrm{variance} / n$, and its cosine with $g^*$ about
#
# $$\cos(n) = \frac{c_\infty}{\sqrt{1 + \nu / n}}, \qquad \nu = \frac{\mathrm{variance}}{|\mathbb{E} g|^2},$$
#
# where $c_\infty$ is the cosine of $\mathbb{E} g$ with $g^*$, which is 1 without bias. With $c_\infty$ under 0.5, no
# number of rows is enough.
#
# Predict: an estimator has no bias, $\nu = 300$, and batches of 16 rows. How many rows does it need for a cosine of
# 0.5?

# %% tags=["prediction"]
guess = None  # a number of rows

# %% jupyter={"outputs_hidden": true} tags=["hide-output"]
# limit is c_infinity, noise is nu
wanted = rows_needed(limit=1.0, noise=300, rows=16)
cosine = 1 / np.sqrt(1 + 300 / (wanted / 16))
print(judge(guess, round(wanted)))
print(f"{wanted / 16:.0f} batches: cosine {cosine:.2f}")
for limit in (0.6, 0.4):
    rows = rows_needed(limit, 300, 16)
    found = "never" if np.isinf(rows) else f"{rows:.0f} rows"
    print(f"with a bias that leaves a cosine of {limit}: {found}")

# %% [markdown]
# ## A world small enough to enumerate
#
# First we want to *know* bias and variance, not to measure them. So: a very small network with random weights, and a
# batch of two rows of five bytes. BOS has its forced boundary, which leaves four free positions: 16 strings for each
# row, 256 for both together. `exact.joint_moments` visits all 256 and returns the exact mean and variance of an
# estimator, for every parameter.

# %%
sizes = ModelConfig(
    embedding_dim=16, num_heads=2, window=3,
    down_layers=1, mid_layers=1, up_layers=1,
    rule=RuleConfig(target_rate=0.3, lags=2, scale=1.0),
)  # fmt: skip
with torch.random.fork_rng(devices=[]):
    torch.manual_seed(3)
    small = rltok.AutoregressiveUNet(sizes).double()
    with torch.no_grad():
        for weights in small.parameters():
            weights.add_(
                torch.randn_like(weights), alpha=0.1
            )  # at the start both heads predict the same
pair = torch.stack(
    [
        torch.cat(
            [torch.tensor([vocab.BOS]), torch.from_numpy(vocab.encode(text))]
        )
        for text in ("to be", "or no")
    ]
)
names = list(policy_parameters(small))
truth = exact.exact_gradient(small, pair).flat("policy", names)
policy = group_slices(small)["policy"]
print(f"{2**4 * 2**4} strings")
print(f"entries of the policy gradient: {len(truth)};", end=" ")
print(f"{policy.stop} of them are the policy's own")

# %% [markdown]
# `policy` selects the parameters of the boundary policy; the others belong to the encoder, which the policy shares with
# the rest of the network. This chapter looks at the policy's own: $W_0$ to $W_2$, and a scale
# for each coordinate of $X$. A helper prints the bias in units of the true
# gradient's length, the variance in units of its square, and the rows needed:


# %%
def report(*estimators: str) -> None:
    """Exact bias, variance and rows for the policy's own parameters."""
    target = truth[policy]
    print(f"{'':40s}   bias   variance      rows")
    found = exact.joint_moments(small, pair, list(estimators))
    for name, moments in found.items():
        mean, spread = moments.mean[policy], moments.variance[policy].sum()
        noise = float(spread / mean.square().sum())
        bias = float((mean - target).norm() / target.norm())
        variance = float(spread / target.square().sum())
        limit = float(torch.cosine_similarity(mean, target, dim=0))
        rows = rows_needed(limit, noise, rows=2)
        shown = ch03_ladder.words(name)
        print(f"{shown:40s} {bias:6.4f} {variance:10.2f} {rows:9.1f}")


# %% [markdown]
# ## Rung 0: naive REINFORCE
#
# Naive means: every decision in a row is paid the log-likelihood of the *whole* row. Let the *reward* $R_j$ be the
# log-likelihood of the byte predicted at position $j$. A decision at $i$ is paid a sum of rewards, its *return* $G_i$,
# which here is the same for all $i$.
#
# Four settings of the training objective choose the estimator; each of the next four rungs changes one of them, in this
# order. For naive REINFORCE they are:

# %%
switches = ("credit", "relative_rewards", "gamma", "centring")
for name in switches:
    print(f"{name}: {getattr(estimator('naive'), name)}")
report("naive")

# %% [markdown]
# No bias, and a variance thousands of times the square of what we look for. The reason: a row of five bytes costs some
# 30 nats, whatever the boundaries are. So a decision is paid about $-30$, good or bad, and only the small differences
# carry information.
#
# ## Rung 1: causal credit
#
# A decision cannot change the loss of bytes that came before it. Chapter 02 showed that these losses contribute exactly
# 0 to its gradient. So they may be left out of its return:
#
# $$G_i = \sum_{j \ge 0} R_{i+j} \quad\text{instead of}\quad G_i = \sum_{j} R_j .$$
#
# Predict: by what factor does the variance fall? If all rewards are equal, a decision in the middle of the row is paid
# half as much as before, so its variance is a quarter; for the first decision little changes, for the last nearly
# everything. Average over the row.

# %% tags=["prediction"]
guess = None  # a factor


# %% jupyter={"outputs_hidden": true} tags=["hide-output"]
def variance_of(name: str) -> float:
    """Exact variance of the policy's own parameters."""
    moments = exact.joint_moments(small, pair, [name])[name]
    return float(moments.variance[policy].sum())


report("naive", "causal")
factor = variance_of("naive") / variance_of("causal")
print(judge(guess, f"{factor:.1f}"))

# %% [markdown]
# With equal rewards, a decision that has the share $u$ of a long row behind it keeps $1 - u$ of its pay, and the
# average of $(1 - u)^2$ is a third: hence the factor of 3. Causal credit costs no bias, but 3 is little beside
# thousands.
#
# ## Rung 2: rewards relative to the early exit
#
# Most of a reward can be predicted *without* the boundaries: it is how hard the byte is. The network has such a
# prediction. The early head of chapter 00 reads the byte states before any boundary is drawn; the paper calls its
# prediction the *early exit*:
#
# $$\log p^{early}(x_{i+1} \mid x_{\le i}) = \log \mathrm{softmax}(W_{early} X_i) \tag{14}$$
# $$R_i = \log p(x_{i+1} \mid x_{\le i}, a_{\le i}) - \log p^{early}(x_{i+1} \mid x_{\le i}) \tag{15}$$
#
# What is subtracted does not depend on $a$. So it is a baseline, and adds no bias, as chapter 02 showed. Here are the
# rewards of one draw, before and after:

# %%
drawn = torch.tensor([[1, 0, 1, 0, 0], [1, 1, 0, 0, 1]]).bool()
with torch.no_grad():
    out = small(pair, boundaries=drawn)
print("log p        ", *(f"{-value:6.2f}" for value in out.nll[0]))
print("log p early  ", *(f"{-value:6.2f}" for value in out.early_nll[0]))
rewards = (out.early_nll - out.nll)[0]
print("reward R_i   ", *(f"{value:6.2f}" for value in rewards))

# %% [markdown]
# Predict roughly: by what factor does the variance fall? It goes with the square of what a decision is paid. That was a
# sum of numbers near $-6$; now it is a sum of small numbers of either sign.

# %% tags=["prediction"]
guess = None  # a factor

# %% jupyter={"outputs_hidden": true} tags=["hide-output"]
report("causal", "early", "causal+early")
factor = variance_of("causal") / variance_of("causal+early")
print(judge(guess, round(factor)))

# %% [markdown]
# Subtracting *something* is what makes the method possible. Here both heads predict nearly uniformly, so even a
# constant does most of it (exercise 2); on a trained network the early exit also knows which bytes are hard.
#
# (The early exit without causal credit, the middle line, has less variance than with it: in this small world the
# earlier rewards partly cancel the later ones. On real text causal credit lowers the variance of early-exit rewards, too.)
#
# ## Rung 3: time discounting
#
# A boundary matters most for the next few bytes. What happens much later depends on many other decisions, so it adds
# noise to this one's pay. Discounting pays later rewards less:
#
# $$G_i = \sum_{j=0}^{N-1-i} \gamma^j R_{i+j} \tag{16}$$
#
# This is the first rung that costs bias. A decision does have some influence on the far future, and a discount leaves a
# part of it out. With chapter 02's $I_{ij}$, what the loss at $j$ contributes to the gradient of decision $i$, the
# expected gradient misses $\sum_{i \le j} (1 - \gamma^{j-i}) I_{ij}$.

# %%
names_of = [f"causal+early+gamma{g}" for g in ("0.99", "0.9", "0.5", "0")]
report(*names_of)
influence = sum(exact.influence(small, one[None]) for one in pair)
distance = torch.arange(5)[None, :] - torch.arange(5)[:, None]
left_out = 1 - 0.9 ** distance.clamp(min=0).double()
missed = (left_out[..., None] * influence).sum(dim=(0, 1)) / 2  # two rows
name = "causal+early+gamma0.9"
measured = truth - exact.joint_moments(small, pair, [name])[name].mean
assert torch.allclose(missed, measured, atol=1e-9)
print("bias at 0.9, by the formula and by enumeration: equal to 9 decimals")

# %% [markdown]
# On five bytes there is hardly a far future, so a discount saves little. On rows of hundreds of bytes it saves much
# more, as we shall see.
#
# ## Rung 4: relative to the batch
#
# Later in training the network with tokens predicts better than its early exit, so most returns are positive. What all
# rows have in common says nothing about a decision. So subtract, at each position, the mean return of the batch ($b$
# counts its $B$ rows):
#
# $$A_{i,b} = G_{i,b} - \frac{1}{B} \sum_{b'=1}^{B} G_{i,b'} \tag{17}$$
#
# The returns of the *other* rows are a baseline. But the mean contains $G_{i,b}$ itself: a part of the signal is
# subtracted from itself.
#
# Predict: with $B = 2$, what is the expected gradient, as a multiple of the true one?

# %% tags=["prediction"]
guess = None  # a multiple

# %% jupyter={"outputs_hidden": true} tags=["hide-output"]
for name in ("causal+early", "causal+early+batch", "causal+early+loo"):
    mean = exact.joint_moments(small, pair, [name])[name].mean
    multiple = float(mean @ truth / truth.square().sum())
    assert torch.allclose(mean, multiple * truth, atol=1e-9)  # direction
    print(f"{ch03_ladder.words(name):40s} {multiple:.6f} x the true one")
    if name.endswith("batch"):
        print(judge(guess, round(multiple, 6)))

# %% [markdown]
# With $B$ rows the factor is $(B - 1) / B$: one half here, and 15/16 for the batches of 16 rows below. It changes the
# length of the gradient and not its direction, like a slightly smaller $\lambda_\pi$. Leaving the row out of its own
# mean (*leave-one-out*) removes the factor; the rows needed stay the same:

# %%
pairs = ["causal+early+batch", "causal+early+loo"]
report("causal+early", *pairs)
spread = [
    float(exact.joint_moments(small, pair, [name])[name].variance.sum())
    for name in pairs
]
print("variance, leave-one-out over batch mean:", end=" ")
print(f"{spread[1] / spread[0]:.6f} = (B / (B - 1))^2")

# %% [markdown]
# With one other row to compare with, the "mean" is as noisy as the return itself, so here centring raises the rows
# needed. With $B = 1$ the mean is the return and nothing is left; `rltok` refuses such a batch.
#
# ## The loss that all rungs share
#
# Whatever the advantage, the gradient is that of one loss, the *policy loss*, in which `detach` stops the gradient
# through the advantage. (The code divides it by the number of predicted bytes; the paper's formula has no divisor.)
#
# $$\mathcal{L}^{\pi} = - \sum_i \log \pi(a_i \mid x_{\le i}, a_{<i})\, \mathrm{detach}(A_i) \tag{18}$$
#
# Here is its gradient for the draw above, by autograd and by hand: the derivative of $\log \pi(a_i)$ is $(a_i - p_i)$
# times that of the logit.

# %%
out = small(pair, boundaries=drawn)
reductions = estimator("causal+early+gamma0.9+batch").reductions
paid = advantages(out.nll, out.early_nll, out.scored, **reductions)
logits, scored_bytes = out.boundary_logits, out.scored.sum()
loss = policy_loss(logits, out.boundaries, paid, out.drawn, scored_bytes)
weight = small.rule.project.weight
(by_autograd,) = torch.autograd.grad(loss, weight, retain_graph=True)
score = out.boundaries.double() - torch.sigmoid(logits)  # a - p
score = score * out.drawn  # 0 where forced
pull = -(paid * score).detach() / scored_bytes
(by_hand,) = torch.autograd.grad(logits, weight, grad_outputs=pull)
assert torch.allclose(by_autograd, by_hand)
print("decisions    ", *(f"{bit:5d}" for bit in out.boundaries[0].int()))
print("a_i - p_i    ", *(f"{value:+.2f}" for value in score[0].tolist()))
print("advantage A_i", *(f"{value:+.2f}" for value in paid[0].tolist()))
print(f"both gradients agree in all {by_hand.numel()} weights of W_0 to W_2")

# %% [markdown]
# $a_i - p_i$ is positive for a boundary and negative for none. A positive advantage makes the decision that was taken
# more likely, whichever it was; a negative one makes it less likely.
#
# ## From two rows to real text
#
# Real rows cannot be enumerated: 512 bytes have $2^{511}$ strings. So bias and variance are measured, by drawing, with
# the `tiny` preset on the bundled English, in batches of 16 rows of 512 bytes, at three moments of training: before the
# first update (*start*), after a tenth of training (*early*), and at the end (*late*). (The moment *early* has nothing
# to do with the early exit.) [Chapter 03b](03b_how_we_measured.ipynb) says how, and how sure the numbers are.

# %%
record = ch03_ladder.check(
    json.loads(Path("results/variance_ladder.json").read_text())
)
print("first training seed, nats per byte:")
for stage in record["stages"][:3]:
    means, after = stage["means"], stage["step"]
    print(f"{stage['stage']:5s} after {after:3d} updates:", end=" ")
    print(f"loss {means['nll']:.2f}, early exit {means['early_nll']:.2f}")

# %% [markdown]
# Predict a power of ten: at the early moment, how many rows does naive REINFORCE need for a useful direction? In the
# small world it needed thousands of rows of 5 bytes. A row of 512 bytes is a hundred times longer, and a byte costs less
# than half of what it did there, so the pay that decisions have in common is about forty times larger; the variance
# goes with its square.

# %% tags=["prediction"]
guess = None  # a power of ten

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
full = "causal+early+gamma0.9+batch"
rows = ch03_ladder.median_rows(record, "early", "naive")
print(judge(guess, ch03_ladder.short(rows)))
after = ch03_ladder.median_rows(record, "early", full)
print(f"with all four reductions: {ch03_ladder.short(after)}")
assert rows > 1e6 and after < 100

# %% mystnb={"figure": {"caption": "Rows of text until the cosine with the true gradient of the policy's parameters is 0.5, one reduction after the other. Tiny preset, bundled English (not the paper's corpus), three training seeds. Blue: rows saved; red: the discount's bias puts a useful direction out of reach for most seeds.", "name": "fig-ladder"}, "image": {"alt": "Three panels, start, early and late in training, five lines each, on a logarithmic axis of rows. Naive REINFORCE needs millions of rows in each. Causal credit moves the bar a little to the left, early-exit rewards by two to four powers of ten, a discount by two more at the early and late stages; at the start a discount of 0.9 never arrives for two of three seeds. The batch mean saves a little, late only."}}
plots.show(ch03_ladder.waterfall_figure(record))

# %% [markdown]
# Each row of the figure adds one reduction (blue: rows saved; red, with a triangle: for most seeds no number of rows is
# enough).
#
# * **Causal credit** gives its factor of three at every moment.
# * **Early-exit rewards** give the powers of ten, as in the small world.
# * **A discount** gives another large factor early and late. At the *start* its bias turns the gradient so far that for
#   most seeds no number of rows is enough. The paper calls the bias "small"; that depends on the moment.
# * **The batch mean** on top of the others saves something late. It saves nothing early, when hardly anything is left
#   to subtract.
# * **Late in training every estimator needs more rows than early.** The policy has nearly decided, and what is left to
#   learn is small.
#
# ## Which discount?
#
# The best discount depends on the moment. A smaller $\gamma$ has less variance and more bias, so rows needed are fewest
# somewhere in between. (Dots are seeds, lines their medians. Where a line is missing, most seeds never arrive.)

# %% mystnb={"figure": {"caption": "Rows for a useful direction against the discount, with causal credit, early-exit rewards and leave-one-out mean. Lines are medians over three seeds, dots the seeds; no line where most seeds never arrive.", "name": "fig-gamma"}, "image": {"alt": "In the early and late stages rows needed are fewest at 0.8 and rise by about two powers of ten towards 1; at the start there is a line from 0.98 on only, nearly level."}}
plots.show(ch03_ladder.discount_figure(record))

# %%
for stage in ch03_ladder.stage_names(record):
    medians = [
        ch03_ladder.median_rows(record, stage, name) for name in gamma_sweep()
    ]
    best = GAMMAS[int(np.argmin(medians))]
    rows = ch03_ladder.short(min(medians))
    print(f"{stage:5s}: fewest rows at gamma = {best:g} ({rows} rows)")

# %% [markdown]
# The paper states 0.99; its authors' code very probably used 0.9 ([paper against code](../book/paper_against_code.md)).
# Two warnings. The fewest rows *for the policy gradient* need not give the lowest loss at the end of training. And a
# larger $\gamma$ also makes the returns larger, so with the same $\lambda_\pi$ the policy is pulled harder.
#
# ## What it buys in training
#
# Does a better gradient end in a lower loss? With all reductions together it does. Which of them matters most, these
# runs cannot say. They are training runs of [chapter 07](07_reading_the_results.ipynb), with 32 million parameters on a
# larger text, the same for all, and are compared with a network whose boundaries are evenly spaced. The *whole method*
# has all four reductions. The figure shows four of the runs, the table after it all of them at the end of training.

# %% mystnb={"figure": {"caption": "Bits per byte on held-out text minus those of evenly spaced boundaries, second half of training, 32M parameters. Below zero is better. Means over the seeds that there are.", "name": "fig-ladder-training"}, "image": {"alt": "Four curves over training text. Naive REINFORCE stays far above zero, the method without early exit a little above, the whole method with either discount a little below."}}
sweeps = records.read_sweeps(Path("results/sweeps"))
sweep = sweeps["32m"]
curves = {
    "naive": "naive REINFORCE",
    "ours_no_early": "whole method without early exit",
    "ours": "whole method, γ = 0.99",
    "ours_gamma0.9": "whole method, γ = 0.9",
}
plots.show(ch03_ladder.from_even_figure(sweep, curves))

# %% [markdown]
# A difference counts if it is larger than the number after ±, half the width of its 95 % interval; the table
# then says *beyond*. A single seed has no spread of its own; [chapter 07](07_reading_the_results.ipynb#what-one-seed-says) explains what stands in for it.
# The last line of each block is the control for the pull: $\gamma = 0.9$ with a $\lambda_\pi$ that makes up for the
# smaller returns. (A difference is over the seeds that both methods have, so subtracting two lines of the first block
# need not give the line of the second.)

# %%
parts = curves | {
    "ours_gamma1": "whole method without discount",
    "ours_no_centring": "whole method without batch mean",
    "ours_gamma0.9_rms": "γ = 0.9, pulled as hard as 0.99",
}


def compared(first: str, second: str) -> str:
    """A difference in bits per byte, half its 95 % interval, seeds."""
    gap = differences.gap(sweep, first, second, "validation")
    shown = f"{gap.bits:+.3f} ± {gap.reach():.3f}"
    seeds = words.many(gap.seeds, "seed")
    return f"{shown}  {seeds:8s} {'beyond' if gap.sign() else 'within'}"


print("bits per byte minus those of evenly spaced boundaries, ± 95 %")
for name, label in parts.items():
    print(f"{label:34s} {compared(name, 'even')}")
print("bits per byte minus those of the whole method, γ = 0.99, ± 95 %")
for name, label in parts.items():
    if name != "ours":
        print(f"{label:34s} {compared(name, 'ours')}")


# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
def said(first: str, second: str) -> str:
    """A difference without sign, and half its interval; never broken."""
    gap = differences.gap(sweep, first, second, "validation")
    return f"{abs(gap.bits):.3f}\u00a0±\u00a0{gap.reach():.3f}"


assert differences.gap(sweep, "naive", "even", "validation").sign() > 0
single = [name for name in parts if name not in ("naive", "ours")]
gaps = {
    name: differences.gap(sweep, name, "ours", "validation")
    for name in single
}
assert max(single, key=lambda name: gaps[name].bits) == "ours_no_early"
assert not any(gap.sign() for gap in gaps.values())
Markdown(
    "**In plain words.** Naive REINFORCE ends "
    + said("naive", "even")
    + " bits per byte *above* evenly spaced boundaries and "
    + said("naive", "ours")
    + " above the whole method: without the reductions it is better not"
    " to learn boundaries at all. Of the single reductions, leaving out"
    " the early exit costs most, "
    + said("ours_no_early", "ours")
    + ", but even that is within its interval. Most of these methods"
    " have one seed, so even the clear difference is a single"
    " observation."
)

# %% [markdown]
# The run with $\gamma = 0.9$ and the pull of 0.99 is level with the whole method: what 0.9 gains may come from its
# weaker pull and not from its shorter view. And all these runs have one learning rate for policy and network; with
# another the order of methods came out otherwise ([chapter 07](07_reading_the_results.ipynb#another-learning-rate)).
#
# ## What we saw
#
# * Naive REINFORCE has no bias and needs millions of rows for a useful direction, even on a small network. In training
#   it ends worse than boundaries that learn nothing.
# * Causal credit costs no bias and is worth a factor of about three. Early-exit rewards cost no bias and are worth
#   powers of ten. Leaving them out costs most in training, too, but one seed does not make that sure.
# * A discount costs bias. Usually little, for a large gain; at the start of training the bias can be so large that no
#   number of rows helps. Which discount is best depends on the moment.
# * The batch mean shortens the gradient by $(B - 1) / B$ and leaves its direction alone. It needs many rows to pay.
#
# ## Exercises
#
# **1. One more row** (easy, 5 minutes). Add a third row to the small world, with four bytes in each row, to keep it
# quick. What is the factor of the batch mean now?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
three = torch.stack(
    [
        torch.cat(
            [torch.tensor([vocab.BOS]), torch.from_numpy(vocab.encode(text))]
        )
        for text in ("to b", "or n", "that")
    ]
)
target = exact.exact_gradient(small, three).flat("policy", names)
mean = exact.joint_moments(small, three, ["batch"])["batch"].mean
print(f"{float(mean @ target / target.square().sum()):.6f}")

# %% [markdown]
# **2. Another baseline** (medium, 15 minutes). Take $-6$ nats for every byte in place of $\log p^{early}$, on the first
# row alone. It is wrong for every single byte. Is there a bias? How does the variance compare with that of no baseline,
# and of the early exit? (Loop over the 16 strings of `exact.enumerate_boundaries(5)` with `policy_loss` and advantages
# of your own. The solution uses two quicker helpers.)

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
from dataclasses import replace

row = pair[:1]
strings = exact.enumerate_row(small, row)
shared = share(small, row)
draws = follow(small, shared, strings.boundaries[:, None])
constant = replace(shared, early_nll=torch.full_like(shared.early_nll, 6.0))
means, probability = [], strings.log_policy.exp()
for label, world in (
    (
        "nothing subtracted",
        replace(shared, early_nll=torch.zeros_like(shared.early_nll)),
    ),
    ("6 nats", constant),
    ("early exit", shared),
):
    grads = policy_gradients(small, world, draws, ["causal+early"])[
        "causal+early"
    ][:, policy]
    mean = probability @ grads
    means.append(mean)
    variance = float((probability @ grads.square() - mean.square()).sum())
    length = float(mean.norm())
    print(f"{label:20s} |mean| {length:.6f}  variance {variance:.4f}")
assert all(torch.allclose(mean, means[0], atol=1e-12) for mean in means)
print("All means are equal in every entry: no bias, however wrong the")
print("constant. It does most of the work here.")

# %% [markdown]
# **3. What the early exit must not see** (medium, 10 minutes). Suppose the early head read the *decoded* states, after the tokens.
# Why would eq. (15) then be biased, however good the head?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
print("It would depend on a. Then E[estimate * grad log pi] is not 0, and")
print("a part of the signal is subtracted: a decision that helps both heads")
print("alike would be paid nothing.")

# %% [markdown]
# **4. The advantages of a batch** (easy, 5 minutes). Compute the advantages of the draw above (`out`) with
# `rltok.estimator.advantages` and the settings `estimator("causal+early+loo").reductions`. Why do the two rows have
# opposite signs at every position?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
paid = advantages(
    out.nll,
    out.early_nll,
    out.scored,
    **estimator("causal+early+loo").reductions,
)
print([f"{value:+.3f}" for value in paid[0].tolist()])
print([f"{value:+.3f}" for value in paid[1].tolist()])
print("With two rows each is compared with the other: A of one is G - G'")
print("and of the other G' - G.")

# %% [markdown]
# **5. Paid for one byte only** (hard, 20 minutes). With $\gamma = 0$ a decision is paid for the very next byte only. In
# the figure of discounts the line of the early moment does not reach 0: for most seeds no number of rows is enough
# there. Name a decision most of whose use lies beyond the next byte, and say what a policy trained with $\gamma = 0$
# would do there.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
print("A boundary after a space: the next byte, the first letter of a word,")
print("is hard with or without it; the token helps the letters that follow.")
print("With gamma = 0 its pay is noise around the little that the first")
print("letter gains, so the rate loss would drive it to the target rate,")
print("like any other place.")

# %% [markdown]
# ## Where to go next
#
# [Chapter 03b](03b_how_we_measured.ipynb) shows how these numbers were measured and how far they can be trusted. If you believe them,
# [chapter 04](04_the_boundary_policy.ipynb) is next: what the policy itself looks like, and how it keeps its rate.
