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
#       '0.56': nats, entropy of a coin that comes up one time in four
#     download_mb: 0
# ---

# %% [markdown] tags=["header-strip"]
# # 04 The boundary policy
#
# **After this chapter you can** say what a boundary policy can and cannot express, set one by hand, tell what holds its rate, and judge
# from a language with a known answer whether an estimator finds the boundaries that are worth having, and where they are.
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
from rltok.evidence.cost import CLAIM, extra, largest_rank
from rltok.evidence.toy import Lexicon, independent, second_order, views
from rltok.evidence.toy.lexicon import WORDS
from rltok.evidence.toy.measures import ORACLE, RANDOM
from rltok.evidence.toy.runs import FULL, QUIET
from rltok.losses import probability_rate_loss, target_rate_loss
from rltok.optim import policy_travel
from rltok.rng import row_uniforms
from rltok.runs.models import new_model
from rltok.show import plots
from rltok.show.tables import markdown
from rltok.step import losses_of

plots.use_style()
results = (
    Path("results") if Path("results").is_dir() else Path("notebooks/results")
)

# %% [markdown]
# ## One decision
#
# The policy is the smallest part of the network: a few numbers a byte, and a coin. At position $i$ it reads the byte state $X_i$,
# which has seen the bytes up to $i$, and its own last $w$ decisions (`lags` in the configuration, 8 in the paper):
#
# $$l^{raw}_i = W_0 X_i + \sum_{j=1}^{w} a_{i-j} W_j X_i \tag{21}$$
# $$l^{scaled}_i = l^{raw}_i / D + \sigma^{-1}(\bar\pi_{target}) \tag{22}$$
# $$l_i = c \tanh(l^{scaled}_i / c) \tag{23}$$
# $$p_i = \sigma(l_i) \tag{20}$$
# $$a_i \mid x_{\le i}, a_{<i} \sim \mathrm{Bernoulli}(p_i) \tag{19}$$
#
# $W_0, \dots, W_w$ are rows of one matrix. Each lag has a row of its own that reads the *whole* byte state, so what an earlier boundary
# means may depend on the byte that stands here now. $\bar\pi_{target}$ is the wanted number of boundaries per byte, and
# $\sigma^{-1}(p) = \log(p / (1 - p))$ the logit of a probability: it decides where the logits start, and $D$, 16 in the paper, how far
# random weights move them. The last step (23), the *softcap*, is there in training only; it keeps a logit inside $\pm c$. (In code
# $X_i$ is first divided by its root mean square, so a coordinate that is constant before keeps its sign and varies in size.)
#
# Here are the numbers of the first four positions of a row, made up: 1 for $W_0 X$, 10 for the first lag, 100 for the second. We take
# $D = 2$, a bias of one half and no cap, decide 1, 0, 1, 0, and read the logits. (Decisions before the row count as 0. In training the
# first decision of a row, on BOS, is forced to 1 and not counted.)

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
print(
    "log-probability of these four decisions:",
    f"{policy.log_prob(logits, decided).sum():.4f} nats",
)

# %% [markdown]
# Position 1 sees the boundary at 0 through its first lag: $(1 + 10) / 2$ and the bias, 6. Position 2 sees it through its second lag,
# and no boundary at 1: $(1 + 100) / 2$ and the bias, 51.
#
# To draw, every position gets a number $u_i$ between 0 and 1 and says yes if $u_i < p_i$. The numbers are handed in, so the draw is a
# function of them. It looks as if it had to go from left to right, and `plain` does. `sweeps` finds the same string otherwise: it
# starts from a guess, decides all positions at once, and repeats until nothing changes. A position is settled once those before
# it are.

# %%
generator = torch.Generator().manual_seed(0)
terms = 8 * torch.randn(2, 400, 9, generator=generator)
uniforms = torch.rand(2, 400, generator=generator)
settings = {"bias": math.log(0.2 / 0.8), "scale": 16.0, "softcap": 6.0}
drawn = {
    way: policy.sample_boundaries(terms, uniforms, **settings, backend=way)
    for way in ("plain", "sweeps")
}
print("same strings:", torch.equal(drawn["plain"], drawn["sweeps"]))
guess, sweeps = torch.zeros_like(drawn["plain"]), 0
while not torch.equal(
    guess, drawn["plain"]
):  # a sweep by hand: decide everywhere by the last guess, position 0 is forced
    logits = policy.boundary_logits(terms, guess, **settings)
    guess, sweeps = (
        (uniforms < logits.sigmoid()) | (torch.arange(400) == 0),
        sweeps + 1,
    )
print(f"found in {sweeps} sweeps over {guess.shape[1]} positions")
again = policy.sample_boundaries(terms, uniforms, **settings)
print(
    "and the same numbers give the same string again:",
    torch.equal(again, drawn["plain"]),
)

