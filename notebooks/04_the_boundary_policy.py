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
#       '30': percent of training, from when on the late policies of the plan move
#       '80': percent of white space, the mark in `ch04_travel`
#     download_mb: 0
# ---

# %% [markdown] tags=["header-strip"]
# # 04 The boundary policy
#
# **In short.** Each boundary is a coin flip whose log-odds are a linear function of the byte state, with weights that
# depend on the last few decisions. That is enough to end tokens at white space and, with the memory of its decisions, to keep a fixed distance
# between boundaries. To stay where it is wanted, the rate needs a loss of its own. On a small language whose best
# boundaries are known, the paper's estimator gets nearly all that boundaries are worth. Naive REINFORCE gets less,
# although it draws more of them. Chapters 02 and 03 built that estimator; this chapter looks at the policy that it
# trains.
#
# **After this chapter you can** say what a boundary policy can and cannot express, set one by hand, explain what holds
# its rate, and judge an estimator on a language with a known answer.
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
import math
import textwrap
from pathlib import Path

import torch
from IPython.display import Markdown

import rltok
from rltok import policy, vocab
from rltok.config import with_settings
from rltok.data import load_corpus
from rltok.data.batches import micro_batches
from rltok.errors import RltokError
from rltok.estimator import advantages
from rltok.evidence.chapters import ch04_handmade, ch04_policy, ch04_travel
from rltok.evidence.cost import extra
from rltok.evidence.toy import Lexicon, independent, second_order, views
from rltok.evidence.toy.lexicon import WORDS
from rltok.evidence.toy.measures import MORE_RANDOM, ORACLE, RANDOM, shares
from rltok.evidence.toy.runs import FULL, QUIET
from rltok.losses import probability_rate_loss, target_rate_loss
from rltok.optim import policy_travel
from rltok.rng import row_uniforms
from rltok.runs.models import new_model
from rltok.show import plots
from rltok.show.notebook import judge
from rltok.show.tables import markdown
from rltok.step import losses_of

plots.use_style()
results = (
    Path("results") if Path("results").is_dir() else Path("notebooks/results")
)

# %% [markdown]
# ## One decision
#
# The policy is the smallest part of the network. At position $i$ it reads the byte state $X_i$, which has seen the
# bytes up to $i$, and its own last $w$ decisions (`lags` in the configuration, 8 in the paper):
#
# $$l^{raw}_i = W_0 X_i + \sum_{j=1}^{w} a_{i-j} W_j X_i \tag{21}$$
# $$l^{scaled}_i = l^{raw}_i / D + \sigma^{-1}(\bar\pi_{target}) \tag{22}$$
# $$l_i = c \tanh(l^{scaled}_i / c) \tag{23}$$
# $$p_i = \sigma(l_i) \tag{20}$$
# $$a_i \mid x_{\le i}, a_{<i} \sim \mathrm{Bernoulli}(p_i) \tag{19}$$
#
# As in chapter 01, $j$ counts lags, not bytes, and $W_0, \dots, W_w$ are rows of one matrix. Each lag has a row of its
# own that reads the *whole* byte state, so what an earlier boundary means may depend on the byte at $i$. The logit
# $\sigma^{-1}(\bar\pi_{target}) = \log\big(\bar\pi_{target} / (1 - \bar\pi_{target})\big)$ of the wanted rate, the
# *bias*, is where the logits start; $D$, 16 in the paper, divides what the weights add to it. ($X_i$ is divided by its root mean square first.) The *softcap* (23) keeps
# a logit inside $\pm c$, in training only.
#
# An example with made-up products: at each of four positions $W_0 X_i$ is 1, the product of the first lag 10, that of
# the second 100. With $D = 2$, a bias of one half and no cap, and with the decisions 1, 0, 1, 0, the logits are:

# %%
terms = torch.tensor(
    [[[1.0, 10.0, 100.0]] * 4]
)  # [rows, positions, lags + 1]
decided = torch.tensor([[True, False, True, False]])
logits = policy.boundary_logits(
    terms, decided, bias=0.5, scale=2.0, softcap=None
)
print("logits       ", logits[0].tolist())
print("probabilities", [f"{p:.4f}" for p in logits[0].sigmoid().tolist()])
nats = policy.log_prob(logits, decided).sum()
print(f"log-probability of these four decisions: {nats:.4f} nats")

