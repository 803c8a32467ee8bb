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
#       '0.5': the cosine that this chapter calls useful
#       '0.9': a discount, the one that the authors' released code very probably used
#       '0.99': the discount that the paper states
#       '95': percent of resamples between the ends of an interval
#     download_mb: 0
# ---

# %% [markdown] tags=["header-strip"]
# # 03 The variance ladder
#
# **After this chapter you can** say of any change to a policy-gradient estimator what it costs in bias and what it buys in
# variance, check both against exact numbers, and read off how many rows of text each rung of the paper's ladder saves.
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

# %% tags=["setup"]
import json
from pathlib import Path

import numpy as np
import torch
from IPython.display import Markdown

import rltok
from rltok import vocab
from rltok.config import ModelConfig, RuleConfig, with_settings
from rltok.data import load_corpus
from rltok.estimator import advantages, policy_loss
from rltok.evidence import (
    differences,
    figures,
    records,
    summary,
    tables,
    verdicts,
    words,
)
from rltok.evidence.chapters import ch03_ladder
from rltok.runs.models import new_model
from rltok.show import plots
from rltok.variance import exact
from rltok.variance.gradients import group_slices, policy_parameters
from rltok.variance.laboratory import Sizes, batches_of
from rltok.variance.ladder import ALONE, CUMULATIVE, estimator
from rltok.variance.stages import measure_stage
from rltok.variance.statistics import rows_needed

plots.use_style()

# %% [markdown]
# ## The problem with an honest estimate
#
# [Chapter 02](02_stochastic_computation_graph.ipynb) showed that the policy gradient
#
# $$\mathbb{E}_{a \sim \pi_\theta} \big[ \log p_\theta(y \mid a, x)\, \nabla_\theta \log \pi_\theta(a \mid x) \big] \tag{13}$$
#
# can be estimated from one draw of the boundaries. The estimate is right *on average*. This chapter asks how far a single
# one is from that average. Three numbers describe an estimate $g$ of the true gradient $g^*$:
#
# * **bias**: how far the average $\mathbb{E} g$ is from $g^*$;
# * **variance**: the mean squared distance of $g$ from its own average, summed over all parameters (the trace of the covariance);
# * **rows needed**: how many rows of text one has to average until the result points roughly where $g^*$ does.
#
# For the last we measure direction by the cosine of the angle between two vectors: 1 is the same direction, 0 is a right angle.
# In thousands of dimensions a random direction has a cosine near 0, so 0.5 already is a useful direction, and that is what we ask
# for. Averaging $n$ batches leaves the mean alone and divides the variance by $n$. So the squared length of an average is about
# $|\mathbb{E} g|^2 + \mathrm{variance} / n$, and its cosine with $g^*$ about
#
# $$\cos(n) = \frac{c_\infty}{\sqrt{1 + \nu / n}}, \qquad \nu = \frac{\mathrm{variance}}{|\mathbb{E} g|^2},$$
#
# where $c_\infty$ is the cosine of $\mathbb{E} g$ itself with $g^*$: what is left of the direction after all averaging. Without bias
# $c_\infty = 1$. An estimator with $c_\infty$ under 0.5 *never* gets there.
#
# Predict: an estimator without bias whose variance is 300 times its squared mean, in batches of 16 rows. How many rows?

# %% tags=["prediction"]
guess_rows = 300

# %%
wanted = rows_needed(limit=1.0, noise=300, rows=16)
batches = wanted / 16
print(
    f"{wanted:.0f} rows, {batches:.0f} batches: cosine {1 / np.sqrt(1 + 300 / batches):.2f}"
)
print(
    f"with a bias that leaves a cosine of 0.6: {rows_needed(0.6, 300, 16):.0f} rows; of 0.4: {rows_needed(0.4, 300, 16)}"
)
print(
    "the guess was off by a factor of",
    f"{max(wanted / guess_rows, guess_rows / wanted):.1f}",
)

# %% [markdown]
# ## A world small enough to enumerate
#
# First we want to *know* bias and variance, not to measure them. So: a very small network with random weights, and a batch of two
# rows of five bytes. BOS has its forced boundary, which leaves four free positions a row, 16 strings for each and 256 for both
# together. `exact.joint_moments` visits all 256 and returns the exact mean and variance of any estimator, each parameter by itself.

# %%
sizes = ModelConfig(
    embedding_dim=16, num_heads=2, down_layers=1, mid_layers=1, up_layers=1, window=3,
    rule=RuleConfig(target_rate=0.3, lags=2, scale=1.0),
)  # fmt: skip
with torch.random.fork_rng(devices=[]):
    torch.manual_seed(3)
    small = rltok.AutoregressiveUNet(sizes).double()
    with torch.no_grad():
        for weights in small.parameters():
            weights.add_(
                torch.randn_like(weights), alpha=0.1
            )  # away from the start, where both heads are equal
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
print(
    f"{2**4 * 2**4} strings; the policy gradient has {len(truth)} entries, {policy.stop} of them the policy's own"
)