# %% [markdown]
# ## What memory is good for
#
# Suppose that the best thing to do were to end a token at every fourth byte, whatever the text. Can a policy say that?
#
# With memory it is easy to write down: *draw unless one of the last three positions has a boundary*. `hand_set.draw_every` writes
# it into the weights of a fresh network: one coordinate of the byte states is made constant, $W_0$ reads it with a large positive
# weight, and $W_1$ to $W_{k-1}$ with twice that, negative.

# %%
config = with_settings(rltok.preset("tiny"), {"model.rule.lags": 8})
text = b"A policy with eight lags, whatever it reads, can count to nine."
ids = torch.tensor([[vocab.BOS, *text]])
for k in (2, 4, 9):
    model = new_model(config, torch.device("cpu")).eval()
    ch04_handmade.draw_every(model, k, reach=ch04_handmade.CERTAIN)
    with torch.no_grad():
        marks = model(
            ids, uniforms=row_uniforms(0, 0, [0], len(text))
        ).boundaries[0]
    assert marks.nonzero().flatten().tolist() == list(range(0, len(text), k))
    print(f"k = {k}: {''.join('|' if mark else '.' for mark in marks)}")

# %% [markdown]
# Every $k$ up to $w + 1$ works, on any text, and the draw is certain: `reach` is the size of the logits, and at that size no
# single-precision uniform but 0 itself decides otherwise. For $k = 10$ there is one lag too few:

# %% tags=["raises-exception"]
ch04_handmade.draw_every(
    new_model(config, torch.device("cpu")), 10, reach=ch04_handmade.CERTAIN
)

# %% [markdown]
# Now take the memory away: `lags = 0`. On a constant text, such as a row of spaces, all byte states are the same, so a policy without
# memory draws with *one* probability $p$ everywhere. To draw exactly every fourth byte, it must say no three times and yes once, again
# and again, which has the probability $(1-p)^3\,p$ a stride. The best that it can do is $p = 1/4$.
#
# Predict: with the best $p$, how likely is it that 24 decisions on constant text come out as exactly every fourth byte?

# %% tags=["prediction"]
guess_probability = 1 / 100

# %% tags=["measurement"]
p, nats = ch04_handmade.best_stride_log_prob(k=4, decisions=24, lags=0)
print(
    f"best p {p}, probability {math.exp(nats):.1e}; the guess was {guess_probability}"
)
draws = (
    torch.rand(400_000, 8, generator=torch.Generator().manual_seed(1)) < 0.25
)
wanted = torch.arange(1, 9).remainder(4) == 0
hits = (draws == wanted).all(dim=1).float().mean()
short = math.exp(
    ch04_handmade.best_stride_log_prob(k=4, decisions=8, lags=0)[1]
)
print(
    f"for 8 decisions: {short:.4f} by the formula, {hits:.4f} of {len(draws)} draws"
)

# %% [markdown]
# Each lag lets the policy know for one more position after a boundary where it is. With $k - 1$ lags nothing is left to chance:

# %%
for lags in range(5):
    p, nats = ch04_handmade.best_stride_log_prob(k=4, decisions=24, lags=lags)
    print(
        f"{lags} lags: best p {p:.3f}, probability of every fourth byte {math.exp(nats):.2e}"
    )

# %% [markdown]
# So memory lets a policy keep a *distance* between boundaries. What needs no memory is to look at the text. White space, for
# example, can be written into $W_0$ alone. If the byte states are just embeddings (the byte layers add nothing), they are 256 random
# vectors; in 256 dimensions or more these are linearly independent, so one row of weights can say yes to any set of bytes and
# no to all the others.

# %%
wide = with_settings(
    rltok.preset("tiny"),
    {"model.embedding_dim": 256, "model.num_heads": 4, "model.rule.lags": 0},
)
model = new_model(wide, torch.device("cpu")).eval()
ch04_handmade.draw_on(model, b" \n\t", reach=ch04_handmade.CERTAIN)
line = b"To be, or not to be: that is\nthe question."
ids = torch.tensor([[vocab.BOS, *line, vocab.EOS]])
with torch.no_grad():
    marks = model(
        ids, uniforms=row_uniforms(0, 0, [0], len(line) + 1)
    ).boundaries[0]
print(ch04_policy.marked(line, marks), "(the line break is shown as /)")

# %% [markdown]
# ## Where it starts
#
# A fresh policy has small random weights, so its logits start near the bias of eq. (22), the logit of the target: its rate
# starts at the target. Nearly: the cap of eq. (23) acts on the bias too. The paper names no $c$; the authors' code has 6.
#
# Predict: with a target of 1/5 and $c = 6$, does the capped policy draw more boundaries than one in five, or fewer?

# %% tags=["prediction"]
guess_direction = "fewer"

# %% tags=["measurement"]
rate = policy.capped_rate(0.2, softcap=6.0)
print(
    f"a logit of {math.log(0.2 / 0.8):.4f} becomes {math.log(rate / (1 - rate)):.4f}, a probability of 0.2 becomes {rate:.4f}"
)
right = (rate > 0.2) == (guess_direction == "more")
print(
    f"{'more' if rate > 0.2 else 'fewer'}: the guess was {'right' if right else 'wrong'}"
)