# %% [markdown]
# Position 1 sees the boundary at 0 through its first lag: $(1 + 10) / 2$ and the bias, 6. Position 2 sees it through
# its second lag: $(1 + 100) / 2$ and the bias, 51. (Decisions before the row count as 0. In training the first
# decision, on BOS, is forced to 1 and left out of the log-probability.)
#
# To draw, each position gets a random number $u_i$ between 0 and 1, and there is a boundary where $u_i < p_i$. The
# model takes these numbers as an input, so the same numbers give the same boundaries again. ([How it is
# fast](../book/how_it_is_fast.md#drawing-boundaries-in-parallel) shows how to draw without walking from left to right.)
#
# ## What memory is good for
#
# With $w$ lags a policy can keep any distance between boundaries up to $w + 1$. Without lags it cannot, but it can
# still look at the text.
#
# Suppose that the best policy ended a token at every fourth byte, whatever the text. With three lags this is a rule:
# *draw unless one of the last three positions has a boundary*. `draw_every` writes it into the weights of a fresh
# network. The function makes one coordinate of the byte states constant; $W_0$ reads that coordinate with a large
# positive weight, and each of $W_1$ to $W_3$ with twice that weight, negative. (`reach` is the least size of a logit;
# at `CERTAIN` nothing is left to chance.)

# %%
config = with_settings(rltok.preset("tiny"), {"model.rule.lags": 8})
text = b"A policy with eight lags, whatever it reads, can count to nine."
ids = torch.tensor([[vocab.BOS, *text]])
for k in (2, 4, 9):
    model = new_model(config, torch.device("cpu")).eval()
    ch04_handmade.draw_every(model, k, reach=ch04_handmade.CERTAIN)
    numbers = row_uniforms(0, 0, [0], len(text))
    with torch.no_grad():
        marks = model(ids, uniforms=numbers).boundaries[0]
    assert marks.nonzero().flatten().tolist() == list(range(0, len(text), k))
    print(f"k = {k}: {''.join('|' if mark else '.' for mark in marks)}")
try:
    ch04_handmade.draw_every(model, 10, reach=ch04_handmade.CERTAIN)
except RltokError as error:
    print("\n".join(textwrap.wrap(str(error), 78)))

# %% [markdown]
# Now take the lags away. On a constant text, such as a row of spaces, all byte states are the same, so a policy without
# memory draws with *one* probability $p$ everywhere. To draw exactly every fourth byte, it must draw no boundary three
# times and then one, over and over. Each such group of four has the probability $(1-p)^3\,p$, which is largest at $p =
# 1/4$:

# %%
for decisions in (4, 8):
    p, nats = ch04_handmade.best_stride_log_prob(4, decisions, lags=0)
    print(f"{decisions} decisions: p = {p}, probability {math.exp(nats):.4f}")

# %% [markdown]
# Predict: with this $p$, how likely is it that 24 decisions come out as exactly every fourth byte? A power of ten will do.

# %% tags=["prediction"]
guess = None  # a power of ten, such as 1e-3

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
for lags in range(4):
    p, nats = ch04_handmade.best_stride_log_prob(4, 24, lags=lags)
    print(f"lags {lags}: best p {p:.3f}, probability {math.exp(nats):.1e}")
nats = ch04_handmade.best_stride_log_prob(4, 24, lags=0)[1]
print(judge(guess, float(f"1e{round(nats / math.log(10))}")))

# %% [markdown]
# With each lag, the policy can tell one more position after a boundary from the others. With three, nothing is left to
# the coin.
#
# Looking at the *text* needs no lags. White space, for example, can be written into $W_0$ alone. If the byte layers add
# nothing, the byte states are 256 random vectors, one for each byte. In 256 dimensions these are linearly independent,
# so one row of weights can tell any set of bytes from all others.

# %%
wide = with_settings(
    rltok.preset("tiny"),
    {"model.embedding_dim": 256, "model.num_heads": 4, "model.rule.lags": 0},
)
model = new_model(wide, torch.device("cpu")).eval()
ch04_handmade.draw_on(model, b" \n\t", reach=ch04_handmade.CERTAIN)
line = b"To be, or not to be: that is\nthe question."
ids = torch.tensor([[vocab.BOS, *line, vocab.EOS]])
numbers = row_uniforms(0, 0, [0], len(line) + 1)
with torch.no_grad():
    marks = model(ids, uniforms=numbers).boundaries[0]