# %% [markdown]
# `policy` are the parameters of the boundary policy alone; the others belong to the encoder, which the policy shares with the
# rest of the network. Until the end of the chapter we look at the policy's own. A helper reports the three numbers, bias and
# variance in units of the true gradient's length:


# %%
def report(*estimators: str) -> None:
    """Exact bias, variance and rows for a cosine of 0.5, for the policy's own parameters."""
    target = truth[policy]
    for name, moments in exact.joint_moments(
        small, pair, list(estimators)
    ).items():
        mean, noise = (
            moments.mean[policy],
            float(
                moments.variance[policy].sum()
                / moments.mean[policy].square().sum()
            ),
        )
        bias = float((mean - target).norm() / target.norm())
        variance = float(
            moments.variance[policy].sum() / target.square().sum()
        )
        limit = float(torch.cosine_similarity(mean, target, dim=0))
        print(
            f"{name:28s} bias {bias:6.4f}   variance {variance:10.2f}   rows {rows_needed(limit, noise, rows=2):9.1f}"
        )


# %% [markdown]
# ## Rung 0: naive REINFORCE
#
# Naive means: every decision in a row is paid the log-likelihood of the *whole* row. Call the log-likelihood of the byte that
# position $j$ predicts the *reward* $R_j$. What a decision at $i$ is paid is a sum of rewards, its *return* $G_i$; here it is the
# same for all $i$. In `rltok` an estimator is four switches of the training objective, `credit`, `relative_rewards`, `gamma` and
# `centring`, so the ladder measures exactly what training uses:

# %%
print(estimator("naive"))
report("naive")

# %% [markdown]
# No bias, and a variance thousands of times the square of what we look for. The reason: a row of five bytes costs some
# 30 nats, whatever the boundaries are. Each decision is paid about $-30$, and only the small changes of that number carry
# information. Both a good and a bad decision are told "terrible"; their difference has to be averaged out.
#
# ## Rung 1: causal credit
#
# A decision cannot change the loss of bytes that came before it. Chapter 02 showed that what a decision
# contributes to earlier losses is exactly 0. So the past may be left out of its return:
#
# $$G_i = \sum_{j \ge 0} R_{i+j} \quad\text{instead of}\quad G_i = \sum_{j} R_j .$$
#
# Predict: by what factor does the variance fall? For equally large rewards, a decision in the middle is paid for half of the row.

# %% tags=["prediction"]
guess_factor = 2.0


# %%
def variance_of(name: str) -> float:
    """Exact variance of the policy's own parameters."""
    return float(
        exact.joint_moments(small, pair, [name])[name].variance[policy].sum()
    )


report("naive", "causal")
factor = variance_of("naive") / variance_of("causal")
print(
    f"variance falls by a factor of {factor:.2f}; the guess was {guess_factor}"
)

# %% [markdown]
# Averaging over positions $u$ between 0 and 1, the share of the row that is left is $1 - u$, and its square is on average a third.
# So for equal rewards and long rows the factor is about 3, which is more than the half suggests, because variance is a square.
# Causal credit is free, but it is the small reduction.
#
# ## Rung 2: rewards relative to the early exit
#
# The large common part of the reward can be predicted *without* the boundaries: it is how hard the byte is. The network has such
# a prediction at hand. A second head reads the byte states before any boundary was drawn:
#
# $$\log p^{early}(x_{i+1} \mid x_{\le i}) = \log \mathrm{softmax}(W_{early} X_i) \tag{14}$$
# $$R_i = \log p(x_{i+1} \mid x_{\le i}, a_{\le i}) - \log p^{early}(x_{i+1} \mid x_{\le i}) \tag{15}$$
#
# What is subtracted does not depend on $a$. Chapter 02 showed that the score has expectation 0, so the subtraction adds
# $-\log p^{early} \cdot \mathbb{E} \nabla \log \pi = 0$ to the mean: no bias.
#
# Predict: does the variance fall by a factor near 10, 100 or 1000?

# %% tags=["prediction"]
guess_power = 100

# %%
report("causal", "early", "causal+early")
factor = variance_of("causal") / variance_of("causal+early")
nearest = min((10, 100, 1000), key=lambda x: abs(np.log(x / factor)))
print(
    f"a factor of {factor:.0f}; of the three, the nearest is {nearest}; the guess was {guess_power}"
)

# %% [markdown]
# Subtracting *something* is what makes the method possible, with or without causal credit. Here both heads are near uniform, so
# even a constant does most of it (exercise 2). On a trained network the early exit also knows which bytes are hard. (*Early exit*
# is the paper's name for what the early head of chapter 00 gives.)
#
# Compare `early` with `causal+early`: with relative rewards, causal credit *raised* the variance. What it leaves out was
# correlated with what stays, and the two partly cancelled. "Free" means without bias; less variance is the rule on real text, as
# we shall see, and no law. Here are the rewards of one draw:

# %%
with torch.no_grad():
    out = small(
        pair,
        boundaries=torch.tensor(
            [[1, 0, 1, 0, 0], [1, 1, 0, 0, 1]], dtype=torch.bool
        ),
    )
print("log p        ", [f"{-value:6.2f}" for value in out.nll[0].tolist()])
print(
    "log p early  ", [f"{-value:6.2f}" for value in out.early_nll[0].tolist()]
)
print(
    "reward R_i   ",
    [f"{value:6.2f}" for value in (out.early_nll - out.nll)[0].tolist()],
)

# %% [markdown]
# ## Rung 3: time discounting
#
# A boundary matters most for the next few bytes. What happens much later depends on many other decisions, so it adds noise to
# this one's pay. Discounting pays later rewards less:
#
# $$G_i = \sum_{j=0}^{N-1-i} \gamma^j R_{i+j} \tag{16}$$
#
# This is the first rung that is *not* free. The far influence of a decision is real, and a discount leaves part of it out: the
# expected gradient misses $\sum_{i \le j} (1 - \gamma^{j-i}) I_{ij}$, where $I_{ij}$ is the influence of chapter 02
# (`exact.influence`), what position $j$ contributes to the gradient of the decision at $i$.

# %%
report(
    *(f"causal+early+gamma{gamma}" for gamma in ("0.99", "0.9", "0.5", "0"))
)
influence = exact.influence(small, pair[:1]) + exact.influence(
    small, pair[1:]
)  # [i, j, parameter]
lag = torch.arange(5)[None, :] - torch.arange(5)[:, None]
missed = ((1 - 0.9 ** lag.clamp(min=0).double())[..., None] * influence).sum(
    dim=(0, 1)
) / 2  # two rows share the mean
measured = (
    truth
    - exact.joint_moments(small, pair, ["causal+early+gamma0.9"])[
        "causal+early+gamma0.9"
    ].mean
)
assert torch.allclose(missed, measured, atol=1e-9)
print(
    f"the bias at gamma 0.9, by the formula and by enumeration: equal to 9 decimals in all {len(missed)} entries"
)

# %% [markdown]
# On five bytes there is hardly a far future, so a discount saves little. On rows of hundreds of bytes it saves much more, as we
# shall see.
#
# ## Rung 4: relative to the batch
#
# Later in training the network with tokens is better than its early exit, so most returns are positive. What is common to all rows
# says nothing about a decision, and the other rows of the batch tell what is common:
#
# $$A_{i,b} = G_{i,b} - \frac{1}{B} \sum_{b'=1}^{B} G_{i,b'} \tag{17}$$
#
# But look at the sum: it contains $G_{i,b}$ itself. A part of the signal is subtracted from itself.
#
# Predict: with $B = 2$, what is the expected gradient, as a multiple of the true one?

# %% tags=["prediction"]
guess_multiple = 1.0

# %%
for name in ("causal+early", "causal+early+batch", "causal+early+loo"):
    mean = exact.joint_moments(small, pair, [name])[name].mean
    multiple = float(mean @ truth / truth.square().sum())
    assert torch.allclose(
        mean, multiple * truth, atol=1e-9
    )  # the direction is untouched
    print(f"{name:20s} expected gradient = {multiple:.6f} x the true one")
    if name.endswith("batch"):
        print(
            "the guess was",
            "right"
            if abs(multiple - guess_multiple) < 0.01
            else f"wrong: (B - 1) / B = {1 / 2}",
        )

# %% [markdown]
# With $B$ rows the factor is $(B - 1) / B$: one half here, and 15/16 for the batches of 16 rows below. It changes the length of
# the gradient and not its direction, so it acts like a slightly smaller $\lambda_\pi$. Leaving the row out of its own mean
# (*leave-one-out*, `loo`) removes the factor. Both have the same cosine:

# %%
report("causal+early", "causal+early+batch", "causal+early+loo")
both = exact.joint_moments(
    small, pair, ["causal+early+batch", "causal+early+loo"]
)
ratio = (
    both["causal+early+loo"].variance.sum()
    / both["causal+early+batch"].variance.sum()
)
print(
    f"variance of leave-one-out over that of the batch mean: {float(ratio):.6f} = (B / (B - 1))^2"
)

# %% [markdown]
# With one other row to compare with, the "mean" is as noisy as the return itself. So here, unlike with many rows, centring costs more
# than it saves. And with $B = 1$ nothing is left at all; `rltok` refuses to pretend otherwise:

# %% tags=["raises-exception"]
from rltok.variance.gradients import advantages_of_draws, follow, share

alone = share(small, pair[:1])
advantages_of_draws(
    alone,
    follow(small, alone, exact.enumerate_boundaries(5)[:1, None]),
    "batch",
)

