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
#     download_mb: 0
# ---

# %% [markdown] tags=["header-strip"]
# # 01 Bytes, tokens and the U-Net
#
# **In short.** The states of bytes at boundaries become tokens, the large middle part works on tokens only, and every byte gets
# back the latest token. No prediction sees the byte that it predicts, and the rate of boundaries decides what a byte costs.
# Chapter 00 showed boundaries being learned; this chapter opens the network that uses them.
#
# **After this chapter you can** turn text into ids and back, follow byte states down to tokens and up again by hand, say which
# prediction is the first that a boundary affects, and check by an experiment that a model never looks ahead.
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
import textwrap

import numpy as np
import torch

import rltok
from rltok import resample, vocab
from rltok.attention import window_mask
from rltok.config import with_settings
from rltok.flops import flops_per_byte, parameter_counts
from rltok.policy import boundary_logits
from rltok.rng import row_uniforms
from rltok.runs.models import new_model
from rltok.show import plots
from rltok.show.notebook import judge

plots.use_style()

# %% [markdown]
# ## Why tokens at all
#
# Text in a computer is a string of bytes, in the encoding called UTF-8. An English letter takes one byte, other characters up to
# four. In `rltok` every byte is its own id, 0 to 255, so any file can be read and nothing is ever out of vocabulary. Three more
# ids frame the text: BOS (begin), EOS (end) and PAD (padding).

# %%
for word in ("cat", "café", "猫", "🐈"):
    sizes = f"characters: {len(word)}, bytes: {len(word.encode())}"
    print(f"{word}: {sizes}, ids {vocab.encode(word).tolist()}")
print("frame:", {"BOS": vocab.BOS, "EOS": vocab.EOS, "PAD": vocab.PAD})

# %% [markdown]
# A model that spends its full depth on each byte is slow; shorter sequences of *tokens* are cheaper. The standard way to get
# them, byte-pair encoding, merges frequent neighbours into a fixed vocabulary before training, so the grouping cannot learn from
# the model's mistakes. The paper {cite}`dauncey2026` sets three goals (its section 2.1):
#
# | the paper's goal | in words | where in this book |
# |---|---|---|
# | end-to-end tokenizer training | boundaries are learned to lower the loss, not by a rule made by hand | [chapter 02](02_stochastic_computation_graph.ipynb) |
# | end-to-end architecture | token layers work on the states that byte layers computed, not on embeddings of their own | downsampling, below |
# | efficiency | next to no extra computation | counted at the end of this chapter |
#
# ## The network in one picture
#
# An *autoregressive U-Net* reads bytes with a few layers that see only nearby bytes, keeps the states at boundaries, works on
# those with its large middle part, and hands the results back to the bytes. The example is the paper's: eight positions, BOS and
# the bytes of `Learn t`, with the boundaries 11001010.
#
# Read the figure from bottom to top; numbers in brackets are equations that follow. Red arrows select the states at boundaries as
# tokens. Green arrows are attention: a token sees itself and all earlier tokens. Orange arrows give each byte the latest token
# at or before it. Dotted arrows carry a byte's own state past the tokens.

# %% mystnb={"figure": {"caption": "The U-Net on the paper's example: red selects tokens, green is attention among them, orange hands them to bytes, dotted is the skip.", "name": "fig-unet"}, "image": {"alt": "Eight input positions at the bottom, each with a byte state X above it and a 1 or 0 for its boundary. The four states with a 1 rise to tokens X prime. Green arrows lead from each token to its own and every later Y prime. Orange arrows lead from each Y prime to the bytes up to the next boundary, dotted ones from every X to the Y above it, then one arrow to the predicted next byte."}}
labels = ["BOS", "L", "e", "a", "r", "n", "_", "t"]
a = np.array([1, 1, 0, 0, 1, 0, 1, 0])
plots.show(plots.unet_diagram(labels, a))

# %% [markdown]
# In formulas, with the paper's numbers: $x$ are the bytes and $X$ their states; the policy $\pi$ draws the boundaries $a$; $X'$
# and $Y'$ are the tokens before and after the middle part; $Y$ are byte states again, and $y$ the next bytes. (The [equation
# register](../book/equations.md) has all equations, with the reading we take.)
#
# $$X = \mathrm{encode}(x) \tag{1}$$
# $$a \sim \pi(X, x) \tag{2}$$
# $$X' = \mathrm{downsample}(X, a) \tag{3}$$
# $$Y' = \mathrm{mid}(X') \tag{4}$$
# $$Y = \mathrm{upsample}(Y', X, a) \tag{5}$$
# $$y \sim \mathrm{decode}(Y) \tag{6}$$
#
# ## Down: select the states at boundaries
#
# Downsampling keeps the states where $a_i = 1$, in order. Token $j$ is the state at the $j$-th boundary, counted from one:
#
# $$X'_j = X_i \tag{7}$$
# $$\text{where} \quad a_i = 1, \quad \sum_{k=0}^{i} a_k = j \tag{8}$$
#
# Let every byte state be a single number, so that we can follow it: position $i$ holds $10 i$. Predict: which four numbers are
# kept?