# %% [markdown]
# The cap pulls every logit towards 0, and a logit of 0 is a probability of one half. It also works the other way round: training
# holds the *capped* rate at the target, and evaluation drops the cap. Then decisions move away from one half:

# %%
for capped in (0.2, 0.1, 0.02, 0.9):
    print(
        f"a probability of {capped} in training is {policy.uncapped_rate(capped, softcap=6.0):.4f} in evaluation"
    )

# %% [markdown]
# Small differences near the target, but they are there, and so records hold both rates. (The random weights matter more, where $D$ is
# small: in `tiny` it is 1, and fresh policies start between a few hundredths below and above the target.)
#
# What does the target do to a draw? Here is one text, one fresh policy and one set of uniforms; only the bias of eq. (22) changes. A
# policy without memory would keep every boundary when the target rises; with memory, one boundary more changes the logits of
# the positions after it.

# %% mystnb={"figure": {"caption": "Boundaries of one fresh policy on one text at eight target rates, from the same uniforms. Dark: a token ends after this byte.", "name": "fig-target-rates"}, "image": {"alt": "Eight rows of cells, one for each target rate; the lower a row, that is the higher its target, the more cells are dark, and most dark cells stay dark from row to row."}}
passage = b"What is learned is where information is worth carrying."
fresh = new_model(config, torch.device("cpu")).eval()
with torch.no_grad():
    states = fresh.encode(torch.tensor([[vocab.BOS, *passage]]))
    terms = fresh.rule.terms(states)[0]
chances = row_uniforms(3, 0, [0], len(passage) + 1)[0]
at_rates = ch04_policy.draws_at_rates(
    terms, chances, scale=fresh.rule.scale, softcap=fresh.rule.softcap
)
plots.show(ch04_policy.rates_figure(passage, at_rates))

# %% [markdown]
# In a live notebook, this slider goes through the rows (on the page of the book, the figure above shows the same):

# %% tags=["nbval-ignore-output"]
# not compared: a live widget has another identity every time
ch04_policy.rate_slider(passage, at_rates)

# %% [markdown]
# ## What holds the rate
#
# The loss of the next byte knows nothing of what tokens cost. If more of them help, it will ask for more. Hence a pressure towards the
# target:
#
# $$\mathcal{L}^{target} = \bar l \cdot \mathrm{detach}(\bar p - \bar\pi_{target}) \tag{24}$$
#
# $\bar l$ and $\bar p$ are the means of logits and probabilities over the decisions of a batch. `detach` stops the gradient, so the
# second factor is just a number, the gap; the gradient with respect to each of $n$ logits is that number over $n$, *the same for all of
# them*. (These are logits after the cap. On its way to the weights it is multiplied by $1 - (l_i / c)^2$, so it fades near $\pm c$, though
# far less than what comes next.) Why logits, and not probabilities? The obvious loss would be $\tfrac{1}{2} (\bar p - \bar\pi_{target})^2$, whose gradient reaches
# a logit through $p_i (1 - p_i)$. Here are three decisions, one unsure and two nearly certain, and what each loss makes of them.

# %%
logits = torch.tensor([[0.0, 5.0, -5.0]], requires_grad=True)
for name, loss in (
    ("on logits (24)", target_rate_loss),
    ("on probabilities", probability_rate_loss),
):
    (slope,) = torch.autograd.grad(loss(logits, 0.2), logits)
    shown = ", ".join(f"{value:.5f}" for value in slope[0].tolist())
    print(
        f"{name:17s} mean p {logits.sigmoid().mean():.3f}, gradient at logits 0, 5, -5: {shown}"
    )

# %% [markdown]
# On probabilities the pressure is gone just where a policy is certain, however wrong the rate is. To see what this does,
# `scripts/measure/measure_rate_loss.py` trained the preset `tiny` on the bundled English sample with no rate loss, with eq. (24), and with the
# pressure on probabilities, three seeds each, from three starts: at the target of 1/5, and with the bias of the policy moved so that
# it begins at 1/100 or at 4/5. The runs were made once; this page reads their record.
#
# Predict: with no rate loss at all, and a policy that begins with a boundary at one byte in a hundred, which share of the bytes has a
# boundary at the end?

# %% tags=["prediction"]
guess_free_rate = 0.99

# %% tags=["measurement"]
record = json.loads((results / "rate_loss.json").read_text())
low = [
    run["rate"] for run in ch04_policy.rate_loss_runs(record, "none", 0.01)
]
print(
    f"no rate loss, from 1/100: {min(low):.3f} to {max(low):.3f} of all bytes at the end; the guess was {guess_free_rate}"
)
assert (
    max(low)
    < record["target"]
    < 0.9
    < min(
        run["rate"] for run in ch04_policy.rate_loss_runs(record, "none", 0.8)
    )
)
Markdown(
    markdown(ch04_policy.RATE_LOSS_HEAD, ch04_policy.rate_loss_rows(record))
)