# %% [markdown]
# ## The loss that all rungs share
#
# Whatever the advantage, the gradient is that of one loss, the *policy loss*. `detach` says that no gradient flows through the
# advantage; as in training, the sum is divided by the number of scored bytes, those that are predicted:
#
# $$\mathcal{L}^{\pi} = - \sum_i \log \pi(a_i \mid x_{\le i}, a_{<i})\, \mathrm{detach}(A_i) \tag{18}$$
#
# Everything above was the mean and the variance of its gradient over the 256 strings. Here is one of them, by autograd and by hand:
# the derivative of $\log \pi(a_i)$ is $(a_i - p_i)$ times that of the logit.

# %%
out = small(
    pair,
    boundaries=torch.tensor(
        [[1, 0, 1, 0, 0], [1, 1, 0, 0, 1]], dtype=torch.bool
    ),
)
reductions = estimator("causal+early+gamma0.9+batch").reductions
paid = advantages(out.nll, out.early_nll, out.scored, **reductions)
loss = policy_loss(
    out.boundary_logits, out.boundaries, paid, out.drawn, out.scored.sum()
)
(by_autograd,) = torch.autograd.grad(
    loss, small.rule.project.weight, retain_graph=True
)
surprise = (
    out.boundaries.double() - torch.sigmoid(out.boundary_logits)
) * out.drawn  # a - p, 0 where forced
(by_hand,) = torch.autograd.grad(
    out.boundary_logits,
    small.rule.project.weight,
    grad_outputs=-(paid * surprise).detach() / out.scored.sum(),
)
assert torch.allclose(by_autograd, by_hand)
print("decisions    ", out.boundaries[0].int().tolist())
print("a_i - p_i    ", [f"{value:+.2f}" for value in surprise[0].tolist()])
print("advantage A_i", [f"{value:+.2f}" for value in paid[0].tolist()])
print(
    f"gradient by autograd and by hand agree in all {by_hand.numel()} entries of the projection (the rest is the norm's)"
)

# %% [markdown]
# $a_i - p_i$ is positive for a boundary and negative for none. A positive advantage makes the decision that was taken more
# likely, whichever it was; a negative one makes it less likely.
#
# ## From two rows to real text
#
# Real rows cannot be enumerated: 512 bytes have $2^{511}$ strings. So the variance has to be measured, by drawing. The laboratory,
# `rltok.variance.laboratory`, does what training does, many times over: a fresh batch, and from it every estimator. Training draws once from a
# batch; the laboratory draws several times, to know better how one draw scatters. All estimators get the same draws. Its measures agree with enumeration where both are possible; the tests of the package hold them together.
#
# The measurement that follows was made by one command, which trains the `tiny` preset on the bundled English and stops three times
# to measure: before the first update (*start*), after a tenth of training (*early*), and at the end (*late*). The stage *early*
# is a moment; the early exit, and the early head behind it, are parts of the network and there at all three.

# %%
record = ch03_ladder.check(
    json.loads(Path("results/variance_ladder.json").read_text())
)
seeds = list(dict.fromkeys(stage["seed"] for stage in record["stages"]))
print(
    f"rltok variance --batches {record['batches']} --draws {record['draws']} --reference-draws {record['reference_draws']}"
    f" --seeds {' '.join(map(str, seeds))} --out variance_ladder.json"
)
print(
    f"{record['device']}, {record['seconds'] / 60:.0f} minutes, commit {record['commit'][:7]}, config {record['config_hash']}"
)
print(
    f"batches of {record['rows']} rows of {record['data']['sequence_length']} bytes, text: {record['data']['name']}, training split"
)
print(
    "training objective:",
    {
        key: record["config"]["objective"][key]
        for key in ("gamma", "centring", "lambda_policy", "lambda_target")
    },
)
print(f"first seed, {record['stages'][0]['seed']}:")
for stage in record["stages"][:3]:
    means = stage["means"]
    print(
        f"{stage['stage']:5s} after {stage['step']:3d} updates: entropy {means['policy_entropy']:.2f} nats a decision,"
        f" loss {means['nll']:.2f}, early exit {means['early_nll']:.2f} nats per byte"
    )

# %% [markdown]
# Intervals come from the *bootstrap*: draw as many batches as there are, with replacement, compute the number again, and do so many
# times; each such set is a *resample*, and between the ends of the interval lie 95 % of them.
#
# Before you look: at the early stage, how many rows does naive REINFORCE need, and how many the paper's estimator with $\gamma = 0.9$?

# %% tags=["prediction"]
guess_naive, guess_full = 10_000, 100

# %% tags=["measurement"]
print(ch03_ladder.gain(record, "early"))
naive, full = (
    np.median(ch03_ladder.rows_of(record, "early", name))
    for name in ("naive", "causal+early+gamma0.9+batch")
)
print(
    f"your guess: {guess_naive:,} and {guess_full:,}, a gain of {guess_naive / guess_full:,.0f}; measured (median): {naive / full:,.0f}"
)