# %% tags=["prediction"]
guess = None  # a list of four numbers

# %% jupyter={"outputs_hidden": true} tags=["hide-output"]
X = 10 * np.arange(8)
kept = [int(X[i]) for i in range(8) if a[i] == 1]  # eqs. (7) and (8)
print(judge(guess, kept))

# %% [markdown]
# The package does the same for a batch of *rows*, the pieces of text that a model reads. Rows have different numbers of tokens,
# so the tokens of all rows stand in one long list, with offsets that say where each row begins, and each token's
# position in its row.

# %%
boundaries = torch.tensor(
    np.stack([a, [1, 0, 0, 0, 0, 1, 0, 0]]), dtype=torch.bool
)
first = torch.tensor(X, dtype=torch.float64)
byte_states = torch.stack([first, first + 1])[..., None]  # [2, 8, 1]
packed = resample.downsample(byte_states, boundaries)
assert packed.states[:4, 0].tolist() == kept
print("states   ", packed.states[:, 0].int().tolist())
print("offsets  ", packed.offsets.tolist())
print("positions", packed.positions.tolist())

# %% [markdown]
# ## Up: every byte reads the latest token at or before it
#
# On the way back, byte $j$ adds token number $c(j) = \sum_{k \le j} a_k$, the latest one, to its own state:
#
# $$Y_j = X_j + Y'_{c(j)} \tag{9}$$
#
# Let the middle part turn the four tokens into 1000, 2000, 3000 and 4000.

# %%
Y_tokens = np.array([1000, 2000, 3000, 4000])
c = np.cumsum(a)
# eq. (9); Python counts from zero, so - 1
Y = [int(X[j] + Y_tokens[c[j] - 1]) for j in range(8)]
print("c:", c.tolist())
print("Y:", Y)

# %%
token_states = torch.tensor(
    [1000.0, 2000, 3000, 4000, 5000, 6000], dtype=torch.float64
)[:, None]
upsampled = resample.upsample(token_states, byte_states.double(), boundaries)
assert upsampled[0, :, 0].tolist() == Y
print("second row:", upsampled[1, :, 0].int().tolist())

# %% [markdown]
# The boundary at position 0, on BOS, is forced: otherwise the first bytes would have no token to read. It is not a decision, so
# it does not count when the rate is measured or the policy is trained.
#
# ## One index convention
#
# Most mistakes in models of this kind are mistakes of one position. The whole book keeps to one convention:
#
# * input position $i$ holds $x_i$ and predicts $x_{i+1}$;
# * $X_i$ has seen $x_0, \dots, x_i$;
# * $a_i$ is drawn from $X_i$ and the earlier decisions, and already acts on the prediction of $x_{i+1}$.

# %%
print("i  holds  boundary  reads token  predicts")
for i, label in enumerate(labels):
    target = labels[i + 1] if i + 1 < len(labels) else "(next byte)"
    drawn = "yes" if a[i] else "no"
    print(f"{i}  {label:5s}  {drawn:8s}  {c[i]:<11d}  {target}")

# %% [markdown]
# ## Who sees whom
#
# A byte layer sees only a *window*: its own position and those just before it, 64 positions in the paper (the preset `147m`), 4
# in the preset `tiny`. A second layer sees further, because each state that it reads has already seen a window, but the byte
# level stays short-sighted. All text further back reaches a prediction only through tokens, so it matters where they end. In the
# figure, yellow is seen and blue is not: on the left by one byte layer, on the right by the latest token.

# %% mystnb={"figure": {"caption": "Left: a byte layer with a window of 4. Right: what reaches each byte through its latest token, with the example's boundaries. Yellow is seen.", "name": "fig-sight"}, "image": {"alt": "Two square grids, reading position down, position seen across. The left one has a narrow diagonal band, the right one grows in steps at the boundaries."}}
import matplotlib.pyplot as plt