# %% [markdown]
# A row is three seeds: least to most, and the mean of the bits per byte. Rate and entropy are those at the end; *after white space* is
# the share of white space that has a boundary.
#
# Left alone, the policy goes to a token at nearly every byte from two starts, and from the third it stops short of the target: it has
# found white space, and nothing that the loss shows it beyond. A rate is not in the loss; it has to be asked for.

# %% mystnb={"figure": {"caption": "Boundaries per byte during training of the preset tiny with three rate losses, from three starts; every line is a seed, the black line is the target.", "name": "fig-rate-loss"}, "image": {"alt": "Three panels, one for each start. Without a rate loss the rate climbs to nearly one, but from a start near zero it stays below the target. With the loss on logits it settles on the target line in every panel. With the loss on probabilities it comes near, and with a wider spread."}}
plots.show(ch04_policy.rate_loss_figure(record))

# %% [markdown]
# With the pressure on probabilities some policies end nearly certain (their entropy is a tenth of a nat or less) above the target, and
# stay there: what the formula leads one to expect, though it is no proof, as policies under eq. (24) are as certain at the target from
# the same start. To be held tightly has a price, too: from a far start, the policies under eq. (24) were busy moving all logits together
# and found less of white space in the same time, as the table shows.
#
# ## The whole loss
#
# Now all parts of the training loss have appeared. The loss of the model and that of the early head (the paper writes sums; we divide by
# the number of scored bytes) are
#
# $$\mathcal{L}^{auto} = -\sum_i \log p(x_{i+1} \mid x_{\le i}, a_{\le i}) \tag{25}$$
# $$\mathcal{L}^{early} = -\sum_i \log p^{early}(x_{i+1} \mid x_{\le i}) \tag{26}$$
#
# the policy loss is that of chapter 02 with the advantages of chapter 03, and the sum is weighted:
#
# $$\mathcal{L} = \mathcal{L}^{auto} + \lambda_\pi \mathcal{L}^{\pi} + \lambda_{target} \mathcal{L}^{target}
# + \lambda_{early} \mathcal{L}^{early} \tag{27}$$