# %% [markdown]
# ## The whole ladder at a glance

# %% mystnb={"figure": {"caption": "Rows of text until the expected cosine with the true gradient of the policy's parameters reaches 0.5. Tiny preset, bundled English (not the paper's corpus), rows of 512 bytes, batches of 16 rows; three training seeds, bars are 95 % bootstrap intervals over batches. Above the line rungs are added to the ones before (the two discounts and the two means are alternatives), below it rungs stand alone, discounts with causal credit, which they need. A bar that runs to the right edge: in some resamples no number of rows is enough.", "name": "fig-ladder"}, "image": {"alt": "Three panels, start, early and late in training, with a logarithmic axis of rows. Naive REINFORCE needs millions of rows in each. Causal credit moves the dots a little to the left, early-exit rewards by three to four powers of ten and late by two, discounts further, except at the start, where a discount of 0.9 never arrives for two of three seeds."}}
plots.show(ch03_ladder.ladder_figure(record))

# %%
Markdown(
    ch03_ladder.ladder_table(
        record,
        [*CUMULATIVE, *(name for name in ALONE if name not in CUMULATIVE)],
    )
)

# %% [markdown]
# Read it row by row:
#
# * **Causal credit** gives its factor of three at every stage.
# * **Early-exit rewards** give the powers of ten, as in the small world. So does the **batch mean** alone at the start, where a byte
#   costs about the same in every row, and more than the early exit does; at the early stage it gives far less, late about as much.
# * **A discount** gives another large factor at the early and the late stage. At the *start* it is different: the far
#   influence is most of the true gradient there, the bias turns the direction away, and with $\gamma = 0.9$ the wanted cosine is
#   out of reach for most of the seeds. The paper calls the bias "small"; that depends on the moment.
# * **The batch mean** on top of the others saves most at the end of training, and nothing at the early stage. The means of the
#   rewards, printed below, say why: early there is hardly anything to subtract.
# * **Late in training every rung needs more rows than early.** The policy has nearly decided and what is left to learn is small:
#   the squared signal falls by more than the variance does, as the next cell shows.

# %%
for stage in ch03_ladder.stage_names(record):
    leads = [
        one["means"]["early_nll"] - one["means"]["nll"]
        for one in ch03_ladder.at(record, stage)
    ]
    print(
        f"{stage:5s}: mean reward {min(leads):+.3f} to {max(leads):+.3f} nats per byte, seed by seed"
    )


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


for name in (
    "naive",
    "causal+early",
    "causal+early+gamma0.9",
    "causal+early+gamma0.9+batch",
):
    print(
        f"{name:28s} late / early: squared signal {change(name, 'signal', 2)}, variance {change(name, 'variance')}"
    )

# %% [markdown]
# "Rows" below one batch (left of the dotted line) are the formula's, carried on: there one batch already is enough. And one batch
# is what the centred estimators are measured with; fewer rows in a mean would mean more noise.
#
# How good is the formula? The laboratory also averages real batches and compares with a reference from all the others:

# %%
one = ch03_ladder.at(record, "early")[0]["policy"]
for name in ("causal+early+gamma0.9+batch", "causal+early+loo"):
    measures = one["estimators"][name]
    noise = 1 / measures["snr"][0]
    print(name)
    for rows, seen in one["cosines"][name]:
        formula = measures["limit"][0] / np.sqrt(
            1 + noise * record["rows"] / rows
        )
        print(
            f"  {rows:5.0f} rows: cosine measured {seen:.2f}, by the formula {formula:.2f}"
        )
ratios = ch03_ladder.formula_against_measured(record, most_error=0.2)
low, middle, high = np.percentile(ratios, [5, 50, 95])
print(
    f"rows by the formula over rows measured, {len(ratios)} comparisons: median {middle:.2f}, 90 % between {low:.2f} and {high:.2f}"
)

# %% [markdown]
# These comparisons come from the start and early stages, policy and encoder together; late, the reference is too uncertain. No more
# than 512 rows were averaged here, so larger numbers of rows are the formula's, made from measured bias and variance. The formula
# takes the root of the mean square for the length of a gradient. Where a few batches carry most of the noise (the wide
# intervals of the estimators without discount), a typical batch is shorter than that and its cosine better, so the formula errs
# on the side of too many rows. It decides between rungs that differ by powers of ten; between factors of a few it does not. (Where
# two estimators have no bias and the same signal, as with the factor of causal credit, rows compare as the variances do, and
# nothing rests on the formula.)

# %% [markdown]
# ## Bias against a long run
#
# Bias cannot be seen on one draw. It is measured against the mean of a long run of an estimator without bias. That mean is itself
# uncertain, and the record says by how much. Here are the policy's parameters, one seed after the other:

# %%
for stage in record["stages"]:
    measures = stage["policy"]["estimators"]["causal+early+gamma0.9+loo"]
    value, low, high = measures["bias"]
    print(
        f"seed {stage['seed']}, {stage['stage']:5s}: standard error of the reference {stage['policy']['reference_error']:.2f} of its"
        f" length; bias of gamma 0.9 {value:.2f} ({low:.2f} to {high:.2f})"
    )
for group in ("policy", "encoder"):
    late = [stage[group] for stage in ch03_ladder.at(record, "late")]
    lost = max(
        1 - measures["resolved"]
        for one in late
        for measures in one["estimators"].values()
    )
    known = [one["reference_error"] for one in late]
    print(
        f"late, {group}: standard error of the reference {min(known):.2f} to {max(known):.2f} of its length;"
        f" at most {lost:.0%} of the resamples show no signal"
    )

# %% [markdown]
# Late in training the true gradient is so small that even the long run knows it only roughly, and the intervals are wide. A
# resample without a signal counts in them as rows without end.
#
# ## Which discount?
#
# A small $\gamma$ has less variance and more bias; somewhere in between the rows needed are fewest. Predict: at the early stage,
# which of the discounts 0, 0.5, 0.8, 0.9, 0.99 and 1 needs the fewest rows?

# %% tags=["prediction"]
guess_gamma = 0.99

# %% mystnb={"figure": {"caption": "Against the discount: what bias leaves of the direction (left), and rows to a cosine of 0.5 (right). All with causal credit, early-exit rewards and leave-one-out mean. Lines are medians over three seeds, dots the seeds; no line where the median is never.", "name": "fig-gamma"}, "image": {"alt": "Left: in the early and late stages the cosine that bias allows is near 1 from a discount of 0.8 on and lower below; at the start it lies under one half up to 0.95, then rises to 1. Right: in the early and late stages rows needed are fewest at 0.8 and rise by about two powers of ten towards 1; at the start there is a line from 0.98 on only, nearly level."}} tags=["measurement"]
plots.show(ch03_ladder.gamma_figure(record))

# %%
from rltok.variance.ladder import GAMMAS, gamma_sweep

for stage in ch03_ladder.stage_names(record):
    medians = [
        np.median(
            [
                np.inf if rows is None else rows
                for rows in ch03_ladder.rows_of(record, stage, name)
            ]
        )
        for name in gamma_sweep()
    ]
    print(
        f"{stage:5s}: fewest rows at gamma = {GAMMAS[int(np.argmin(medians))]:g} ({ch03_ladder.short(min(medians))} rows)"
    )
print(f"the guess for the early stage was {guess_gamma:g}")

# %% [markdown]
# In a live notebook, this slider moves the mark (on the page of the book, the figure above shows the same):

# %% tags=["nbval-ignore-output"]
# not compared: a live widget has another identity every time
ch03_ladder.slider(record)

# %% [markdown]
# The authors' paper states 0.99, their code very probably used 0.9, and here the answer changes with the moment: near 1 at the
# start, where neighbouring values differ little, lower afterwards. Two warnings. Fewest rows *for the policy gradient* is not yet the lowest loss at the end of training. And
# $\gamma$ is confounded with $\lambda_\pi$: with a larger $\gamma$ the returns are larger, so the policy moves faster. The
# size of the advantages (root mean square, nats) says how much:

# %%
for stage in ch03_ladder.stage_names(record):
    sizes_of = {
        name: np.median(
            [
                one["advantage_rms"][name]
                for one in ch03_ladder.at(record, stage)
            ]
        )
        for name in (
            "causal+early+gamma0.9+batch",
            "causal+early+gamma0.99+batch",
            "causal+early+loo",
        )
    }
    print(
        stage,
        {name: float(f"{value:.2g}") for name, value in sizes_of.items()},
    )

# %% [markdown]
# ## Where in the row
#
# The paper's section 2.4 says that the network's lead over its early exit grows with the position, because later positions have more
# context. That is a reason to centre each position by itself.

# %% mystnb={"figure": {"caption": "Late in training, first seed: mean relative reward by position (left); spread of returns by position for three discounts (right).", "name": "fig-positions"}, "image": {"alt": "Left: the mean reward rises over the first few dozen positions, then stays level. Right: without a discount the spread of the return falls all along the row, fastest at its end; with 0.99 it falls by a quarter, is level from about 200 to 400, then falls again; with 0.9 it is flat, but for the end."}}
plots.show(ch03_ladder.positions_figure(record, "late"))

# %%
late = ch03_ladder.at(record, "late")
first, rest = (
    [np.mean(one["mean_reward"][part]) for one in late]
    for part in (slice(0, 1), slice(8, None))
)
print(
    "mean reward in the first bin of 16 positions:",
    [f"{value:.3f}" for value in first],
)
print(
    "mean reward after position 128:              ",
    [f"{value:.3f}" for value in rest],
)
starts = [
    np.mean(one["mean_reward"]) for one in ch03_ladder.at(record, "start")
]
print(
    "at the start of training:                    ",
    [f"{value:.3f}" for value in starts],
)

