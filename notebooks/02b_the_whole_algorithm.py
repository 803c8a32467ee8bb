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
# # 02b The whole algorithm
#
# **In short.** The method is one page of code: draw boundaries from left to right, reward each decision for the predictions
# after it, and write both terms of the gradient as one loss. The page gives every weight the same gradient as the package does,
# and on a toy text it learns to end its tokens after spaces. Chapter 02 derived the gradient; this chapter trains with it.
#
# **After this chapter you can** write the method down from memory, and say which weights each term of the gradient reaches and
# what the factor $\lambda_\pi$ does to them.
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
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.nn.functional import logsigmoid

import rltok
from rltok import vocab
from rltok.config import with_settings
from rltok.losses import next_byte_nll
from rltok.rng import row_uniforms
from rltok.rules import Boundaries
from rltok.runs.models import new_model
from rltok.show import plots
from rltok.show.notebook import judge
from rltok.step import accumulate_gradient
from rltok.variance import exact

plots.use_style()

# %% [markdown]
# ## The method on one page
#
# The cell takes only the network's layers from the package. Its steps, with the numbers of the paper's equations; those that you
# have not met stand here as code alone, and later chapters write them out:
#
# * **Draw**, (19) to (23): from left to right, a boundary where a random number is below its probability. `terms` holds the
#   products $W_j X_i$ of eq. (21); `cap` bounds the logits smoothly.
# * **Reward**, (15): how much better the model predicts a byte than the early head, (14), does.
# * **Return**, (16): the sum of a decision's own and later rewards, discounted by `gamma` at each step.
# * **Advantage**, (17): the return minus its mean over the rows of the batch. That is nearly a baseline; the row's own
#   return is in the mean.
# * **Surrogates**: (18) is the surrogate loss of chapter 02. The gradient of (24) moves all logits down while the rate is above
#   its target, and up while it is below.
# * **Sum**, (25) to (27): the losses of the model and of the early head, and both surrogates, each with a weight $\lambda$.

# %%
rate, gamma, lags, D, cap = 0.2, 0.9, 3, 1.0, 6.0
weight_early, weight_policy, weight_rate = 0.1, 0.3, 0.3  # lambdas of (27)


def draw(terms, uniforms):
    """Logits and decisions from left to right; terms [B, N, 1 + lags]."""
    bias = np.log(rate / (1 - rate))
    all_logits, a = [], []
    for i in range(terms.shape[1]):
        raw = terms[:, i, 0]
        for j in range(1, min(lags, i) + 1):
            raw = raw + a[i - j] * terms[:, i, j]  # eq. (21)
        logits = cap * torch.tanh((raw / D + bias) / cap)  # (22), (23)
        drawn = (uniforms[:, i] < torch.sigmoid(logits)).to(raw.dtype)
        all_logits.append(logits)
        a.append(drawn if i > 0 else torch.ones_like(drawn))  # (19), (20)
    return torch.stack(all_logits, dim=1), torch.stack(a, dim=1).bool()


def loss_of_update(net, ids, uniforms):
    """Eq. (27), the bits per byte, and the boundaries drawn."""
    X = net.encode(ids[:, :-1])  # byte states, eq. (1)
    logits, a = draw(net.rule.terms(X), uniforms)
    decoded = net.after_boundaries(X, Boundaries(a))  # (3) to (6)
    nll = next_byte_nll(net.output_logits(decoded), ids[:, 1:])
    early = next_byte_nll(net.early_logits(X), ids[:, 1:])  # (14)

    G = (early - nll).detach()  # rewards, eq. (15), ...
    for i in range(G.shape[1] - 2, -1, -1):
        G[:, i] += gamma * G[:, i + 1]  # ... become returns, eq. (16)
    A = G - G.mean(dim=0)  # advantages, eq. (17)

    logits, A = logits[:, 1:], A[:, 1:]  # BOS is forced
    log_pi = logsigmoid(torch.where(a[:, 1:], logits, -logits))
    policy = -(log_pi * A).sum() / nll.numel()  # eq. (18)
    gap = (torch.sigmoid(logits).mean() - rate).detach()
    pressure = logits.mean() * gap  # eq. (24)
    loss = nll.mean() + weight_early * early.mean()  # (25), (26)
    loss = loss + weight_policy * policy + weight_rate * pressure  # (27)
    return loss, nll.mean().item() / np.log(2), a


