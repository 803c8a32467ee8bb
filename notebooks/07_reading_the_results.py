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
#       '0.99': gamma of the text
#       '95': level of an interval, in per cent
#     download_mb: 0
# ---

# %% [markdown] tags=["header-strip"]
# # 07 Reading the results
#
# **In short.** With a higher learning rate than the network's, the policy learns to end tokens at spaces and predicts text better than
# even spacing, at 32M parameters and at 147M, the paper's size. Whether it predicts better than H-Net, a white-space rule or BPE
# guidance, our runs do not decide. The chapters before ran the method; this one says what came of it, and how surely.
#
# **After this chapter you can** say which of the paper's claims our runs support and how surely, and read a difference between two
# methods with its interval.
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
import copy
import math
import statistics
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
from IPython.display import HTML, Markdown

from rltok.errors import RltokError
from rltok.evidence import differences, figures, headline, summary
from rltok.evidence.chapters import ch06_runs, ch07_results
from rltok.evidence.headline import FAST, SLOW
from rltok.evidence.packed import read_folder
from rltok.evidence.record_file import check
from rltok.evidence.records import read_sweeps
from rltok.evidence.verdicts import RULE
from rltok.evidence.words import many
from rltok.show import plots
from rltok.show.notebook import judge
from rltok.statistics import SURE, t_limit

plots.use_style()
results = (
    Path("results") if Path("results").exists() else Path("notebooks/results")
)
best = headline.best_sweep(results)
large = headline.large_sweep(results)
summary.need(best, [FAST, SLOW, "even", "bpe", "hnet_port", "whitespace"])
place = headline.place_of(best)


def say(text):
    """Print a paragraph as wide as the page."""
    print(textwrap.fill(text, 78))


# %% [markdown]
# ## The verdict

# %%
Markdown("\n\n".join(s for s in headline.sentences(best, large) if s))

# %% [markdown]
# ## The one table
#
# Five methods against even spacing, at each size that has been run; lower is better. The number after ± is half the width of a 95 %
# interval, in parentheses from fewer than three seeds, too few for one of their own. A row's name ends in the plan (a file of
# `scripts/measure/sweeps`) or the command that makes its runs.

# %%
sizes = ch07_results.settings(results)
methods = [FAST, SLOW, "bpe", "hnet_port", "whitespace"]
Markdown(ch07_results.minus_table(sizes, "even", methods))

# %% [markdown]
# Before it decides, BPE guidance looks
# at the bytes that follow, which no model can do while it writes. Methods against BPE guidance, its causal form
# included. A difference takes only the seeds that both methods have (at 147M, seed 0 of H-Net and the paper's policy), so it need not
# be that of two cells above:

# %%
others = [FAST, SLOW, "bpe_causal", "hnet_port", "whitespace"]
Markdown(ch07_results.minus_table(sizes, "bpe", others))

# %% [markdown]
# And where the boundaries went:

# %%
Markdown(ch07_results.share_table(sizes, methods))

# %% [markdown]
# The white-space rule ends a token at the first of several marks, so a space after a comma gets no boundary. At `tiny` the policy needs
# no rate of its own: that preset divides logits by $D = 1$, not 16, so its policy moves far without one ([chapter
# 04](04_the_boundary_policy.ipynb#how-far-must-the-policys-weights-move)). The paper's intervals are over text alone: apparently it ran
# one seed. All other methods and scores are in [Results in full](../book/results_in_full.md), benchmarks in [the first
# sweep](../book/first_sweep.md).
#
# ### Differences, seed by seed
#
# Three seeds of the fast policy and of three rivals:

# %%
print(ch07_results.by_seed(best, [FAST, "hnet_port", "whitespace", "even"]))

# %% [markdown]
# Differences are taken seed by seed. The mean of $n$ of them counts if it is further from zero than $t\,s / \sqrt{n}$, where $s$ is
# their standard deviation and $t$ is 4.3 for three seeds and falls towards 2 for many. Predict: if more seeds scattered as these
# three do, with how many would the fast policy's lead over H-Net count?

# %% tags=["prediction"]
guess = None  # a number of seeds

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
ours, theirs = (ch07_results.bits_of(best, m) for m in (FAST, "hnet_port"))
leads = [theirs[seed] - ours[seed] for seed in ours]
mean, deviation = statistics.fmean(leads), statistics.stdev(leads)
seeds = len(leads)
while mean < t_limit(SURE, seeds - 1) * deviation / math.sqrt(seeds):
    seeds += 1
print(judge(guess, seeds))
Markdown(ch07_results.verdicts_table(best))