# %% [markdown]
# With rows of 512 bytes and this small network the lead grows over the first dozens of positions and is level after that. Before
# training there is no lead to speak of: the mean is negative for some seeds and positive for another.
#
# The right panel is the better argument for discounting: without it, decisions early in the row are paid with the noise of the
# whole row behind them.
#
# ## Shared parameters and the weight 0.01
#
# Encoder parameters get two terms: the loss's own gradient (12) and the policy gradient (13). The true gradient of eq. (11)
# weighs both with 1. The paper trains with $\lambda_\pi = 0.01$, so the encoder sees a hundredth of the second term: for shared
# parameters that is not the gradient of the right side of eq. (10). How wrong is the direction?

# %%
for stage in ch03_ladder.stage_names(record):
    for row in zip(
        *(
            one["shared"]["causal+early+gamma0.9+batch"]
            for one in ch03_ladder.at(record, stage)
        ),
        strict=True,
    ):
        limits, needed = (
            [one["limit"] for one in row],
            [one["rows_needed"] for one in row],
        )
        print(
            f"{stage:5s} lambda {row[0]['lambda']:<5g} cosine that bias allows {min(limits):.3f} to {max(limits):.3f},"
            f" rows to 0.5: {min(needed):.2f} to {max(needed):.2f}"
        )
    shares = [
        one["shared"]["causal+early+gamma0.9+batch"][0]["share"]
        for one in ch03_ladder.at(record, stage)
    ]
    print(
        f"      the policy term is {min(shares):.2f} to {max(shares):.2f} times as long as the loss term"
    )

# %% [markdown]
# For the encoder the loss term is at least twice as long, so leaving out nearly all of the policy term turns the direction, but
# not far, and the rows needed change by about a half at most. (Late, the reference of the encoder is known only roughly, see
# above, so take those cosines with care.) Of the two terms of eq. (11) the policy's own parameters get only (13). In
# training the pressure towards the target rate comes beside it, so for them $\lambda_\pi$ sets the balance of the two.
#
# ## What it buys in training
#
# All of this is about a gradient at one moment. Does a better one end in a lower loss? That takes whole runs, at a size where boundaries
# matter: those of [chapter 07](07_reading_the_results.ipynb), the same network and rows each time, with something of the method changed.

# %%
sweeps = records.read_sweeps(Path("results/sweeps"))
sweep = sweeps.get("32m") or next(iter(sweeps.values()))
summary.need(sweep, ["ours", "ours_gamma0.9"])
rungs = [
    "even",
    "naive",
    "ours_no_early",
    "ours_no_centring",
    "ours_gamma1",
    "ours",
    "ours_gamma0.9",
    "ours_gamma0.9_rms",
]
run = [name for name in rungs if name in sweep.runs]
for name in rungs:
    print(
        f"{name:18s} {tables.WHO[name]}{'' if name in run else ' (not run yet)'}"
    )
Markdown(tables.heading(sweep))

# %% [markdown]
# Predict: which discount ends with the lower loss on held-out text?

# %% tags=["prediction"]
guess_run = "ours"

# %% mystnb={"figure": {"caption": "Training with the whole method and without its parts. Left: held-out bits per byte, in the second half of training. Right: share of white-space bytes with a boundary. Thick: mean over seeds; thin: seeds.", "name": "fig-ladder-training"}, "image": {"alt": "Left, falling curves of held-out bits per byte, one colour for each estimator. Right, the share of white space with a boundary, which rises from the target rate for policies with a discount and is level for even spacing."}} tags=["measurement"]
plots.show(figures.training_figure(sweep, run))

# %%
between = differences.gap(sweep, "ours_gamma0.9", "ours", "validation")
found = {"supported": "ours_gamma0.9", "contradicted": "ours"}.get(
    verdicts.one_sided(between, -1)
)
print(
    "no clear difference, so no guess is right"
    if found is None
    else f"{found}; the guess was {guess_run}"
)
told = {
    "supported": "lower",
    "contradicted": "higher",
    "leans for": "lower?",
    "leans against": "higher?",
}
for name in run:
    if name != "ours":
        gap = differences.gap(sweep, name, "ours", "validation")
        verdict = verdicts.one_sided(gap, -1)
        print(
            f"{name:18s} minus ours: {words.with_interval(gap)}; {told.get(verdict, verdict)}"
        )
scored = differences.gap(sweep, "ours_gamma0.9", "ours", "test")
if scored is not None:
    verdict = verdicts.one_sided(scored, -1)
    print(
        f"ours_gamma0.9 on test text, minus ours: {words.with_interval(scored)}; {told.get(verdict, verdict)}"
    )