print(ch04_policy.marked(line, marks), "(/ is a line break)")

# %% [markdown]
# ## Where it starts
#
# A fresh policy has small random weights, so its rate starts near the target. Not exactly there, because the cap of eq.
# (23) acts on the bias too. (The paper names no $c$; the authors' code has 6.)

# %%
logit = math.log(0.2 / 0.8)
print(f"target 1/5: the bias is {logit:.4f}")
print(
    f"under the cap: 6 tanh({logit:.4f} / 6) = {6 * math.tanh(logit / 6):.4f}"
)

# %% [markdown]
# Predict: does the capped policy draw more boundaries than one in five, or fewer?

# %% tags=["prediction"]
guess = None  # "more" or "fewer"

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
rate = policy.capped_rate(0.2, softcap=6.0)
print(f"a probability of 0.2 becomes {rate:.4f}")
print(judge(guess, "more" if rate > 0.2 else "fewer"))
for capped in (0.2, 0.02, 0.9):
    free = policy.uncapped_rate(capped, softcap=6.0)
    print(f"{capped} in training is {free:.4f} in evaluation, without cap")

# %% [markdown]
# The cap pulls every logit towards 0, and so every probability towards one half. Evaluation drops the cap. Near a fifth
# this hardly changes the rate. Far from one half it does, so records hold both rates.
#
# A higher target adds boundaries and keeps most of the old ones. The figure shows one text, one fresh policy and one
# set of random numbers; only the bias changes. (Without lags every boundary would stay; with lags, a new one changes
# the logits after it.)

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "Boundaries of one fresh policy on one text at eight target rates, from the same random numbers. Dark: a token ends after this byte.", "name": "fig-target-rates"}, "image": {"alt": "Eight rows of cells, one for each target rate; the lower a row, that is the higher its target, the more cells are dark, and most dark cells stay dark from row to row."}} tags=["hide-input"]
passage = b"What is learned is where information is worth carrying."
fresh = new_model(config, torch.device("cpu")).eval()
with torch.no_grad():
    states = fresh.encode(torch.tensor([[vocab.BOS, *passage]]))
    terms = fresh.rule.terms(states)[0]
numbers = row_uniforms(3, 0, [0], len(passage) + 1)[0]
at_rates = ch04_policy.draws_at_rates(
    terms, numbers, scale=fresh.rule.scale, softcap=fresh.rule.softcap
)
plots.show(ch04_policy.rates_figure(passage, at_rates))

# %% [markdown]
# ## What holds the rate
#
# The loss of the next byte does not count what tokens cost: if more tokens help, it pushes for more. Hence a loss that
# pulls the rate towards the target:
#
# $$\mathcal{L}^{target} = \bar l \cdot \mathrm{detach}(\bar p - \bar\pi_{target}) \tag{24}$$
#
# $\bar l$ and $\bar p$ are the means of logits and probabilities over the decisions of a batch. `detach` stops the
# gradient, so the second factor is just a number, the gap. The gradient for each of $n$ logits is that gap divided by
# $n$, *the same for all of them*. The more obvious loss is one on probabilities, $\tfrac{1}{2} (\bar p -
# \bar\pi_{target})^2$; its gradient for a logit has the factor $p_i (1 - p_i)$. Here are both gradients for three
# decisions, one unsure and two nearly certain:

# %%
logits = torch.tensor([[0.0, 5.0, -5.0]], requires_grad=True)
print("logits             0.0      5.0     -5.0")
for name, loss in (
    ("on logits", target_rate_loss),
    ("on probabilities", probability_rate_loss),
):
    (slope,) = torch.autograd.grad(loss(logits, 0.2), logits)
    print(f"{name:16s}", *(f"{g:8.5f}" for g in slope[0].tolist()))

# %% [markdown]
# On probabilities the pull is gone exactly where a policy is certain, however wrong its rate is. To see what this does
# in training, `scripts/measure/measure_rate_loss.py` trained the preset `tiny` on the bundled English sample without a
# rate loss, with eq. (24), and with the loss on probabilities; always towards a rate of 1/5; from three starts, a
# bias for a rate of 1/5, 1/100 or 4/5; with three seeds each.
#
# Predict: where does the rate end *without* a rate loss, from the start at the target?