# %% [markdown]
# To try it, a toy text of 18 words in random order:

# %%
words = "the cat sat on the mat and saw a bird near water while some"
words = f"{words} other animal slept under trees".split()
rng = np.random.default_rng(0)
toy = vocab.encode(" ".join(rng.choice(words, 4000)))
width = 64
toy = torch.from_numpy(toy[: len(toy) // width * width].reshape(-1, width))
toy = torch.cat([torch.full((len(toy), 1), vocab.BOS), toy], dim=1)
print(vocab.decode(toy[0, 1:].numpy()).decode())

# %% [markdown]
# Is it the same as the package? On one batch, both must give every weight the same gradient.

# %%
settings = {
    "train.seed": 1, "model.embedding_dim": 32, "model.num_heads": 2,
    "model.mid_layers": 1, "model.rule.lags": lags,
    "model.rule.target_rate": rate, "model.rule.scale": D,
    "objective.gamma": gamma,
}  # fmt: skip
config = with_settings(rltok.preset("tiny"), settings)
net = new_model(config, torch.device("cpu"))
batch = toy[:16], row_uniforms(0, 1, range(16), width)

loss_of_update(net, *batch)[0].backward()
by_hand = {name: w.grad.clone() for name, w in net.named_parameters()}
net.zero_grad()
accumulate_gradient(net, batch, config, share=1.0)
for name, weight in net.named_parameters():
    assert torch.allclose(by_hand[name], weight.grad, rtol=1e-3, atol=1e-6)
print(f"the same gradient for all {len(by_hand)} tensors of weights")

# %% [markdown]
# And does it learn? Two hundred updates of Adam; nothing in the loss says what a space is.

# %% tags=["nbval-ignore-output"]
# not compared: the digits of a training run differ between processors
optimizer = torch.optim.Adam(net.parameters(), lr=6e-3)
course = []
for step in range(201):
    ids_now = toy[torch.from_numpy(rng.integers(len(toy), size=16))]
    uniforms = row_uniforms(0, 2 + step, range(16), width)
    loss, bits, a = loss_of_update(net, ids_now, uniforms)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    after_space = a[:, 1:][ids_now[:, 1:-1] == ord(" ")].float().mean()
    course.append((bits, after_space.item(), a.float().mean().item()))
print("                       share with a boundary after")
print("update  bits per byte  spaces  all bytes")
for step in range(0, 201, 50):
    bits, spaces, drawn = course[step]
    print(f"{step:6d} {bits:14.2f} {spaces:7.0%} {drawn:10.0%}")
last = np.mean(course[-50:], axis=0)
assert last[1] > 2 * last[2]  # spaces get more than twice their share

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "Two hundred updates of the cell above on a toy text: the share of spaces, and of all bytes, with a boundary after them.", "name": "fig-whole"}, "image": {"alt": "Two curves over updates. The share of all bytes stays near one fifth. The share of spaces starts there and climbs far above it."}} tags=["hide-input"]
figure, axes = plt.subplots()
axes.plot([point[1] for point in course], label="spaces")
axes.plot([point[2] for point in course], label="all bytes")
axes.set(xlabel="update", ylabel="share with a boundary", ylim=(0, 1))
axes.legend()
plots.show(figure, checksum=False)

# %% [markdown]
# Boundaries move to the spaces while their rate stays. That is the whole method.
#
# ## Weights that both terms share
#
# The exact conditional term (12) and policy term (13), for the model and the text of chapter 02:

# %%
settings = {
    "train.seed": 1, "model.embedding_dim": 16, "model.num_heads": 2,
    "model.mid_layers": 1, "model.rule.lags": 3,
    "model.rule.target_rate": 0.3, "model.rule.scale": 1.0,
}  # fmt: skip
config = with_settings(rltok.preset("tiny"), settings)
model = new_model(config, torch.device("cpu")).double()


def row(words: str) -> torch.Tensor:
    """BOS and the bytes of a text, as ids [1, N + 1]."""
    letters = torch.from_numpy(vocab.encode(words))
    return torch.cat([torch.tensor([vocab.BOS]), letters])[None]


split = exact.exact_gradient(model, row("to be or"))
names = [name for name, _ in model.named_parameters()]
for number, term in ((12, "conditional"), (13, "policy")):
    length = split.flat(term, names).norm().item()
    print(f"length of the {term} term ({number}): {length:.3f}")

# %% [markdown]
# Sort the weights into four groups: encoder, policy, token level and decoder. Predict from the coloured arrows of [chapter 02's
# picture](02_stochastic_computation_graph.ipynb): in how many of the groups are both terms different from zero?

# %% tags=["prediction"]
guess = None  # 0, 1, 2, 3 or 4

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
starts = {
    "encoder": ("embedding.", "down_blocks."),
    "policy": ("rule.",),
    "token level": ("mid_blocks.",),
    "decoder": ("up_blocks.", "output_"),
}
both = 0
print("group        length of (12)  of (13)  share of (13)")
for group, prefixes in starts.items():
    members = [name for name in names if name.startswith(prefixes)]
    first, second = (
        split.flat("conditional", members).norm().item(),
        split.flat("policy", members).norm().item(),
    )
    both += first > 0 and second > 0
    share = second / (first + second)
    print(f"{group:11s} {first:15.3f} {second:8.3f} {share:14.2f}")
print(judge(guess, both))

# %% [markdown]
# Only the encoder has both: its states serve the next prediction and the policy.
#
# This matters for a setting of the paper: it multiplies the policy's surrogate by $\lambda_\pi = 0.01$. The gradient of the
# policy's own weights only becomes shorter. That of the encoder also changes its *direction*, because only one of its two terms
# becomes shorter; it is no longer the exact gradient, eq. (11). How far off is it?

# %%
members = [name for name in names if name.startswith(starts["encoder"])]
first, second = (
    split.flat("conditional", members),
    split.flat("policy", members),
)
print("lambda_pi  cosine with exact  length missing / exact length")
for weight in (1.0, 0.1, 0.01):
    mixed, truth = first + weight * second, first + second
    cosine = torch.nn.functional.cosine_similarity(mixed, truth, dim=0).item()
    missing = ((truth - mixed).norm() / truth.norm()).item()
    print(f"{weight:9.2f} {cosine:18.4f} {missing:23.3f}")

# %% [markdown]
# The directions nearly agree, because (12) is much longer than (13) in the encoder of this fresh model. Exercise 2 looks again
# after some training. Whether the change helps or harms has to be measured: less of (13) also means less noise.
#
# ## What we saw
#
# * The whole method is one page: draw, reward, return, advantage, two surrogates.
# * The page and the package give every weight the same gradient.
# * The encoder gets both terms of the gradient, and with $\lambda_\pi = 0.01$ not the gradient of the expected loss.
#
# ## Exercises
#
# **1. Write three of its functions** (medium, 20 minutes). Fill in each body; the cell checks each that no longer returns
# `None`. (a) The log-probability of a string of decisions from its logits, position 0 left out. (b) Discounted returns of one
# row, eq. (16). (c) *Leave one out*: advantages against the mean of the *other* rows.