# %%
objective = rltok.preset("147m").objective
weights = {
    name: getattr(objective, name)
    for name in (
        "lambda_auto",
        "lambda_policy",
        "lambda_target",
        "lambda_early",
    )
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
for name in ("auto", "policy", "target", "early"):
    print(
        f"{name:7s} {float(getattr(parts, name)):+.4f}, times {weights[f'lambda_{name}']}"
    )
print(f"sum     {float(parts.total(**weights)):+.4f}")

# %% [markdown]
# (One batch of real text, fresh weights, weights of the losses as in the preset `147m`; $\lambda_{auto}$ is 1 in the paper.) The policy's
# weight is small beside that of the model's loss. For the policy's own rows $W_j$ this does not mean slow: they get gradients from two
# parts only, $\mathcal{L}^{\pi}$ and $\mathcal{L}^{target}$, and the optimizer, AdamW, divides a gradient by its usual size. So a common
# factor cancels, but the *ratio* of $\lambda_\pi$ to $\lambda_{target}$ does not: it says how strongly rewards may pull against the rate.
# In the byte layers, which all losses share, the weight says how strongly the policy may pull at them.
#
# ## A language whose answer is known
#
# On English nobody knows what the best boundaries are. So here is a language in which the worth of a boundary can be computed. Its
# words are few and have no spaces between them; no word begins another (the lexicon is *prefix-free*), so a reader always knows
# where a word ends. What matters is the *order* of the words: any two of them together foretell the next one, but for a surprise now
# and then.

# %%
lexicon = Lexicon(WORDS["early"])
language = second_order(lexicon, surprise=0.1, seed=0)
example = (
    language.rows(1, 48, seed=(0, 9), name="example").bytes_[0].tobytes()
)
print("the words:", b" ".join(lexicon.words).decode())
print("some text:", example.decode())
print(
    f"entropy rate {language.entropy_rate:.3f} bits per byte; words drawn independently: {independent(lexicon).entropy_rate:.3f}"
)

# %% [markdown]
# The *entropy rate* is the fewest bits per byte that any reader can pay on a long text; it is computed from the table of the language,
# without a model. (On rows of 128 bytes, whose first two words nothing foretells, the same reader pays a little more.) Who knows the
# words but not what order they come in pays the second number. The difference is what remembering is worth. A lexicon in which one word begins another is refused, as its text could be read in two ways:

# %% tags=["raises-exception"]
Lexicon((b"bal", b"balu", b"dor"))

# %% [markdown]
# Our model can remember through tokens only: each of its byte layers sees one byte besides its own, so the word before the last is out of
# their sight. It needs tokens that say which word just went by. If a token ends with every word (the *oracle*), the token layers have
# what they need. With as many boundaries at random places they have part of it: some words are told, some are not. The gain of the
# oracle over random places is what a policy can win beyond chance, and the share of it that an estimator recovers is its mark.
#
# `scripts/measure/measure_toy.py` trained the same small model with the oracle, with random places, and with learned boundaries by rungs of the
# ladder of chapter 03, up to the *full estimator*, which has all four reductions (`causal+early+gamma0.9+batch`); the rate loss asks all
# of them for one boundary a word. Naive REINFORCE runs twice. At the same weight $\lambda_\pi$ its advantages are many times as large
# as those of the full estimator, so it pulls much harder at everything, against the rate loss, too. The second time it gets a fiftieth
# of the weight. To be fair to it, know how the rest was set: length of training and $D = 4$ were chosen on validation rows so that the
# full estimator works with every seed (the weights of the losses are those of `tiny`); naive got these two weights and no more search.
#
# Predict: which share of the oracle's gain does naive REINFORCE recover, and which the full estimator? And where in the word will the
# learned boundaries be?

# %% tags=["prediction"]
guess_naive, guess_full, guess_place = 1 / 2, 9 / 10, "after the last letter"

# %% tags=["measurement"]
toy = json.loads((results / "toy.json").read_text())
shares = {
    line["name"]: line for line in toy["shares"] if line["words"] == "early"
}
assert (
    min(seed["share"] for seed in shares[FULL]["seeds"])
    > 0.8
    > shares["naive"]["mean_share"]
)
print(f"guesses: naive {guess_naive}, full {guess_full}")
Markdown(markdown(views.GAIN_HEAD, views.gain_rows(toy, "early")))

# %% [markdown]
# A row has the share of the oracle's gain on test rows, over seeds; how many of them came to hold four fifths of it, on validation
# rows, and after how much text; and the boundaries that were drawn, where one in four bytes was asked for. The sizes of the
# advantages, and the two ends of the scale:

# %%
print("\n".join(views.advantage_sizes(toy, "early", ("naive", QUIET, FULL))))
for name in (RANDOM, ORACLE):
    bits = [
        run["test"]["bits_per_byte"]
        for run in views.runs_of(toy, "early", name)
    ]
    print(
        f"{name} boundaries: {min(bits):.3f} to {max(bits):.3f} bits per byte over seeds"
    )

# %% mystnb={"figure": {"caption": "Held-out bits per byte and policy entropy while learning the toy language, for each estimator; lines are means, bands the range over three seeds. Dashed: boundaries at word ends; dotted: at random places; thin: a reader who knows the language.", "name": "fig-toy-curves"}, "image": {"alt": "Left, curves of bits per byte fall from the level of random boundaries towards that of the oracle; those with a discount come nearest, naive with a fiftieth of its weight stays with the random places. Right, the policy entropy falls to near zero where a discount is used."}}
plots.show(views.curves_figure(toy, "early"))

# %% [markdown]
# Two things besides the shares. The estimators with a discount end *decided*: their policy entropy is near zero, for each byte they
# know whether to draw. (Centring adds nothing here to what the discount gave.) And naive REINFORCE at full weight draws more boundaries
# than it was asked for: its pull is stronger than the rate loss. What are so many boundaries worth by themselves? Here are controls in
# which nobody learned where to draw: random places at about naive's rate, and a boundary at the *first* letter of every word.

# %%
learned = [
    run["test"]["policy_entropy"] for run in views.runs_of(toy, "early", FULL)
]
assert (
    max(learned) < 0.05
    and min(
        run["test"]["rate"] for run in views.runs_of(toy, "early", "naive")
    )
    > 0.28
)
Markdown(
    markdown(views.GAIN_HEAD, views.gain_rows(toy, "early", controls=True))
)

# %% [markdown]
# A good part of what naive REINFORCE recovers is to be had by random places at its rate. And a token at the first letter is worth what
# one at the last is worth.
#
# Where are the learned boundaries? For every word, the share of bytes with a boundary after them, full estimator:

# %% mystnb={"figure": {"caption": "Where the full estimator learned to draw in the eight words of the first lexicon, on test rows: black where a boundary always follows this letter, white where none does.", "name": "fig-toy-places"}, "image": {"alt": "Three panels of eight words, one for each seed. In most words exactly one letter is black, in a few none or two; it is another letter from word to word and from seed to seed, often not the last."}}
plots.show(views.places_figure(toy, "early", FULL))

# %%
print("the guess was", guess_place)
for run in views.runs_of(toy, "early", FULL):
    best = max(run["test"]["f1"].items(), key=lambda pair: pair[1])
    told = f"F1 {run['test']['f1']['0']:.2f} against word ends, at most {best[1]:.2f}, {best[0]} letters from them"
    print(
        f"seed {run['seed']}: {told}; {run['test']['mutual_information']:.2f} bits"
    )
rate = 1 / views.language_of(toy, "early")["bytes_per_word"]
print(
    f"at most {-rate * math.log2(rate) - (1 - rate) * math.log2(1 - rate):.2f} bits with one boundary in {1 / rate:.0f} decisions"
)

# %% [markdown]
# *F1* is 1 when two sets of places are the same and 0 when they share none; boundaries at random places have about one in four here, and
# an offset of $-1$ means the last letter but one. By F1 this policy knows little of words, at any offset, and yet it has nearly all of
# the gain. The last number of a seed says why: it is the *mutual information* between a decision and the place where it is taken (which
# word, which letter of it), and it is nearly as large as it can be. The boundaries are a function of word and place. In this lexicon
# the first letter alone tells the word, and so do any two neighbouring letters. So any place will do, as long as it is the same whenever
# the word comes. Each seed has its own, and now and then a word is told by having no boundary, or two. What is learned is where
# information is worth carrying, not where a linguist would cut.
#
# Does the place move if the information does? In the second lexicon all words begin alike, and only the last letter tells:

# %%
print("the words:", b" ".join(Lexicon(WORDS["late"]).words).decode())

# %% [markdown]
# Predict: after which letter will the boundaries be now? And will naive REINFORCE do better or worse than with the first lexicon?

# %% tags=["prediction"]
guess_letter, guess_naive_now = "the last", "worse"

# %% tags=["measurement"]
by_offset = views.offsets(toy, "late", [FULL])[FULL]
assert by_offset[0] > 0.99
print(
    "full estimator, F1 against word ends moved by k letters:",
    {k: round(value, 2) for k, value in by_offset.items()},
)
print(f"guesses: after {guess_letter} letter; naive {guess_naive_now}")
Markdown(markdown(views.GAIN_HEAD, views.gain_rows(toy, "late")))

# %% [markdown]
# Practically all boundaries are after the last letter, with every seed. Is it the only place? The controls of this lexicon, with a
# boundary after another letter of every word:

# %%
Markdown(
    markdown(views.GAIN_HEAD, views.gain_rows(toy, "late", controls=True))
)

# %% [markdown]
# After the second letter nothing is known: all words begin with the same two, and tokens there are worth less than tokens at random
# places. After the *first* letter of the next word a byte state can still see the letter before it, the last one of the word that
# ended; the word could be carried from there, one byte later, but of three seeds one made use of it in this time. The policy took the
# place that works. And here naive REINFORCE does well: the signal is concentrated in one decision, not spread over many places
# that would all do if only every word kept to its own. A good estimator is not needed for every question; it is needed for those
# whose signal is spread thin.
#
# The control of everything: a language of the same words in which no word foretells another. Nothing is worth carrying.

# %%
bits = [
    run["test"]["bits_per_byte"]
    for run in views.runs_of(toy, "early", FULL, order="independent")
]
least = views.language_of(toy, "early", "independent")["test_bits_per_byte"]
print(
    f"bits per byte {min(bits):.4f} to {max(bits):.4f}; a reader who knows the language pays {least:.4f} on the same rows"
)
for order in ("second", "independent"):
    tests = [
        run["test"] for run in views.runs_of(toy, "early", FULL, order=order)
    ]
    told = [
        f"{test['mutual_information']:.2f} bits, entropy {test['policy_entropy']:.2f} nats"
        for test in tests
    ]
    print(f"{order:12s}", "; ".join(told))

# %% [markdown]
# It pays what it must, and its decisions tell next to nothing of words: they stay near coin flips, whose entropy at a rate of 1/4 is 0.56
# nats.
#
# ## How far must the policy's weights move?
#
# Far enough, and early: policies that move too slowly stay undecided, and those that start late end in one place or another. Here is why
# distance matters at all. Adam moves a weight by about the learning rate in an update, whatever the size of the gradient, and eq. (22)
# divides the result by $D = 16$. So the learning rates of all updates, added up and divided by $D$, say before a run how far it lets a
# logit move for each unit of its input. Call this sum *travel*.

# %%
paper = policy_travel(rltok.preset("147m"))
short = {"train.training_bytes": 100_000_000}
runs = {
    "147m, as in the paper": rltok.preset("147m"),
    "32m, 100 MB": rltok.preset("32m", short),
    "32m, 100 MB, policy × 20": rltok.preset("32m_fast_policy", short),
    "tiny, whose D is 1": rltok.preset("tiny"),
    "tiny with D = 16": rltok.preset("tiny", {"model.rule.scale": 16.0}),
}
print(f"{'':26s}updates  share of the paper's travel")
for name, config in runs.items():
    share = policy_travel(config) / paper
    print(f"{name:26s}{config.num_updates:7,}  {share:.2f}")

# %% [markdown]
# A run of a few hundred updates gives the policy a small part of the travel that the paper's run gave it. The setting
# `train.policy_lr_multiplier` makes up for that with a learning rate of the policy's own. The plan
# `scripts/measure/sweeps/tiny_travel.toml` trains `tiny`, with the paper's $D$, with four multipliers; and each of them twice, with a
# policy that moves from the first update on and with one that starts after 30 % of training (`train.policy_start_fraction`), when the
# network is used to boundaries at random places.
#
# Predict: how many of the twelve late policies (four multipliers, three seeds) end with boundaries at most of the white space?

# %% tags=["prediction"]
guess_late = None  # a number from 0 to 12

# %% tags=["measurement"]
travel = ch04_travel.read(results / "causes")
print("\n".join(textwrap.wrap(ch04_travel.result(travel), 78)))
Markdown(ch04_travel.table(travel))

# %% [markdown]
# *starts after*: share of training before the policy moves; *travel*: as a share of the paper's; *white space* and *first letters*: share
# of white space, and of the first letters of words, with a boundary after it; ± the standard error over seeds, and for the loss half the
# width of the interval by which this book judges differences.

# %% mystnb={"figure": {"caption": "Left: the share of white space with a boundary during training, one line a run. Right: where boundaries are at the end, one point a run. Colours: how often the policy's learning rate is multiplied; dashed lines and open points: policies that start late. Preset tiny with the paper's D, bundled English sample.", "name": "fig-policy-travel"}, "image": {"alt": "Left, a line for each run over the training text read: policies that move at once with a multiplier of 5 or more rise to nearly all white space; those that start late scatter between none and nearly all. Right, a point for each run: early ones with a multiplier lie together at much white space and few first letters, late ones along a line from there to few spaces and many first letters."}}
plots.show(ch04_travel.figure(travel))

# %% [markdown]
# Late policies that decide, but not for white space, put their boundaries after the first letters of words, one byte later. In the loss,
# none of this is visible at this size: seeds differ by more than methods. What a faster policy is worth at 32M is in chapter 07.
#
# ## What it costs
#
# The paper says that learning boundaries costs less than a thousandth of the training compute, beside a model that is *given* boundaries
# of byte-pair encoding. Two things are added: the policy's few rows, and the early head, a matrix of 257 rows that every byte is
# multiplied with. Count them by the rule of chapter 01, at the target rate of each preset:

# %%
lines = []
for name in ("147m", "90m", "32m"):
    model = rltok.preset(name).model
    costs = extra(model, model.rule.target_rate)
    parts = [costs.early_head, costs.policy, costs.early_head + costs.policy]
    rank = largest_rank(model, model.rule.target_rate, CLAIM)
    uncounted = (
        f"{costs.guided / (costs.scan + costs.estimator) / 1e6:.0f} million"
    )
    lines.append(
        [
            name,
            *(f"{part / costs.guided:.3%}" for part in parts),
            uncounted,
            str(rank),
        ]
    )
head = [
    "preset",
    "early head",
    "policy",
    "both",
    "draw and estimator, one part in",
    "largest rank for 0.1 %",
]
Markdown(markdown(head, lines))

# %% [markdown]
# The policy alone is far below the claim; the early head is above it at each of these sizes. It would fit if its matrix were a
# product of two thin ones, of the *rank* in the last column: started from the singular vectors of the output head, as the full one
# starts equal to it. What does that cost in bits? `scripts/measure/measure_low_rank.py` trained the preset `tiny` with a full early head and
# with one of rank 4, which is as small a part of its width as the first rank in the table is of that of `147m`:

# %%
thin = json.loads((results / "low_rank_head.json").read_text())
print(thin["verdict"])
early = thin["gaps"][0]
print(
    f"the early head's own loss: {early['early_bits_per_byte']:+.2f} ± {early['early_bits_per_byte_standard_error']:.2f}"
)

# %% [markdown]
# The number after ± is the standard error over seeds. The model lost nothing that three seeds can show, though the early head itself,
# the yardstick of the rewards, predicts much worse. (At the size of `tiny` no rank meets the claim; heads weigh more in a small
# network. How much *time* learned boundaries take on a GPU is another question, answered
# by measurement in [How it is fast](../book/how_it_is_fast.md).)
#
# ## What we saw
#
# * A decision is a sigmoid of a linear read-out of the byte state and of the last decisions. The uniforms are handed in, so a draw can
#   be repeated, and need not go from left to right.
# * With $w$ lags a policy can keep any distance up to $w + 1$ exactly. Without memory, on constant text, it keeps none but 1; its best
#   is a computed, tiny probability. Looking at the text needs no memory.
# * The softcap moves the rate a little, and evaluation without it moves it back.
# * Without a rate loss the rate went where it liked: to a token at nearly every byte from two of three starts. The pressure on logits
#   held the rate from every start; on probabilities it scattered more.
# * On a language whose answer is known, the full estimator recovered nearly all of what word ends are worth beyond random places, with
#   every seed; naive REINFORCE less, with more boundaries, and hardly any of it at a fiftieth of the weight. Where one decision carries
#   the signal, naive did well too.
# * The learned places are consistent. They are the ends of words where these are the best place, and anywhere in the word where places
#   are equally good.
# * By the paper's own rule the early head costs more than the claim; a thin one would not, and in `tiny` it lost nothing that shows.
#
# All learned numbers are of small models, made once and stored with their records; the toy language is one table of word orders.
#
# ## Exercises
#
# **1. One lag fewer** (easy, 5 minutes). What is the smallest number of lags with which `draw_every` takes $k = 5$? Try it, on a text of
# your own.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
small = with_settings(rltok.preset("tiny"), {"model.rule.lags": 4})
model = new_model(small, torch.device("cpu")).eval()
ch04_handmade.draw_every(model, 5, reach=ch04_handmade.CERTAIN)
mine = b"four lags are enough for a fifth"
with torch.no_grad():
    marks = model(
        torch.tensor([[vocab.BOS, *mine, vocab.EOS]]),
        uniforms=row_uniforms(0, 0, [0], len(mine) + 1),
    ).boundaries[0]
print(ch04_policy.marked(mine, marks))
try:
    ch04_handmade.draw_every(
        new_model(
            with_settings(small, {"model.rule.lags": 3}), torch.device("cpu")
        ),
        5,
        reach=ch04_handmade.CERTAIN,
    )
except RltokError as error:
    print("with 3 lags:", error)

# %% [markdown]
# **2. The other way round** (easy, 5 minutes). With which probability in eq. (22) does a policy without weights draw exactly one byte in
# five *under* the cap? And one in a thousand, with $c = 6$?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
free = policy.uncapped_rate(0.2, softcap=6.0)
print(f"{free:.4f} is drawn as {policy.capped_rate(free, softcap=6.0):.4f}")
try:
    policy.uncapped_rate(0.001, softcap=6.0)
except RltokError as error:
    print(error)

# %% [markdown]
# **3. Both at once** (medium, 15 minutes). Write weights that draw after white space, *unless one of the last two positions has a
# boundary*. (`hand_set.draw_on` sets $W_0$ and leaves the lags at zero; `hand_set.carry_constant`, called before it, makes a coordinate
# constant; `hand_set.largest_rms` bounds what the norm divides by. Which weights do $W_1$ and $W_2$ need?)

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
pair = with_settings(wide, {"model.rule.lags": 2})
model = new_model(pair, torch.device("cpu")).eval()
ch04_handmade.carry_constant(
    model
)  # coordinate 0 of every state, before the norm, is 1
ch04_handmade.draw_on(model, b" ", reach=ch04_handmade.CERTAIN)
no = (
    2.5
    * ch04_handmade.CERTAIN
    * model.rule.scale
    * ch04_handmade.largest_rms(model)
)  # more than W_0 X can reach, and the wanted reach
model.rule.project.weight.data[1:, 0] = -no
spaced = b"to do a b c it is"
with torch.no_grad():
    ids = torch.tensor([[vocab.BOS, *spaced, vocab.EOS]])
    print(
        ch04_policy.marked(
            spaced,
            model(
                ids, uniforms=row_uniforms(0, 0, [0], len(spaced) + 1)
            ).boundaries[0],
        )
    )
print(
    "W_j = -2 W_0 would not do: where there is no space, W_0 X is negative, and a boundary near by would cause another."
)

# %% [markdown]
# **4. Stuck** (medium, 10 minutes). A policy without a softcap draws everywhere with a logit of 12, the target is 1/5, and plain gradient
# descent with a rate of 1 on the rate loss alone may move the logit. After 100 steps, where is it with either loss?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
for name, loss in (
    ("on logits", target_rate_loss),
    ("on probabilities", probability_rate_loss),
):
    logit = torch.tensor([[12.0]], requires_grad=True)
    for _ in range(100):
        (slope,) = torch.autograd.grad(loss(logit, 0.2), logit)
        logit = (logit - slope).detach().requires_grad_()
    print(
        f"{name:17s} logit {logit.item():+.3f}, probability {logit.sigmoid().item():.3f}"
    )
print(
    "AdamW, which divides a gradient by its usual size, would free the second one too, if nothing else pulled at the logit."
)

# %% [markdown]
# **5. A lexicon of your own** (hard, 30 minutes and a minute of CPU for each run). Take a lexicon in which the *second* letter tells,
# and train it with `rltok.evidence.toy.runs` (put the words into `rltok.evidence.toy.lexicon.WORDS`, then `run_arm(Arm("mine", "second", FULL, 0), {},
# looks=10)`; the run's `rates_in_words` says where it drew). Where can the boundaries be? Say so before you run it.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
mine = Lexicon((b"apu", b"aqu", b"aru", b"asu"))
print(
    f"{len(mine.words)} words of {len(mine.words[0])} letters. After the first letter nothing of the word is known; after the second and the"
)
print(
    "third all is. Each word should keep to one of these two places, the same whenever it comes."
)