# %% tags=["prediction"]
guess = None  # boundaries per byte

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
record = json.loads((results / "rate_loss.json").read_text())
ends = {}
for start in (0.2, 0.8, 0.01):
    runs = ch04_policy.rate_loss_runs(record, "none", start)
    ends[start] = sorted(run["rate"] for run in runs)
    low, high = ends[start][0], ends[start][-1]
    print(f"start at {start}: end at {low:.3f} to {high:.3f}")
    if start == record["target"]:
        print(judge(guess, f"{low:.3f} to {high:.3f}"))
assert ends[0.01][-1] < record["target"] < 0.9 < min(ends[0.2] + ends[0.8])

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "Boundaries per byte during training of the preset tiny with three rate losses, from three starts; every line is a seed, the black line is the target.", "name": "fig-rate-loss"}, "image": {"alt": "Three panels, one for each start. Without a rate loss the rate climbs to nearly one, but from a start near zero it stays below the target. With the loss on logits it settles on the target line in every panel. With the loss on probabilities it comes near, and with a wider spread."}} tags=["hide-input"]
plots.show(ch04_policy.rate_loss_figure(record))

# %% [markdown]
# Without a rate loss the policy goes to a token at nearly every byte from two starts. From the third, 1/100, it stops
# short of the target, with boundaries after nearly all white space and few elsewhere. So nothing in the loss of the
# next byte fixes the rate. Eq. (24) holds the target from every start. With the loss on probabilities the rate scatters
# more, as the gradients above suggest; three seeds are too few to prove it. Eq. (24) has a price: from a far start, the
# policy first moves all logits together towards the target, and by the end has learned less of white space than with
# the other loss ([all numbers](../book/policy_in_full.md#rate-losses)).
#
# ## The whole loss
#
# Now all parts of the training loss have appeared. The losses of the model and of the early head (the paper writes
# sums; we divide by the number of predicted bytes) are
#
# $$\mathcal{L}^{auto} = -\sum_i \log p(x_{i+1} \mid x_{\le i}, a_{\le i}) \tag{25}$$
# $$\mathcal{L}^{early} = -\sum_i \log p^{early}(x_{i+1} \mid x_{\le i}) \tag{26}$$
#
# the policy loss is eq. (18) of chapter 03, and the sum is weighted:
#
# $$\mathcal{L} = \mathcal{L}^{auto} + \lambda_\pi \mathcal{L}^{\pi} + \lambda_{target} \mathcal{L}^{target}
# + \lambda_{early} \mathcal{L}^{early} \tag{27}$$
#
# On one batch of real text, with a fresh model and the paper's $\lambda$:

# %%
objective = rltok.preset("147m").objective
names = ("auto", "policy", "target", "early")
weights = {
    f"lambda_{name}": getattr(objective, f"lambda_{name}") for name in names
}
tiny = rltok.preset("tiny")
((rows, numbers), *_) = micro_batches(
    load_corpus("sample", tiny.data), tiny, 1, torch.device("cpu")
)
with torch.no_grad():
    out = new_model(tiny, torch.device("cpu")).train()(rows, uniforms=numbers)
    paid = advantages(
        out.nll, out.early_nll, out.scored, **objective.reductions
    )
    parts = losses_of(out, paid, tiny.model.rule.target_rate)
for name in names:
    weight = weights[f"lambda_{name}"]
    print(f"{name:7s} {float(getattr(parts, name)):+.4f}, times {weight}")
print(f"sum     {float(parts.total(**weights)):+.4f}")

# %% [markdown]
# The small weight of the policy loss does not make the policy slow. Its rows $W_0, \dots, W_w$ get gradients from two
# parts only, $\mathcal{L}^{\pi}$ and $\mathcal{L}^{target}$, and the optimizer, AdamW, divides a gradient by its usual
# size. A common factor cancels; the *ratio* of $\lambda_\pi$ to $\lambda_{target}$ does not: it says how strongly
# rewards may pull against the rate. In the byte layers, which all losses share, $\lambda_\pi$ says how strongly the
# policy may pull at them.
#
# ## A language whose answer is known
#
# In English nobody knows the best boundaries. So here is a language in which the worth of a boundary can be computed.
# It has eight words and no spaces. No word is the beginning of another, so a reader always knows where a word ends.
# What matters is the *order* of the words: any two words in a row foretell the third, except for a surprise now and
# then. (In the code it is called `early`: its words differ from the first letter on.)