near = window_mask(8, 4).int().numpy()
ends = np.flatnonzero(a)
# position i reads token c[i], which ends at ends[c[i] - 1] (Python counts
# from zero) and has seen what came before
far = [[int(j <= ends[c[i] - 1]) for j in range(8)] for i in range(8)]
far = np.array(far)
figure, axes = plt.subplots(1, 2)
for panel, seen, title in zip(
    axes, (near, far), ("byte layer, window 4", "through tokens")
):
    panel.imshow(seen, cmap="cividis")
    panel.set(title=title, xlabel="position seen", ylabel="position reading")
    panel.grid(False)
plots.show(figure)

# %%
paper, small = rltok.preset("147m").model, rltok.preset("tiny").model
for name, sizes in (("147m", paper), ("tiny", small)):
    reach = sizes.down_layers * (sizes.window - 1)
    print(
        f"{name}: byte layers before the tokens: {sizes.down_layers},",
        end=" ",
    )
    print(f"reach {reach} positions back")
print("how many positions each position sees, in the figure:")
print("in a byte layer:         ", near.sum(axis=1).tolist())
print("through the latest token:", far.sum(axis=1).tolist())

# %% [markdown]
# ## An experiment: does the model look ahead?
#
# A model that could see the byte it predicts would look brilliant in training and fail in use. The direct test: change byte $j$,
# keep the random numbers of the draw, and compare. All states and boundaries before position $j$ must stay the same to the last
# bit.
#
# Predict: the cell changes byte 12, where BOS is byte 0. Entry $i$ of the loss belongs to the prediction of byte $i + 1$. Which
# entry is the first to change?

# %% tags=["prediction"]
guess = None  # an entry of the loss

# %% jupyter={"outputs_hidden": true} tags=["hide-output"]
settings = with_settings(rltok.preset("tiny"), {"train.seed": 1})
model = new_model(settings, torch.device("cpu")).eval()
words = torch.from_numpy(vocab.encode("A model of twenty-four b"))
ids = torch.cat([torch.tensor([vocab.BOS]), words])[None]
changed = ids.clone()
changed[0, 12] = ord("X")
uniforms = row_uniforms(seed=0, step=0, rows=[0], length=24)
with torch.no_grad():
    one = model(ids, uniforms=uniforms)
    other = model(changed, uniforms=uniforms)
    states = [model.encode(rows[:, :-1]) for rows in (ids, changed)]
assert torch.equal(states[0][:, :12], states[1][:, :12])
assert torch.equal(one.boundaries[:, :12], other.boundaries[:, :12])


def first_difference(x: torch.Tensor, y: torch.Tensor) -> int:
    """First position at which two rows differ in any bit."""
    return int((x != y)[0].nonzero()[0])


entry = first_difference(one.nll, other.nll)
print("first loss entry that differs:", entry)
print(judge(guess, entry))

# %% [markdown]
# Entry 11 changes because its *target* is byte 12. The prediction itself, a distribution over all bytes, must stay the same
# there:

# %%
with torch.no_grad():
    here = model.log_probs(ids, uniforms=uniforms)
    there = model.log_probs(changed, uniforms=uniforms)
same = [bool(torch.equal(here[0, i], there[0, i])) for i in range(24)]
print("equal to the last bit: predictions at positions 0 to", end=" ")
print(same.index(False) - 1)
assert same[:12] == [True] * 12 and not same[12]

# %% [markdown]
# ## The boundary policy, in brief
#
# How probable is a boundary? The policy computes its logit, which a sigmoid turns into the probability. It is linear in the byte
# state, and the weights depend on the last $w$ decisions, the *lags*, so that a policy can also learn rhythms such as "every
# fourth byte". [Chapter 04](04_the_boundary_policy.ipynb) is about it; here are its equations and one evaluation by hand.
#
# $$l^{raw}_i = W_0 X_i + \sum_{j=1}^{w} a_{i-j} W_j X_i \tag{21}$$
# $$l^{scaled}_i = l^{raw}_i / D + \sigma^{-1}(\bar\pi_{target}) \tag{22}$$
#
# Here $j$ counts lags, and each $W_j$ is a vector of weights, so $W_j X_i$ is a number. $\bar\pi_{target}$ is the target rate,
# and $\sigma^{-1}(p) = \log(p / (1 - p))$ the inverse of the sigmoid. A large divisor $D$ makes the first term small, so that
# every probability starts near the target rate. The example has one lag and $D = 4$.