# %% [markdown]
# Only over even spacing does the fast policy's lead count, here as at 147M. It is ahead of H-Net and the white-space rule with
# every seed, too, but by such different amounts that three seeds do not settle the mean. As more boundaries mean more
# computation, its last two rows, on BPE, take further runs, which have as many boundaries as the rival; there we cannot tell the policy
# from a tokenizer, with or without look ahead. (Those aimed at H-Net's and the white-space rule's drew [too
# many](../book/results_in_full.md#rates).) So ours may be as good as guidance, as the paper says of its own.
#
# ## The policy needs a learning rate of its own
#
# Our runs have a small part of the paper's updates; a higher learning rate for the policy's weights makes up for that. With it a
# policy decides early, and in all runs but one for white space, whatever its discount and memory. With one rate for all
# weights it is still undecided halfway, while its seeds go different ways:

# %% mystnb={"figure": {"caption": "Left: share of white space with a boundary after it, part of the validation text. Right: the policy's entropy during training. One line a seed; plan 32m_best. The fast policy has a discount of 0.95 and eight lags; other discounts are 0.9 and 0.99, fewer lags 7 and none. The paper's policy has 0.9 and eight lags.", "name": "fig-results-policies"}, "image": {"alt": "Left, over the text read: all but one of the lines of policies with a learning rate of their own rise to nearly all white space within the first fifth of training, and one falls to almost none; the three lines of the paper's policy part, to most, some and almost none. Right: entropy falls to almost zero early with a rate of its own, late and not so far without."}}
plots.show(ch07_results.policies_figure(best))

# %%
print("a boundary after  white space  first letters   entropy, nats")
for seed, run in sorted(best.runs[SLOW].items()):
    score = run["scores"]["validation"]
    space, letter = (score["class_rates"][k] for k in ("space", "word start"))
    entropy = score["policy_entropy"]
    print(f"seed {seed} {space:21.0%} {letter:14.0%} {entropy:15.2f}")

# %% [markdown]
# First letters, one byte after spaces, are where other policies end up. The leads of these three seeds over even spacing hardly
# differ.
#
# ### Seeds against methods
#
# Seeds of one method differ as much as methods do, and not because of white space alone. Bits per byte, and in parentheses the
# share of white space, for each seed of the entropy rule (chapter 05b) and of two variants of the fast policy:

# %%
variants = {
    "policy, own rate, no lags": FAST + "_lags0",
    "policy, own rate, γ = 0.99": FAST + "_gamma0.99",
    "entropy rule": "entropy",
}
for label, name in variants.items():
    shares = best.values(name, "whitespace_share", place)
    bits = ch07_results.bits_of(best, name).values()
    each = ", ".join(f"{b:.3f} ({w:.0%})" for b, w in zip(bits, shares))
    print(f"{label}: {each}")
    print(f"  from best to worst {ch07_results.spread(best, name):.3f}")
lead = differences.gap(best, FAST, "even", place)
print(f"for comparison, policy ahead of even spacing: {-lead.bits:.3f}")

# %% [markdown]
# With γ = 0.99 the worst seed is the one that is not at white space. But without lags all three seeds end at white space, and one
# is further behind the others than the policy is ahead of even spacing. The entropy rule is fitted before training and never
# changes, and its best and worst seeds lie nearly as far apart as the policy and even spacing. So the seed matters even where
# shares agree; these runs do not say why.
#
# ## Where the boundaries are
#
# A held-out passage, probabilities as colour, boundaries as a red edge:

# %%
passages = [
    (best, FAST, 0),
    (best, SLOW, 1),
    (best, SLOW, 2),
    (large, FAST, 0),
    (large, "ours_gamma0.9", 0),
]
HTML(
    "".join(
        f"<p>{sweep.name}: {ch07_results.called(name)}, seed {seed}</p>"
        + figures.sample_html(sweep, name, characters=160, seed=seed)
        for sweep, name, seed in passages
        if seed in sweep.runs.get(name, {})
    )
)

# %% [markdown]
# Over all of the validation text, the share of each kind of byte with a boundary after it:

# %%
Markdown(
    ch07_results.places_table(
        [(best, [FAST, SLOW]), (large, [FAST, "ours_gamma0.9"])]
    )
)

# %% [markdown]
# At 147M the fast policy marks white space, too. The paper's policy avoids it there and marks first letters, as seed 2 of 32M does, and
# punctuation ([chapter 06b](06b_what_the_large_run_did.ipynb) says more).
#
# ## Another learning rate
#
# A comparison at one learning-rate schedule can put methods in the wrong order; our [first sweep](../book/first_sweep.md), `32m`, did. It
# took the paper's schedule for every method: the learning rate peaks after the same *share* of training as there, which in short runs
# is after very few updates. Four methods ran again with a later, lower peak (`32m_slow`), and finally each method with the schedule
# that validation text prefers for it (`32m_best`):