# %%
lexicon = Lexicon(WORDS["early"])
language = second_order(lexicon, surprise=0.1, seed=0)
sample = language.rows(1, 48, seed=(0, 9), name="example").bytes_[0]
print("the words:", b" ".join(lexicon.words).decode())
print("some text:", sample.tobytes().decode())
print(f"with the order of words: {language.entropy_rate:.3f} bits per byte")
alone = independent(lexicon).entropy_rate
print(f"with the words alone:    {alone:.3f} bits per byte")

# %% [markdown]
# The last two numbers are *entropy rates*: the fewest bits per byte that a reader can pay on a long text, if it
# remembers the last two words, and if it only knows the eight words. The difference is what memory is worth.
#
# Our model can remember through tokens only: each of its byte layers sees one byte besides its own, too few to reach
# the word before the last. With a boundary at the end of every word, the token layers have all that they need. With as
# many boundaries at random places, they learn of some words and not of others. A policy can win what the ends of words
# gain over random places, and every run below is judged by the *share* of this gain that it recovers. Here are both
# ends of this scale, and a third rule:

# %%
toy = json.loads((results / "toy.json").read_text())
ends = (RANDOM, ORACLE, "after letter 1")
print("\n".join(views.scores(toy, "early", ends)))

# %% [markdown]
# A boundary after the *first* letter of every word is worth as much as one after the last, since the first letter
# already tells which of the eight words it is.
#
# `scripts/measure/measure_toy.py` trained the same small model with learned boundaries, by estimators of chapter 03,
# from naive REINFORCE to the *full estimator*, which has all four reductions. The rate loss asks each of them for one
# boundary a word. These are the sizes of two estimators' advantages:

# %%
print("\n".join(views.advantage_sizes(toy, "early", ("naive", FULL))))

# %% [markdown]
# Times $\lambda_\pi$, they say how hard each pulls at the policy. Naive REINFORCE pulls so much harder than the rate
# loss that it draws more boundaries than that loss asks for, and more boundaries help by themselves. So it was trained
# a second time, with a fiftieth of $\lambda_\pi$, which keeps it to the rate. (Length of training and $D = 4$ were
# chosen, on validation rows, so that the full estimator works with every seed. For naive REINFORCE only these two
# weights were tried.)
#
# Predict: which recovers least of the gain, (1) naive REINFORCE, (2) naive REINFORCE with a fiftieth of the weight, or
# (3) the full estimator?

# %% tags=["prediction"]
guess = None  # 1, 2 or 3

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["measurement", "hide-cell"]
three = ("naive", QUIET, FULL)
found = {
    line["name"]: line
    for line in shares(toy["runs"])
    if line["words"] == "early"
}
share = {name: found[name]["mean_share"] for name in three}
for name in three:
    print(f"{views.in_words(name):32s}{share[name]:.2f}")
print(judge(guess, 1 + min(range(3), key=lambda n: share[three[n]])))
assert share[FULL] > 0.9 > 0.8 > share["naive"] > 0.5 > share[QUIET]
held = {
    name: [seed["bytes_to_0.8"] is not None for seed in line["seeds"]]
    for name, line in found.items()
}
assert {name for name in held if "gamma" in name} == {
    name for name in held if all(held[name]) and not name.startswith("after")
}

# %%
Markdown(views.gain_table(toy, "early", [*three, MORE_RANDOM], columns=4))

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "Bits per byte on validation rows and policy entropy while learning the toy language; lines are means, bands the range over three seeds. Dashed: the end of training with boundaries that nobody learned.", "name": "fig-toy-curves"}, "image": {"alt": "Left, curves of bits per byte fall from the level of random places towards that of the ends of words; the full estimator comes nearest, naive REINFORCE stays above it, and with a fiftieth of its weight it stays with the random places. Right, the policy entropy falls to near zero with the full estimator alone."}} tags=["hide-input"]
learned = views.runs_of(toy, "early", FULL)
assert max(run["test"]["policy_entropy"] for run in learned) < 0.05
plots.show(views.curves_figure(toy, "early", three))