# %%
# (W_0 X_i, W_1 X_i) at positions 0, 1 and 2
terms = torch.tensor([[[0.0, 2.0], [1.0, 2.0], [1.0, 2.0]]])
drawn = torch.tensor([[True, False, True]])  # a_0, a_1, a_2
bias = float(np.log(0.2 / 0.8))
by_hand = [(0 + 0) / 4 + bias, (1 + 1 * 2) / 4 + bias, (1 + 0 * 2) / 4 + bias]
logits = boundary_logits(terms, drawn, bias=bias, scale=4.0, softcap=None)
assert np.allclose(logits[0].numpy(), by_hand)
probabilities = [1 / (1 + float(np.exp(-value))) for value in by_hand]
print("logits:       ", [round(value, 3) for value in by_hand])
print("probabilities:", [round(value, 3) for value in probabilities])

# %% [markdown]
# ## What it costs
#
# The rate decides the cost, because the large middle part runs once for each token. Training takes about 6 floating-point
# operations whenever a weight of a matrix is used: a multiplication and an addition forward, and twice as many backward. Looking
# up an embedding takes none, and attention scores are left out, as in the paper. The vertical line is the target rate.

# %% mystnb={"figure": {"caption": "Training cost of the paper's 147M model against the rate of boundaries, attention left out.", "name": "fig-cost"}, "image": {"alt": "A straight line rising from the cost of the byte level alone at rate zero to several times that at rate one."}}
big = rltok.preset("147m").model
rates = np.linspace(0.0, 1.0, 11)
figure, axes = plt.subplots()
axes.plot(rates, [flops_per_byte(big, rate) / 1e6 for rate in rates])
axes.axvline(big.rule.target_rate, color="k", linewidth=0.8)
axes.set(
    xlabel="boundaries per byte",
    ylabel="training cost (MFLOP per byte)",
    ylim=(0, None),
)
plots.show(figure)

# %%
counts = parameter_counts(big)
at_target = flops_per_byte(big, big.rule.target_rate)
for name, count in counts.items():
    print(f"{name:13s} {count / 1e6:8.3f} million weights")
share = at_target / flops_per_byte(big, 1.0)
print(f"cost at the target rate: {at_target / 1e6:.1f} MFLOP per byte,")
print(f"{share:.0%} of the cost with a token for every byte")
print(f"share of the policy: {6 * counts['policy'] / at_target:.3%}")
print(f"share of the early head: {6 * counts['early_head'] / at_target:.2%}")

# %% [markdown]
# The paper's goal is less than a tenth of a percent of extra computation over given boundaries. The policy stays below it. The
# early head, which only serves to compute rewards, does not.
#
# ## What we saw
#
# * Downsampling selects states, upsampling hands out the latest token; both are a few lines, and the package gives the same
#   numbers.
# * A boundary at position $i$ is drawn from bytes up to $i$ and acts on the prediction of the next byte.
# * Changing a byte changes no state, no decision and no prediction before it, to the last bit. One row proves little: the tests
#   of the package repeat this for every rule, rows of different lengths and many draws.
# * The cost of the token level is proportional to the rate, so the rate has to be held while boundaries are learned.
#
# [Chapter 02](02_stochastic_computation_graph.ipynb) shows how a network can learn from decisions that have no gradient.
#
# ## Exercises
#
# **1. Another boundary string** (easy, 5 minutes). For the boundaries 10010001, write down $c(j)$ for every position, then
# check.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
print("c:", np.cumsum([1, 0, 0, 1, 0, 0, 0, 1]).tolist())

# %% [markdown]
# **2. Break causality on purpose** (medium, 10 minutes). Suppose upsampling handed byte $j$ the first token that ends *after*
# $j$ instead of the latest one (where no token follows, the last one). Which predictions would see bytes they must not see?
# Build it with numpy for the example and say for each position how far ahead it looks.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
ends = np.flatnonzero(a)
# where there is no next token: the last one, at or before j
ahead = [int(ends[min(c[j], len(ends) - 1)]) - j for j in range(8)]
print("bytes ahead that the token has seen:", ahead)
seeing = [j for j in range(8) if ahead[j] >= 1]
print("positions that would see the byte they predict:", seeing)

# %% [markdown]
# **3. The forced boundary** (easy, 5 minutes). A model takes given boundaries, too: `model(ids, boundaries=string)`, with a
# Boolean tensor of shape [1, 24] here. Give it a row without a boundary at position 0 and read the error.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
try:
    model(ids, boundaries=torch.zeros(1, 24, dtype=torch.bool))
except ValueError as error:
    print(textwrap.fill(str(error), 76))