# %% [markdown]
# (Bits per byte, behind ± the errors over documents / over seeds, then half the width of the interval beyond which a difference counts as
# lower or higher; what only leans has a question mark. A single seed borrows the error in parentheses from methods with three, [as chapter
# 07 explains](07_reading_the_results.ipynb#what-one-seed-says), and leans at most.) Compare with what each part did to the variance. What
# lies within its interval cannot be told apart here, so mind not to read an order into the single parts.
#
# Read this with the pull in mind. With a shorter discount the advantages are smaller, so the same weight $\lambda_\pi$ pulls less, and
# without one of the reductions they are larger, most of all without a discount; the runs differ in two things at once.
# `ours_gamma0.9_rms` takes one of them away: the short discount with the pull of the long one. Chapter 07 has a table of what drives
# them all. And all of them are at one learning rate: with another the order of methods came out otherwise, from few
# seeds ([chapter 07](07_reading_the_results.ipynb#another-learning-rate)), and these parts were not run with it.
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
for name, value in variances.items():
    powers = (
        round(2 * np.log10(value / variances["causal+early+gamma0.9+batch"]))
        / 2
    )
    print(
        f"{name:28s} variance: about 10^{powers:.1f} times that of the last"
    )
print(
    "every rung lowers it:",
    sorted(variances.values(), reverse=True) == list(variances.values()),
)

# %% [markdown]
# ## What we saw
#
# * Naive REINFORCE has no bias and needs millions of rows for a useful direction, even on a small network.
# * Causal credit is free and worth about a factor of three. Early-exit rewards are free and worth powers of ten.
# * A discount is bought with bias. Usually the price is small and the gain large; at the start of training the bias can be so large
#   that no number of rows helps. Which discount is best depends on the moment.
# * The batch mean shortens the gradient by $(B - 1) / B$ and leaves its direction alone. It needs many rows to pay.
# * All of this is about the gradient, on our small network and corpus. What it means for the loss at the end of training is another
#   measurement, and it has a larger error: that of the seeds.
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
# **2. Another baseline** (medium, 15 minutes). Take $-6$ nats for every byte in place of $\log p^{early}$, on the first row alone.
# It is wrong for every single byte. Is there a bias? How does the variance compare with that of no baseline, and of the early exit?
# (A loop over the 16 strings of `exact.enumerate_boundaries(5)` will do, with `policy_loss` and the advantages of your own. The
# solution uses the laboratory's tools: `share` computes once what no string changes, `follow` scores many strings.)

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
row = pair[:1]
strings = exact.enumerate_row(small, row)
shared = share(small, row)
draws = follow(small, shared, strings.boundaries[:, None])
from dataclasses import replace

from rltok.variance.gradients import policy_gradients

constant = replace(shared, early_nll=torch.full_like(shared.early_nll, 6.0))
means, chance = [], strings.log_policy.exp()
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
    mean = chance @ grads
    means.append(mean)
    print(
        f"{label:20s} |mean| {float(mean.norm()):.6f}  variance {float((chance @ grads.square() - mean.square()).sum()):.4f}"
    )
assert all(torch.allclose(mean, means[0], atol=1e-12) for mean in means)
print(
    "all three means are equal in every entry: no bias, however wrong the constant; it does most of the work here"
)

# %% [markdown]
# **3. What the early exit must not see** (medium, 10 minutes). Suppose the early head read the *decoded* states, after the tokens.
# Why would eq. (15) then be biased, however good the head?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
print(
    "Its estimate would depend on a. Then E[estimate * grad log pi] is not 0, and what is subtracted is part of the signal:"
)
print("a decision that helps both heads alike would be paid nothing.")

# %% [markdown]
# **4. The advantages of a batch** (easy, 5 minutes). Compute the advantages of the same draw with `rltok.estimator.advantages` for
# `causal+early+loo`. Why do the two rows have opposite signs at every position?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
paid = advantages(
    out.nll,
    out.early_nll,
    out.scored,
    **estimator("causal+early+loo").reductions,
)
print([f"{value:+.3f}" for value in paid[0].tolist()])
print([f"{value:+.3f}" for value in paid[1].tolist()])
print(
    "With two rows each is compared with the other: A of one is G - G' and of the other G' - G."
)

# %% [markdown]
# **5. Two windows on time** (hard, 20 minutes). With $\gamma = 0$ a decision is paid for the very next byte only. In the figure of
# discounts, at the early stage, no other discount leaves so little of the direction. Name a decision most of whose use lies beyond
# the next byte, and say what a policy trained with $\gamma = 0$ would do there.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
print(
    "A boundary after a space: the next byte, the first letter of a word, is hard with or without it; the token helps"
)
print(
    "the letters that follow. With gamma = 0 its pay is noise around the little that the first letter gains, so the rate"
)
print("loss would drive it to the target rate like any other place.")