# %% [markdown]
# The full estimator recovers nearly all of the gain, with every seed, and ends *decided*: for each byte the policy
# knows whether to draw. Naive REINFORCE draws more boundaries, and a good part of what it recovers is due to their
# number alone, as random places at its rate show. At a fiftieth of the weight it keeps to the rate and hardly gets
# beyond random places. Of the estimators in between, only the one with the discount recovers four fifths of the gain
# with every seed ([all estimators](../book/policy_in_full.md#the-toy-language)).
#
# Predict: does the full estimator's policy put its boundaries at the ends of words? (Think of what the first letters
# are worth.)

# %% tags=["prediction"]
guess = None  # "yes" or "no"

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
last, words = views.at_last_letters(toy, "early", FULL)
print(f"a boundary after the last letter: {last} of {words}, over seeds")
print(judge(guess, "yes" if last > words / 2 else "no"))

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "Where the full estimator learned to draw in the eight words, on test rows: black where a boundary always follows this letter, white where none does.", "name": "fig-toy-places"}, "image": {"alt": "Three panels of eight words, one for each seed. In most words exactly one letter is black, in a few none or two; it is another letter from word to word and from seed to seed, seldom the last."}} tags=["hide-input"]
plots.show(views.places_figure(toy, "early", FULL))

# %% [markdown]
# In this lexicon any two neighbouring letters tell the word, and so does the first letter alone. So any place will do,
# as long as it is the same whenever the word comes. Each seed has its own places, and some words are even marked by
# having no boundary, or two. How consistent are the places? The *mutual information* says by how many bits the place
# (which word, and which of its letters) foretells the decision:

# %%
rate = 1 / views.language_of(toy, "early")["bytes_per_word"]
most = -rate * math.log2(rate) - (1 - rate) * math.log2(1 - rate)
bits = [run["test"]["mutual_information"] for run in learned]
print("bits, seed by seed:", ", ".join(f"{value:.2f}" for value in bits))
print(f"at most {most:.2f}, with one boundary in {1 / rate:.0f} decisions")
control = views.runs_of(toy, "early", FULL, order="independent")
bits = [run["test"]["mutual_information"] for run in control]
print("where no word foretells another:", *(f"{value:.2f}" for value in bits))

# %% [markdown]
# The decisions are almost a function of word and letter. They are not where a linguist would cut; they are where
# information is worth carrying. The last line is the control: where no word foretells another, nothing is worth
# carrying, and the policy stays near coin flips.
#
# Does the place move if the information does? In a second lexicon all words begin alike:

# %%
print("the words:", b" ".join(Lexicon(WORDS["late"]).words).decode())

# %% [markdown]
# Predict: after which letter will the boundaries be now?

# %% tags=["prediction"]
guess = None  # 1, 2 or 3

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
last, words = views.at_last_letters(toy, "late", FULL)
print(f"a boundary after the last letter: {last} of {words}, over seeds")
assert last == words
print(judge(guess, 3))

# %%
Markdown(views.gain_table(toy, "late", [*three, "after letter 2"], columns=4))

# %% [markdown]
# With every seed, each word has its boundary after the last letter. After the second letter nothing is known yet: a
# token there is worth less than a token at a random place. And here naive REINFORCE does well. A likely reason: one
# place is right, and it is the same for all words. In the first lexicon many places would do, and for each word the policy
# had to settle on one of them.
#
# ## How far must the policy's weights move?
#
# In a short run with the paper's learning rate the policy can hardly move. Adam moves a weight by about the learning
# rate in an update, whatever the size of the gradient, and eq. (22) divides what the weights add by $D$. So the sum of
# the learning rates of all updates, divided by $D$, says how far a run can move a logit. Call it *travel*. Here it is
# for a few runs, as a multiple of the travel of the paper's run at 147M:

# %%
paper = policy_travel(rltok.preset("147m"))
short = {"train.training_bytes": 100_000_000}
slow = {"model.rule.scale": 16.0}
runs = {
    "147m, as in the paper": rltok.preset("147m"),
    "32m, 100 MB of text": rltok.preset("32m", short),
    "tiny, whose D is 1": rltok.preset("tiny"),
    **{
        f"tiny, D = 16, policy × {many:g}": rltok.preset(
            "tiny", slow | {"train.policy_lr_multiplier": float(many)}
        )
        for many in (1, 5, 20, 60)
    },
}
print(f"{'':26s}updates  travel")
for name, config in runs.items():
    share = policy_travel(config) / paper
    print(f"{name:26s}{config.num_updates:7,}  {share:6.2f}")