# %% mystnb={"figure": {"caption": "Bits per byte minus those of even spacing at the same schedule, with 95\u00a0% intervals; test text. A policy with a rate of its own ran in the last sweep only.", "name": "fig-results-peaks"}, "image": {"alt": "For each method up to three points with intervals. Under the early peak the paper's policy is left of zero, BPE guidance and white space right of it. Each at its best, all are left of zero, and the policy with its own rate and BPE guidance furthest."}}
early = read_sweeps(results / "sweeps", only="32m")["32m"]
slow = ch06_runs.schedule_sweep(results / "causes", "32m_slow", early)
schedules = {"early peak: 32m": early}
if slow:
    slow = differences.borrowing(slow, early)
    schedules["later, half as high: 32m_slow"] = slow
schedules["each at its best: 32m_best"] = best
plots.show(ch07_results.peaks_figure(schedules, methods))

# %% [markdown]
# Even spacing, which has no policy, shows what the schedule alone is worth, and the policy as in the paper falls behind BPE guidance
# ([all changes](../book/numbers_that_moved.md)):

# %%
for label, sweep in schedules.items():
    even = sweep.mean("even", place)
    gap = ch07_results.minus(sweep, SLOW, "bpe")
    name = ch07_results.name_in(sweep, SLOW)
    print(f"{label}\n  even spacing {even.bits:.3f} bits per byte")
    bits = f"{gap.bits:+.3f} ({many(gap.seeds, 'seed')})"
    print(f"  policy as in the paper minus BPE guidance {bits}")
    print(f"  and its share of white space {headline.shares(sweep, name)}")

# %% [markdown]
# Under the early peak, rules that mark white space from the start were not ahead of even spacing, and the policy, whose learning rate was
# high while the network was new, found white space. With a later peak the network predicts far better, but a policy that shares its
# learning rate moves too late.
#
# ## How to read a difference
#
# ### Why differences are paired
#
# All methods are scored on the same documents, which differ far more than methods do. So take the difference *per document*
# first: for methods $A$ and $B$, documents $u = 1, \dots, U$ of $n_u$ bytes, and bits $S_u$ averaged over seeds,
#
# $$\Delta = \frac{\sum_u (S^A_u - S^B_u)}{\sum_u n_u}, \qquad
# \sigma^2_{\text{documents}} = \frac{U}{U-1}\,\frac{\sum_u (S^A_u - S^B_u - \Delta\,n_u)^2}{(\sum_u n_u)^2}.$$

# %%
alone = [best.mean(name, place).error_units for name in (FAST, "even")]
print(f"error over documents: policy {alone[0]:.4f},", end=" ")
print(f"even spacing {alone[1]:.4f}")
print(f"of their difference, if independent: {math.hypot(*alone):.4f}")

# %% [markdown]
# Predict: how many times smaller is the error of the paired difference?

# %% tags=["prediction"]
guess = None  # about 2, about 6 or above 20

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
times = math.hypot(*alone) / lead.error_units
print(f"paired: {lead.error_units:.4f}, {times:.1f} times smaller")

# %% [markdown]
# ### What one seed says
#
# Two things are left to chance: which documents were held out, and the seed, which fixes initial weights, order of the text and
# every boundary. More documents do not make the error over seeds smaller, so the wider of the two intervals counts. An error from
# three seeds is itself an estimate from three numbers, and Student's $t$ makes up for that:

# %%
draws = np.random.default_rng(0).normal(size=(100_000, 3))
t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / math.sqrt(3))
print(
    f"beyond two errors, without a true difference: {(abs(t) > 2).mean():.0%}"
)
print(f"standard errors to either side, for 95 %: {t_limit(SURE, 2):.1f}")
print(f"with many seeds: {t_limit(SURE, math.inf):.1f}")
spread = differences.deviation(best, place)
print(
    f"a difference deviates from seed to seed by {spread:.3f} bits per byte"
)

# %% [markdown]
# A single seed does not know its own deviation, so it borrows one from methods of its sweep that have
# several, or else that last number, and the verdict says no more than *leans for* or
# *leans against* ([more on seeds](../book/beside_the_first_sweep.md)).
#
# ### The rule and its date

# %%
say(f"The rule in force, and its date: {RULE}.")