# %%
def log_probability(logits: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """[B, N] logits and decisions -> [B], nats."""
    return None  # yours


def returns(rewards: torch.Tensor, gamma: float) -> torch.Tensor:
    """[N] rewards -> [N] returns."""
    return None  # yours


def leave_one_out(returns: torch.Tensor) -> torch.Tensor:
    """[B, N] returns -> [B, N] advantages."""
    return None  # yours


def check(log_probability, returns, leave_one_out) -> None:
    """Compare each with a slow computation of another kind."""
    draws = torch.Generator().manual_seed(0)
    logits, r = torch.randn(2, 4, 6, generator=draws).double()
    a = logits > 0.3
    p = 1 / (1 + np.exp(-logits.numpy()))
    each = np.where(a, p, 1 - p)[:, 1:]
    slow = {
        "log-probability": np.log(each.prod(axis=1)),
        "returns": [sum(0.9**k * r[0, i + k] for k in range(6 - i))
                    for i in range(6)],
        "leave one out": [
            [r[b, i] - np.mean([r[o, i] for o in range(4) if o != b])
             for i in range(6)] for b in range(4)],
    }  # fmt: skip
    yours = log_probability(logits, a), returns(r[0], 0.9), leave_one_out(r)
    for (name, wanted), answer in zip(slow.items(), yours, strict=True):
        if answer is None:
            print(f"{name}: not written yet")
            continue
        right = np.allclose(np.asarray(answer), np.asarray(wanted))
        print(f"{name}: {'right' if right else 'not yet right'}")


check(log_probability, returns, leave_one_out)


# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
def solved_returns(rewards: torch.Tensor, gamma: float) -> torch.Tensor:
    """From the end back: the reward, and gamma times the next return."""
    found = rewards.clone()
    for i in range(len(rewards) - 2, -1, -1):
        found[i] += gamma * found[i + 1]
    return found


def solved_leave_one_out(returns: torch.Tensor) -> torch.Tensor:
    """The mean of the others is (sum - own) / (B - 1)."""
    others = len(returns) - 1
    return returns - (returns.sum(dim=0) - returns) / others


def solved_log_probability(
    logits: torch.Tensor, a: torch.Tensor
) -> torch.Tensor:
    """log sigmoid(l) for a boundary, log sigmoid(-l) for none."""
    return logsigmoid(torch.where(a, logits, -logits))[:, 1:].sum(dim=1)


check(solved_log_probability, solved_returns, solved_leave_one_out)

# %% [markdown]
# **2. After some training** (hard, 20 minutes). Train the small model for twenty steps of Adam (learning rate $0.01$) on the
# *exact* expected loss of four rows, `to be or`, `not to b`, `e, that ` and `is the q`. Measure the policy term's share of the
# encoder's gradient, and the cosine at $\lambda_\pi = 0.01$, before, after ten steps and after twenty. Is it enough to measure
# once?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
rows = torch.cat(
    [row(words) for words in ("to be or", "not to b", "e, that ", "is the q")]
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(21):
    if step in (0, 10, 20):
        now = exact.exact_gradient(model, rows)
        first, second = (
            now.flat("conditional", members),
            now.flat("policy", members),
        )
        share = (second.norm() / (first.norm() + second.norm())).item()
        cosine = torch.nn.functional.cosine_similarity(
            first + 0.01 * second, first + second, dim=0
        ).item()
        print(f"after {step:2d} steps: share of (13) {share:.2f},", end=" ")
        print(f"cosine at 0.01 {cosine:.2f}")
    optimizer.zero_grad()
    exact.expected_loss(model, rows).backward()
    optimizer.step()
print("The share goes up and down: measuring once says little. (At 0")
print("steps it is that of four rows, not of the one row in the text.)")

# %% [markdown]
# ## Where to go next
#
# The gradient of a single draw is mostly noise. [Chapter 03](03_variance_ladder.ipynb) climbs the ladder from the plain estimate
# to the paper's, and measures what each rung buys.