# %% [markdown]
# The factor in the last four lines, `train.policy_lr_multiplier`, gives the policy a learning rate of its own and so
# makes up for a short run. The plan `scripts/measure/sweeps/tiny_travel.toml` trained these four, with three seeds
# each, on the bundled English sample; and once more with a policy that does not move before 30 % of training.
#
# Predict: which is the smallest factor of the four that is enough for every seed's policy, moving from the start, to
# draw after at least 80 % of white space? (Chapter 00's policy had the travel of the third line, and came to draw after
# nearly all of it. So 20 should be enough; whether 5 is can only be guessed.)

# %% tags=["prediction"]
guess = None  # 1, 5, 20 or 60

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
travel = ch04_travel.read(results / "causes")
print(judge(guess, int(ch04_travel.least_multiplier(travel))))
print("\n".join(textwrap.wrap(ch04_travel.result(travel), 78)))

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "Left: the share of white space with a boundary during training, one line a run. Right: where boundaries are at the end, one point a run. Colours: the factor on the policy's learning rate; dashed lines and open points: policies that start late. Preset tiny with the paper's D, bundled English sample.", "name": "fig-policy-travel"}, "image": {"alt": "Left, a line for each run over the training text read: policies that move at once with a multiplier of 5 or more rise to nearly all white space; those that start late scatter between none and nearly all. Right, a point for each run: early ones with a multiplier lie together at much white space and few first letters, late ones along a line from there to few spaces and many first letters."}} tags=["hide-input"]
plots.show(ch04_travel.figure(travel))

# %% [markdown]
# A policy with a tenth of the paper's travel stays undecided. It also matters when a policy starts. By the time the
# late ones do, the network is used to boundaries at random places, and those that then decided did not all choose white
# space; some chose the first letters of words, one byte later. In the loss none of this is visible at this size: seeds
# differ by more than methods ([all numbers](../book/policy_in_full.md#how-far-the-policy-moves)). What a faster policy
# is worth at 32M is the subject of chapter 07.
#
# ## What it costs
#
# The paper says that learning boundaries costs less than a thousandth of the training compute of a model that is
# *given* the boundaries of a tokenizer. By the counting rule of chapter 01 this holds for the policy's few rows, and
# not for the early head, which multiplies every byte state by a matrix of 257 rows:

# %%
lines = []
for name in ("147m", "90m", "32m"):
    model = rltok.preset(name).model
    costs = extra(model, model.rule.target_rate)
    parts = [costs.early_head, costs.policy, costs.early_head + costs.policy]
    lines.append([name, *(f"{part / costs.guided:.3%}" for part in parts)])
Markdown(markdown(["preset", "early head", "policy", "both"], lines))

# %% [markdown]
# An early head that is a product of two thin matrices would meet the claim, and in the preset `tiny` such a head lost
# nothing that three seeds can show ([numbers](../book/policy_in_full.md#costs)). [How it is
# fast](../book/how_it_is_fast.md) measures how much *time* learned boundaries take on a GPU.
#
# ## What we saw
#
# * A decision is the sigmoid of a linear read-out of the byte state and of the last decisions.
# * With $w$ lags a policy can keep any distance up to $w + 1$. Without lags it can still look at the text.
# * Without a rate loss the rate went to a token at nearly every byte from two of three starts. The rate loss on logits
#   held it from every start.
# * On a language whose answer is known, the full estimator recovered nearly all of what boundaries are worth, with
#   every seed; naive REINFORCE recovered less, although it drew more of them. Where one place is right for all words,
#   naive REINFORCE did well too.
# * The learned places are consistent. They are the ends of words where these are the best place, and anywhere in the
#   word where places are equally good.
# * A policy needs room to move, and must start early. A short run gives it little; a learning rate of its own makes up for that.
#
# All learned numbers here are of small models.
#
# ## Exercises
#
# **1. One lag fewer** (easy, 5 minutes). What is the smallest number of lags with which `draw_every` takes $k = 5$? Try
# it, on a text of your own.


# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
def drawn(model, text: bytes) -> str:
    """The text with a bar after each byte that ends a token."""
    ids = torch.tensor([[vocab.BOS, *text, vocab.EOS]])
    numbers = row_uniforms(0, 0, [0], len(text) + 1)
    with torch.no_grad():
        marks = model(ids, uniforms=numbers).boundaries[0]
    return ch04_policy.marked(text, marks)