# %% [markdown]
# Differences become verdicts by [a rule](../book/claims.md#the-rule-of-judging) that is code. It was written before the runs at scale.
# It has changed four times, the last time when the first sweeps
# were known. The runs of `32m_best` came after that; their schedules were chosen with one seed on validation text (plan
# `32m_search`). Test text is read by one script, once for each run.
#
# ### A record cannot be edited
#
# Everything here is computed from *records*, one file a run, with settings, text, commit, device, cost and scores. Each ends in a
# digest of its other entries. Make a score a little better:

# %%
folder = results / "best" / best.name
name, record = next(iter(read_folder(folder).items()))
forged = copy.deepcopy(record)
forged["scores"]["validation"]["unit_bits"][0] -= 100
for label, one in (("as it is", record), ("forged", forged)):
    try:
        found = check(one, name)
        say(f"{label}: seed {found['seed']}, commit {found['commit'][:7]}")
    except RltokError as error:
        say(f"{label}: {error}")

# %% [markdown]
# This guards against slips, not against forgers, who would make a new digest.
#
# ### Equal cost
#
# More boundaries in training mean more tokens, and more computation. (The folded table counts those of trained models;
# policies and H-Net draw fewer at the end than on the way.) FLOPs of training relative to even spacing, by the paper's count,
# which leaves attention out, and with attention; H-Net has matrices of its own, too:


# %%
def cost(name, *keys):
    """Mean over seeds of these entries, added up."""
    runs = best.runs[name].values()
    return statistics.fmean(sum(run[key] for key in keys) for run in runs)


both = ("flops", "attention_flops")
print(f"{'in training':24s} tokens per byte  FLOPs  with attention")
for name in [*methods, "even"]:
    tokens = cost(name, "tokens") / cost(name, "bytes")
    ratio = cost(name, "flops") / cost("even", "flops")
    whole = cost(name, *both) / cost("even", *both)
    words = ch07_results.called(name)
    print(f"{words:24s} {tokens:15.3f}  {ratio:.3f}  {whole:14.3f}")

# %% [markdown]
# ## What we saw
#
# * A policy whose weights can move far enough nearly always finds spaces, and predicts better than even spacing, at 32M and at 147M. With
#   as many boundaries it cannot be told from a tokenizer, within intervals of a few hundredths of a bit.
# * With one learning rate for all weights and the schedule that predicts best, a run as short as ours leaves the outcome to the
#   seed.
# * Seeds differ as much as methods do, so an order of methods needs several of each.
# * A comparison at one schedule can put methods in the wrong order, as our first one did.
# * Numbers come from records, verdicts from a rule with a date.
#
# ## Exercises
#
# **1. One seed** (easy, 5 minutes). Take the difference from even spacing of each seed alone, for the methods of the tables. For which
# method would a single seed have misled you?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
even = ch07_results.bits_of(best, "even")
for name in methods:
    bits = ch07_results.bits_of(best, name)
    gaps = [bits[seed] - even[seed] for seed in bits]
    found = differences.gap(best, name, "even", place)
    each = " ".join(f"{gap:+.3f}" for gap in gaps)
    print(f"{ch07_results.called(name):24s} {each}  three: {found.verdict}")

# %% [markdown]
# **2. Unpaired** (medium, 10 minutes). How many of the differences of exercise 1 would still count if each method had its own error
# over documents, instead of the paired one of the difference?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
for name in methods:
    gap = differences.gap(best, name, "even", place)
    means = (best.mean(n, place).error_units for n in (name, "even"))
    wide = replace(gap, error_units=math.hypot(*means))
    words = ch07_results.called(name)
    print(f"{words:24s} paired: {gap.verdict:10s} unpaired: {wide.verdict}")

# %% [markdown]
# **3. A margin** (medium, 10 minutes). A claim that one method is no worse than another needs a margin: by how much it may still be
# worse. How large must the margin be for such a claim about the policy and BPE guidance, at equal rates?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
gap = differences.matched_gap(best, f"{FAST}_rate_bpe", place)
print(f"at least {gap.bits + gap.reach():.2f} bits per byte")

# %% [markdown]
# **4. Your own claim** (hard, 20 minutes). Is the loss lower where a method draws more boundaries? Use rates and losses of all runs
# of `best`, and say what the answer can and cannot show.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
scores = [run["scores"][place] for run in best.records]
rates = [score["rate"] for score in scores]
losses = [score["bits_per_byte"] for score in scores]
matrix = np.corrcoef(rates, losses)
print(f"correlation over {len(scores)} runs: {matrix[0, 1]:+.2f}")
say(
    "Methods differ in more than their rate, so this is no effect of the"
    " rate. A sweep over rates of one method would show one."
)