for lags in (4, 3):
    small = with_settings(rltok.preset("tiny"), {"model.rule.lags": lags})
    model = new_model(small, torch.device("cpu")).eval()
    try:
        ch04_handmade.draw_every(model, 5, reach=ch04_handmade.CERTAIN)
        print("4 lags:", drawn(model, b"four lags are enough for a fifth"))
    except RltokError as error:
        print("\n".join(textwrap.wrap(f"3 lags: {error}", 78)))

# %% [markdown]
# **2. The other way round** (easy, 5 minutes). A policy's weights are all zero and its cap is $c = 6$. Which target
# must eq. (22) get, so that *under* the cap it draws exactly one byte in five? And one in a thousand?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
free = policy.uncapped_rate(0.2, softcap=6.0)
print(f"{free:.4f} is drawn as {policy.capped_rate(free, softcap=6.0):.4f}")
try:
    policy.uncapped_rate(0.001, softcap=6.0)
except RltokError as error:
    print("\n".join(textwrap.wrap(str(error), 78)))

# %% [markdown]
# **3. Both at once** (medium, 15 minutes). Write weights that draw after white space, *unless one of the last two
# positions has a boundary*. (`ch04_handmade.draw_on` sets $W_0$ and leaves the lags at zero;
# `ch04_handmade.carry_constant`, called before it, makes coordinate 0 of every state 1; $W_j$ is row $j$ of
# `model.rule.project.weight`. The policy divides a byte state by its
# root mean square, which is at most `ch04_handmade.largest_rms`. Which weights do $W_1$ and $W_2$ need?)

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
pair = with_settings(wide, {"model.rule.lags": 2})
model = new_model(pair, torch.device("cpu")).eval()
ch04_handmade.carry_constant(model)  # coordinate 0 of every state is 1
ch04_handmade.draw_on(model, b" ", reach=ch04_handmade.CERTAIN)
bound = model.rule.scale * ch04_handmade.largest_rms(model)
no = 2.5 * ch04_handmade.CERTAIN * bound  # more than W_0 X, by the reach
model.rule.project.weight.data[1:, 0] = -no
print(drawn(model, b"to do a b c it is"))
print("W_1 = W_2 = -2 W_0 would not do: where there is no space, W_0 X is")
print("negative, and a boundary near by would cause another.")

# %% [markdown]
# **4. Stuck** (medium, 10 minutes). A policy without a softcap has the logit 12 everywhere, and the target is 1/5. Let
# plain gradient descent on the rate loss alone, with a learning rate of 1, move that logit. After 100 steps, where is
# it with either loss?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
for name, loss in (
    ("on logits", target_rate_loss),
    ("on probabilities", probability_rate_loss),
):
    logit = torch.tensor([[12.0]], requires_grad=True)
    for _ in range(100):
        (slope,) = torch.autograd.grad(loss(logit, 0.2), logit)
        logit = (logit - slope).detach().requires_grad_()
    p = logit.sigmoid().item()
    print(f"{name:17s} logit {logit.item():+.3f}, probability {p:.3f}")
print("AdamW, which divides a gradient by its usual size, would free the")
print("second one too, if nothing else pulled at the logit.")

# %% [markdown]
# **5. A lexicon of your own** (hard, 30 minutes and a minute of CPU for each run). Take a lexicon in which the *second* letter tells,
# and train on it with `rltok.evidence.toy.runs` (put the words into `rltok.evidence.toy.lexicon.WORDS["mine"]`, then
# `run_arm(Arm("mine", "second", FULL, seed=0), {}, looks=10)`, where "second" is the order of the language; the run's `rates_in_words` says where it drew). Where can the boundaries be? Say so before you run
# it.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
mine = Lexicon((b"apu", b"aqu", b"aru", b"asu"))
print(f"{len(mine.words)} words of {len(mine.words[0])} letters.")
print("After the first letter nothing of the word is known; after the second")
print("and the third all is. Each word should keep to one of these places.")

# %% [markdown]
# ## Where to go next
#
# [Chapter 05](05_straight_through_and_friends.ipynb) turns to the rivals: what gradients do dynamic pooling and H-Net follow?
