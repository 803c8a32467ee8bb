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
# # 05 Straight-through
#
# **In short.** The usual way around a drawn decision is to treat it, in the backward pass, as if it were its probability.
# This gives a gradient with little noise, but of something other than the expected loss. On networks small enough to
# add up every boundary string, the direction of its average had, on the whole, little to do with that of the exact
# gradient, and more draws do not help. REINFORCE is noisier and right on average. Chapters 02 to 04 built the paper's
# method; this chapter examines that of its rivals, dynamic pooling and H-Net, and [chapter 05b](05b_every_rule.ipynb)
# lets all of them cut the same text.
#
# **After this chapter you can** say when a straight-through gradient is the gradient of a function and when it is not,
# and measure its bias and its spread against exact numbers.
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
import itertools

import matplotlib.pyplot as plt
import numpy as np
import torch

import rltok
from rltok import vocab
from rltok.config import with_settings
from rltok.data import load_corpus
from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.losses import next_byte_nll
from rltok.rng import row_uniforms
from rltok.rules import Boundaries
from rltok.rules.dynamic_pooling import relaxed_bernoulli, straight_through
from rltok.runs.models import new_model
from rltok.show import plots
from rltok.show.notebook import judge
from rltok.variance import exact

plots.use_style()
# rounding errors of about 1e-16, so that equal numbers come out equal
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## Forward hard, backward soft
#
# Chapters 02 and 03 took the drawn decision as it is: loss times score, and then much work to make the estimate less
# noisy. There is a simpler way: *forward*, take the hard decision $a$, 0 or 1; *backward*, pretend that it had been its
# probability $p$, which has a derivative. This is the *straight-through estimator* {cite}`bengio2013`. In code it is
# one line: a number whose value is $a$ and whose gradient is that of $p$.

# %%
t = 0.45  # the loss is (a - t)^2
logit = torch.tensor([[0.4]], requires_grad=True)
p = torch.sigmoid(logit)
hard = torch.tensor([[0.3]]) < p  # drawn: a boundary, because 0.3 < p
a = hard.double() + (p - p.detach())  # the line
assert torch.equal(a, straight_through(hard, p))  # the package's function
((a - t) ** 2).sum().backward()
slope_of_sigmoid = p.item() * (1 - p.item())
by_hand = 2 * (1 - t) * slope_of_sigmoid  # slope of the loss at a = 1
assert abs(logit.grad.item() - by_hand) < 1e-15
print(f"p = {p.item():.3f}, a = {a.item():.0f}, slope {by_hand:+.4f}")

# %% [markdown]
# No score, and little noise. What is wrong with it?
#
# ### One decision
#
# Take the loss $f(a) = (a - t)^2$ with $t$ a little below one half {cite}`tucker2017`. Without a boundary it is $t^2$,
# with one it is $(1 - t)^2$, which is more, so the better choice is no boundary. The expected loss is a straight line
# in $p$,
#
# $$\mathbb{E} f = p\,(1 - t)^2 + (1 - p)\,t^2 = t^2 + p\,(1 - 2t),$$
#
# and its slope says everywhere: smaller $p$. The straight-through slope for $p$ is $f'(a) = 2 (a - t)$ at the $a$ that
# was drawn. Its average over draws is
#
# $$p \cdot 2(1 - t) + (1 - p) \cdot 2(0 - t) = 2\,(p - t).$$
#
# Now descend along each of these two slopes, from $p = 0.8$, in small steps of the logit. Predict: at which $p$ does
# the descent along the straight-through slope end, with $t = 0.45$?

# %% tags=["prediction"]
guess = None  # a value of p


# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
def exact_slope(p: float) -> float:
    """Slope of the expected loss with respect to p."""
    return (1 - t) ** 2 - t**2


def straight_slope(p: float) -> float:
    """Average over both outcomes of the straight-through slope."""
    return p * 2 * (1 - t) + (1 - p) * 2 * (0 - t)


def descend(slope, p: float, steps: int = 400, rate: float = 5.0):
    """Values of p on the way down; dp/dl = p (1 - p)."""
    logit, path = np.log(p / (1 - p)), [p]
    for _ in range(steps):
        logit -= rate * slope(path[-1]) * path[-1] * (1 - path[-1])
        path.append(1 / (1 + np.exp(-logit)))
    return path


paths = {
    "exact": descend(exact_slope, 0.8),
    "straight-through": descend(straight_slope, 0.8),
}
print(f"lowest possible loss {t**2:.4f}")
for name, path in paths.items():
    loss = t**2 + path[-1] * (1 - 2 * t)
    print(f"{name:16s} ends at p = {path[-1]:.3f}, loss {loss:.4f}")
print(judge(guess, round(paths["straight-through"][-1], 3)))
assert abs(paths["straight-through"][-1] - t) < 1e-3

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "Left: the expected loss of the single decision is a straight line; dots mark where the two descents end. Right: the probability of a boundary on the way there.", "name": "fig-one-decision"}, "image": {"alt": "Left: a line that rises with p, with one dot at its left end and one near the middle. Right: two falling curves; the exact one goes on towards 0, the straight-through one levels off at 0.45."}} tags=["hide-input"]
grid = np.linspace(0, 1, 21)
figure, (left, right) = plt.subplots(1, 2)
left.plot(grid, t**2 + grid * (1 - 2 * t), color="k", linewidth=0.8)
for number, (name, path) in enumerate(paths.items()):
    loss = t**2 + path[-1] * (1 - 2 * t)
    left.plot([path[-1]], [loss], "o", color=plots.PALETTE[number])
    steps = range(0, len(path), 4)
    right.plot(steps, path[::4], color=plots.PALETTE[number], label=name)
left.set(xlabel="probability of a boundary, p", ylabel="expected loss")
right.set(xlabel="step", ylabel="p", ylim=(0, 1))
right.legend()
plots.show(figure)

# %% [markdown]
# Straight-through stops at $p = t$. If the *probability itself* stood in the place of the decision, the loss would be
# zero there. But it never does: what is drawn is 0 or 1. The estimator solves the problem that it pretends to have.
#
# ### Two decisions
#
# Perhaps the mean straight-through gradient is at least the gradient of *some* other function? Take two independent
# decisions with probabilities $p_1$ and $p_2$, and the loss $f(a) = a_1^2\, a_2$. The function below adds up all four
# strings, as in chapter 02, and returns two gradients with respect to the probabilities: that of the expected loss, and
# the mean of the straight-through gradient.


# %%
def exact_and_straight(f, probabilities: list[float]):
    """Gradient of the expected loss, and mean straight-through gradient."""
    p = torch.tensor(probabilities, requires_grad=True)
    expected, straight = 0.0, torch.zeros(len(p))
    for string in itertools.product([0.0, 1.0], repeat=len(p)):
        a = torch.tensor(string, requires_grad=True)
        weight = torch.where(a.detach() == 1, p, 1 - p).prod()
        (slope,) = torch.autograd.grad(f(a), a)  # handed on to p
        expected = expected + weight * f(a).detach()
        straight = straight + weight.detach() * slope
    return torch.autograd.grad(expected, p)[0], straight


def rounded(vector: torch.Tensor) -> list[float]:
    """Two digits."""
    return [round(value, 2) for value in vector.tolist()]


def squared(a: torch.Tensor) -> torch.Tensor:
    """a_1^2 a_2."""
    return a[0] ** 2 * a[1]


here = [0.3, 0.6]
both = exact_and_straight(squared, here)
print(f"at p = {here}: exact {rounded(both[0])},", end=" ")
print(f"straight-through {rounded(both[1])}")

# %% [markdown]
# By hand: $\mathbb{E} f = p_1 p_2$, with the gradient $(p_2,\, p_1)$. The straight-through gradient of one draw is $(2
# a_1 a_2,\; a_1^2)$, and its mean is $(2 p_1 p_2,\; p_1)$. Is that the gradient of some function? There is a test. Walk
# once around a rectangle and add up slope times step. For the gradient of a function the sum is the height at the end
# minus the height at the start: 0, since both are the same place.
#
# Predict: what is the sum of $(2 p_1 p_2,\; p_1)$ around the rectangle $0 \le p_1 \le 1/2$, $0 \le p_2 \le 1$? Walk
# along the bottom to the right, up, back along the top, and down; on each side only one of the two slopes counts.

# %% tags=["prediction"]
guess = None  # a number

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
corners = [(0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0), (0.0, 0.0)]
sums = np.zeros(2)
for start, stop in itertools.pairwise(np.array(corners)):
    step = (stop - start) / 50
    for middle in np.arange(50) + 0.5:
        place = (start + middle * step).tolist()
        both = exact_and_straight(squared, place)
        sums += [float(field @ torch.tensor(step)) for field in both]
print(f"exact {abs(sums[0]):.3f}, straight-through {sums[1]:.3f}")
print(judge(guess, round(sums[1], 3)))
assert abs(sums[0]) < 1e-12 and abs(sums[1] - 1 / 4) < 1e-12

# %% [markdown]
# It is not zero, although the walk ends where it began. (In logits the sum is the same, since each $p_i$ is a function
# of its own logit.) So the mean straight-through gradient is the gradient of *no* function. Descent along it need not
# lower anything, and the usual arguments for convergence do not apply. It may work well all the same; that is a matter
# of measurement.
#
# ### Where it is exact
#
# As functions of decisions, $a_1^2 a_2$ and $a_1 a_2$ are *the same*, since $0^2 = 0$ and $1^2 = 1$. The expected loss
# cannot tell them apart. Straight-through can: it asks how the loss would change *between* 0 and 1, where no decision
# ever is.

# %%
plain = exact_and_straight(lambda a: a[0] * a[1], here)
print(
    "straight-through, a1^2 a2:",
    rounded(exact_and_straight(squared, here)[1]),
)
print("straight-through, a1 a2:  ", rounded(plain[1]))
print("exact, both:              ", rounded(plain[0]))

# %% [markdown]
# For $a_1 a_2$ straight-through is exact. In general it is exact, for independent decisions, when the loss is
# *multilinear*: linear in each $a_i$ while the others stay. Then the slope for $a_i$ is the difference that flipping
# $a_i$ makes. Any table of losses can be written as one multilinear formula. But a network does not compute that
# formula; it computes its own. The folded cell checks the claim on random multilinear losses.

# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
generator = torch.Generator().manual_seed(0)
subsets = [
    which
    for size in range(4)
    for which in itertools.combinations(range(3), size)
]
for _ in range(5):
    weights = torch.randn(len(subsets), generator=generator)
    p = torch.rand(3, generator=generator).tolist()

    def multilinear(a, weights=weights):
        """A weight for each product of different decisions."""
        return sum(
            w * torch.stack([a[i] for i in s] + [torch.ones(())]).prod()
            for w, s in zip(weights, subsets)
        )

    one, other = exact_and_straight(multilinear, p)
    assert torch.allclose(one, other, rtol=0, atol=1e-12)
print(f"{len(subsets)} products of 3 decisions, 5 random losses:", end=" ")
print("equal to 12 decimals")

# %% [markdown]
# ## The same on a network
#
# Now a network that is trained this way: *dynamic pooling* {cite}`nawrot2023`. A few layers, the *boundary predictor*,
# give each byte a logit $l$. Then a *soft gate* is drawn, a number between 0 and 1, from a sigmoid with noise inside
# and a temperature $\tau$:
#
# $$s = \sigma\Big(\frac{l + \log(1 - u) - \log u}{\tau}\Big), \qquad u \text{ uniform between 0 and 1.}$$
#
# (This is a *relaxed Bernoulli* variable, or Gumbel-sigmoid {cite}`jang2017,maddison2017`.) There is a boundary if $s >
# 1/2$; backward, $s$ takes its place. Now $s > 1/2$ means that the numerator is positive, which is $u < \sigma(l)$. So
# each boundary is a Bernoulli decision with probability $p = \sigma(l)$, independent of the others once the bytes are
# given. The probability of a string is then a product, and the exact answer is within reach. We take the smallest such
# network and the row of chapter 02.

# %%
settings = {
    "train.seed": 1,
    "model.embedding_dim": 16,
    "model.num_heads": 2,
    "model.mid_layers": 1,
}


def pooling(seed: int) -> rltok.AutoregressiveUNet:
    """A small fresh model with dynamic pooling."""
    preset = rltok.preset("tiny_dynamic_pooling")
    config = with_settings(preset, settings | {"train.seed": seed})
    return new_model(config, torch.device("cpu"))


def row(words: str) -> torch.Tensor:
    """BOS and the bytes of a text, as ids [1, N + 1]."""
    encoded = torch.from_numpy(vocab.encode(words))
    return torch.cat([torch.tensor([vocab.BOS]), encoded])[None]


model = pooling(1)
rule, tau = model.rule, model.rule.temperature
ids = row("to be or")
N, draws = ids.shape[1] - 1, 2048
logits = rule.logits(model.encode(ids[:, :-1]))  # [1, N]
p = torch.sigmoid(logits).detach()
uniforms = row_uniforms(seed=0, step=0, rows=range(draws), length=N).double()
_, gates = relaxed_bernoulli(logits.detach(), uniforms, tau)
assert torch.equal(gates > 0.5, uniforms < p)
shares = (gates > 0.5).double().mean(dim=0)
off = (shares - p[0]).abs() / (p[0] * (1 - p[0]) / draws).sqrt()
print("probabilities:      ", rounded(p[0, 1:]))
print(f"share in {draws} draws:", rounded(shares[1:]))
print(f"largest distance: {off[1:].max():.1f} standard errors")

# %% [markdown]
# ### Exact loss, exact gradient
#
# Position 0 is always forced, so there are 128 strings, each with its loss and its probability. (In the code,
# `Boundaries` holds the hard decisions and, as `soft`, the gates, which matter for the gradient only.)

# %%
strings = exact.enumerate_boundaries(N)


def losses_at(ids: torch.Tensor, decided: Boundaries) -> torch.Tensor:
    """Loss of one row at many strings, nats per position [many, N]."""
    many = len(decided.boundaries)
    states = model.encode(ids[:, :-1]).expand(many, -1, -1)
    predicted = model.output_logits(model.after_boundaries(states, decided))
    return next_byte_nll(predicted, ids[:, 1:].expand(many, -1))


def probabilities(logits: torch.Tensor) -> torch.Tensor:
    """Of every string: a product over positions 1 to N - 1."""
    signed = torch.where(strings, logits, -logits)[:, 1:]
    return torch.nn.functional.logsigmoid(signed).sum(dim=1).exp()


def expected_loss() -> torch.Tensor:
    """Sum of probability times loss, nats per byte; nothing pretended."""
    pi = probabilities(rule.logits(model.encode(ids[:, :-1])))
    given = Boundaries(strings, soft=strings.double())
    return (pi * losses_at(ids, given).mean(dim=1)).sum()


with torch.no_grad():
    drawn = losses_at(ids, Boundaries((gates > 0.5) | strings[0], soft=gates))
    mean = drawn.mean().item()
    error = drawn.mean(dim=1).std().item() / draws**0.5
    value = expected_loss().item()
print(f"expected loss {value:.4f};", end=" ")
print(f"mean of {draws} draws {mean:.4f} ± {error:.4f}")
assert abs(mean - value) < 4 * error

# %% [markdown]
# PyTorch differentiates the whole sum. The folded cell checks the result against finite differences along random
# directions in *all* weights. From then on we look at the boundary predictor's own weights, and at the loss of the text
# alone (the rule's own loss, for the rate, is left out). This loss depends on those weights through the $N$ logits
# only. So it is enough to know the slope for each logit; one fixed matrix, the Jacobian of the logits, turns these
# slopes into the gradient.

# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
everything = list(model.parameters())
whole = torch.autograd.grad(
    expected_loss(), everything, allow_unused=True, materialize_grads=True
)


@torch.no_grad()
def expected_at(direction: list[torch.Tensor], step: float) -> float:
    """Expected loss a step away; the weights are put back."""
    kept = [w.clone() for w in everything]
    for w, d in zip(everything, direction):
        w.add_(d, alpha=step)
    value = expected_loss().item()
    for w, before in zip(everything, kept):
        w.copy_(before)
    return value


generator = torch.Generator().manual_seed(0)
for _ in range(5):
    direction = [
        torch.randn(w.shape, generator=generator) for w in everything
    ]
    up, down = expected_at(direction, 1e-5), expected_at(direction, -1e-5)
    slope = sum((g * d).sum() for g, d in zip(whole, direction)).item()
    assert abs((up - down) / 2e-5 - slope) < 1e-6 * abs(slope)
print(
    f"5 directions in {sum(w.numel() for w in everything)} weights:", end=" "
)
print("slopes agree to 6 digits")

own = [
    name
    for name, _ in rule.named_parameters()
    if name.startswith(("norm.", "hidden.", "gate."))
]
predictor = [rule.get_parameter(name) for name in own]


def pull(logits: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
    """From slopes for the logits [1, N] to one gradient of all weights."""
    grads = torch.autograd.grad(logits, predictor, slopes, retain_graph=True)
    return torch.cat([g.flatten() for g in grads])


logits = rule.logits(model.encode(ids[:, :-1]))
jacobian = torch.stack([pull(logits, unit[None]) for unit in torch.eye(N)])
with torch.no_grad():
    given = Boundaries(strings, soft=strings.double())
    f = losses_at(ids, given).mean(dim=1)
(exact_slopes,) = torch.autograd.grad(
    (probabilities(logits) * f).sum(), logits, retain_graph=True
)
truth = exact_slopes[0] @ jacobian
by_name = dict(zip((name for name, _ in model.named_parameters()), whole))
same = torch.cat([by_name[f"rule.{name}"].flatten() for name in own])
assert torch.allclose(truth, same, rtol=0, atol=1e-12)
print(f"exact gradient of the predictor's {len(truth)} weights:", end=" ")
print(f"length {truth.norm().item():.4f}")

# %% [markdown]
# ### The straight-through gradient
#
# How does a gate act on the loss? The bytes after one boundary, up to and including the byte of the next boundary, form
# a token, whose state is the mean of theirs. In the backward pass the weight of a byte in that mean depends on the gates
# of the bytes before it in its token, so a gate reaches only the weights of the bytes *after* it. Bytes after the last
# boundary belong to no token. Here is one draw:

# %%
k = 1  # one of the draws, with boundaries and gaps
one = (gates[k : k + 1] > 0.5) | strings[:1]
shown = ["BOS" if i == 0 else repr(chr(ids[0, i])) for i in range(N)]
print("position" + "".join(f"{i:>8d}" for i in range(N)))
print("byte    " + "".join(f"{byte:>8s}" for byte in shown))
print("boundary" + "".join(f"{int(bit):>8d}" for bit in one[0]))

# %% [markdown]
# Predict: at which positions does the straight-through gradient of this draw have a slope for the logit that is not zero?

# %% tags=["prediction"]
guess = None  # a list of positions


# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
def straight_slopes(uniforms: torch.Tensor):
    """For each draw: slopes for the logits, boundaries, losses."""
    leaf = logits.detach().expand(len(uniforms), -1).clone()
    leaf.requires_grad_()
    soft = relaxed_bernoulli(leaf, uniforms, tau)[1]
    soft = torch.where(strings[:1], 1.0, soft)  # strings[0]: BOS alone
    nll = losses_at(ids, Boundaries(soft > 0.5, soft=soft))
    (slopes,) = torch.autograd.grad(nll.mean(dim=1).sum(), leaf)
    return slopes, soft > 0.5, nll.detach()


slopes, boundaries, nll = straight_slopes(uniforms)
out = model(ids, uniforms=uniforms[k : k + 1])  # as training does it
grads = torch.autograd.grad(out.nll.mean(), predictor)
one_draw = torch.cat([g.flatten() for g in grads])
assert torch.allclose(slopes[k] @ jacobian, one_draw, rtol=0, atol=1e-12)
assert torch.equal(boundaries[k : k + 1], one)
moved = slopes[k].abs() > 1e-15
shown_slopes = torch.where(moved, slopes[k], 0.0).tolist()
print("slope   " + "".join(f"{value:>8.4f}" for value in shown_slopes))
print(judge(guess, moved.nonzero().flatten().tolist()))
assert slopes[boundaries].abs().max() < 1e-15
assert slopes[:, -1].abs().max() == 0

# %% [markdown]
# A boundary that was drawn ends its token, so no later byte of the token is left: its slope is 0. Bytes after the last
# boundary have slope 0, too. So the loss never pushes at a boundary that was drawn. Where none was drawn, the gate
# changes only the token that ends *later*, so its slope says nothing about the byte predicted right after it.
#
# That was one draw. Now 2048, position by position, beside the exact slopes:

# %%
means, errors = slopes.mean(dim=0), slopes.std(dim=0) / draws**0.5
print("byte       exact   straight-through")
for i in range(1, N):
    print(f"{i} {shown[i]}  {exact_slopes[0, i].item():+.5f}", end="   ")
    print(f"{means[i].item():+.5f} ± {errors[i].item():.5f}")
share = (slopes[:, 1:].abs() > 1e-15).double().mean().item()
print(f"share of slopes that are not 0: {share:.2f}")

# %% [markdown]
# The mean can be computed without draws, too. At a given string the slope of the loss for each gate is fixed. What
# remains is the slope of the gate itself, $s (1 - s) / \tau$, averaged over all $u$ that lead to this decision; a fine
# grid of $u$ will do. The folded cell computes the *exact* mean straight-through gradient of any short row.


# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
def slope_of_gate(
    logits: torch.Tensor, low: torch.Tensor, high: torch.Tensor
) -> torch.Tensor:
    """Mean over u between low and high of ds/dl = s (1 - s) / tau."""
    grid = (torch.arange(4000)[:, None] + 0.5) / 4000
    _, s = relaxed_bernoulli(logits, low + grid * (high - low), tau)
    return (s * (1 - s) / tau).mean(dim=0)


def both_gradients(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Exact gradient and exact mean of straight-through, on one row."""
    logits = rule.logits(model.encode(ids[:, :-1]))
    gates = strings.double().requires_grad_()
    f = losses_at(ids, Boundaries(strings, soft=gates)).mean(dim=1)
    (at_strings,) = torch.autograd.grad(f.sum(), gates, retain_graph=True)
    (exactly,) = torch.autograd.grad(
        (probabilities(logits) * f.detach()).sum(), logits, retain_graph=True
    )
    with torch.no_grad():
        p = torch.sigmoid(logits[0])
        yes = slope_of_gate(logits, torch.zeros(N), p)
        no = slope_of_gate(logits, p, torch.ones(N))
        slopes = at_strings * torch.where(strings, yes, no)
        mean = probabilities(logits) @ slopes
        mean[0] = 0  # forced
    return pull(logits, exactly), pull(logits, mean[None])


def cosine(x: torch.Tensor, y: torch.Tensor) -> float:
    """1: the same direction, 0: a right angle, -1: the opposite."""
    return torch.nn.functional.cosine_similarity(x, y, dim=0).item()


straight = slopes @ jacobian  # [draws, weights]
again, straight_mean = both_gradients(ids)
assert torch.allclose(again, truth, rtol=0, atol=1e-12)
spread_of_mean = (straight.var(dim=0).sum() / draws).sqrt()
apart = (straight.mean(dim=0) - straight_mean).norm() / spread_of_mean
assert apart < 4
bias = (straight_mean - truth).norm()
print("mean straight-through gradient against the exact one:")
print(f"  cosine {cosine(straight_mean, truth):.2f}", end=", ")
print(f"length {straight_mean.norm() / truth.norm():.2f}", end=", ")
print(f"bias {bias / truth.norm():.2f} of the exact length")
print(f"  the mean of the draws is {apart:.1f} standard errors away")

# %% [markdown]
# On this row the direction of the mean is roughly right, but it is so short that its bias is nearly as long as the
# exact gradient itself. No number of further draws would remove it.
#
# ### Against REINFORCE
#
# The score-function estimate of chapters 02 and 03 works here as well: the decisions are Bernoulli, so the slope for a
# logit is $-A_i\,(a_i - p_i) / N$, where $A_i$ is the sum of the rewards (15) from position $i$ on. First its
# expectation over all 128 strings, then single draws, the *same* strings that straight-through had.

# %%
with torch.no_grad():
    early_logits = model.early_logits(model.encode(ids[:, :-1]))
    early = next_byte_nll(early_logits, ids[:, 1:])


def score_slopes(boundaries: torch.Tensor, nll: torch.Tensor) -> torch.Tensor:
    """REINFORCE with causal credit and early-exit rewards."""
    advantages = (early - nll).flip(1).cumsum(dim=1).flip(1)
    slopes = -advantages * (boundaries.double() - p) / N
    slopes[:, 0] = 0  # forced
    return slopes


with torch.no_grad():
    given = Boundaries(strings, soft=strings.double())
    at_strings = score_slopes(strings, losses_at(ids, given))
    expectation = probabilities(logits) @ at_strings @ jacobian
assert torch.allclose(expectation, truth, rtol=0, atol=1e-12)
print("REINFORCE's expectation is the exact gradient, to 12 decimals\n")
scored = score_slopes(boundaries, nll) @ jacobian
estimates = {
    "straight-through": (straight, straight_mean),
    "REINFORCE": (scored, truth),
}
variances = {
    name: samples.var(dim=0).sum().item()
    for name, (samples, _) in estimates.items()
}
print("in units of the exact length:  bias  spread of one draw")
for name, (_, mean) in estimates.items():
    off = (mean - truth).norm() / truth.norm()
    spread = variances[name] ** 0.5 / truth.norm()
    print(f"{name:29s} {off:5.2f}  {spread:18.2f}")

# %% [markdown]
# Straight-through has the smaller spread, in part because its gradient is shorter. Now average $n$ draws. The mean
# squared distance from the exact gradient is then $\text{bias}^2 + \text{spread}^2 / n$. Predict from the table: from
# about how many draws on is REINFORCE nearer?

# %% tags=["prediction"]
guess = None  # a number of draws

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
more = variances["REINFORCE"] - variances["straight-through"]
print(judge(guess, round(more / bias.item() ** 2)))

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "Distance (root mean square) of the mean of n draws from the exact gradient of the predictor's weights, in units of its length; one row, one fresh model. Lines: from bias and spread. Dots: means of groups of the 2048 draws.", "name": "fig-draws"}, "image": {"alt": "Two curves over the number of draws on logarithmic axes. REINFORCE falls steadily as one over the square root. Straight-through starts lower and is flat from a few draws on, just below the length of the gradient; they cross at a handful of draws."}} tags=["hide-input"]
many = np.geomspace(1, 2048, 23)
figure, axes = plt.subplots()
for number, (name, (samples, mean)) in enumerate(estimates.items()):
    colour, size = plots.PALETTE[number], truth.norm().item()
    distance = (mean - truth).square().sum().item() + variances[name] / many
    axes.plot(many, np.sqrt(distance) / size, color=colour, label=name)
    for n in (1, 4, 16, 64, 256):
        groups = samples.unflatten(0, (-1, n)).mean(dim=1)
        squares = (groups - truth).square().sum(dim=1)
        height = squares.mean().sqrt().item() / size
        axes.plot([n], [height], "o", markersize=4, color=colour)
axes.set(xscale="log", yscale="log")
axes.set(xlabel="draws averaged", ylabel="distance / exact length")
axes.legend()
plots.show(figure)

# %% [markdown]
# Averaging helps REINFORCE and does not help straight-through. (At a distance of 1, an estimate of zero would be as
# good.)
#
# ### More rows, more networks
#
# Is this row an exception, or this network? The next cell takes 24 rows of a text on the same network, and the row
# above on five fresh networks besides the one above. Both gradients are computed without draws.

# %%
prose = FIXED_TEXTS["prose"]
rows = [row(prose[start : start + N]) for start in range(0, 24 * N, N)]
pairs = [both_gradients(each) for each in rows]
cosines = np.array([cosine(*pair) for pair in pairs])
error = cosines.std() / len(rows) ** 0.5
low, high, mean = cosines.min(), cosines.max(), cosines.mean()
print(f"{len(rows)} rows: cosine {low:.2f} to {high:.2f},", end=" ")
print(f"mean {mean:+.2f} ± {error:.2f}, negative on {(cosines < 0).sum()}")
total, straight_total = (sum(each) / len(rows) for each in zip(*pairs))
together = cosine(total, straight_total)
print(f"gradient of all rows together: cosine {together:+.2f},", end=" ")
print(f"length {straight_total.norm() / total.norm():.2f}")

kept = model, rule, predictor
print("six networks, cosine:", end=" ")
for seed in range(1, 7):
    model = pooling(seed)
    rule = model.rule
    predictor = [rule.get_parameter(name) for name in own]
    print(f"{cosine(*both_gradients(ids)):+.2f}", end=" ")
model, rule, predictor = kept

# %% [markdown]
# By row and by network, every angle occurs, from nearly the same direction to nearly the opposite one. The first row on
# the first network was one of the better cases. Exercise 4 asks whether training changes that. This does *not* say that
# dynamic pooling cannot learn: the encoder that its predictor reads learns from the rest of the loss, too, and a loss
# of its own (a *prior* on the number of boundaries in a row) holds the rate. It says that what moves its boundaries is
# not the gradient of the expected loss.
#
# ## H-Net: nothing is drawn
#
# *H-Net* {cite}`hwang2025` compares the states $X$ of neighbouring bytes. Its *router*, two matrices $W_q$ and $W_k$,
# gives a gate that is large where the two states, multiplied by these, point in different directions,
#
# $$s_i = \tfrac12 \big(1 - \cos(W_q X_{i-1},\, W_k X_i)\big), \qquad a_i = 1 \text{ if } s_i > \tfrac12,$$
#
# and nothing is drawn. As $W_q$ or $W_k$ moves, the boundaries stay the same for a while, and then one flips. The
# gradient has two sources. One is a factor on what each byte gets from its token. It is always 1 and pretends, in the
# backward pass, to be the confidence, $s_i$ at a boundary and $1 - s_i$ elsewhere: straight-through. The other is a *smoothing* that mixes each token with the
# tokens before it, weighted by the gates; its gradient is true. `rltok` can leave the smoothing out, so we can look at
# both.
#
# Here is the loss along a line of weights $W_q$: the network's own are at 0, and to the right is what the gradient
# calls downhill. The orange line has the slope that backpropagation gives at 0.

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "Loss of one sentence along a line in the router's weights, through a fresh H-Net at 0. Orange: the slope that backpropagation gives at 0. Left: without smoothing, the loss is a staircase. Right: with smoothing, pieces with a slope, and jumps.", "name": "fig-router"}, "image": {"alt": "Two panels. Left: flat steps of different heights, and a falling orange line that follows none of them. Right: short sloping pieces with jumps between them; the orange line has nearly the slope of the piece in the middle."}} tags=["hide-input"]
sentence = row(
    "Nobody on the quay seemed to mind: two children counted gulls."
)


def router(seed: int, smooth: str) -> rltok.AutoregressiveUNet:
    """A small fresh H-Net model; smooth is "ema" or "none"."""
    wanted = {"train.seed": seed, "model.rule.smooth": smooth}
    config = with_settings(rltok.preset("tiny_hnet_port"), settings | wanted)
    return new_model(config, torch.device("cpu"))


@torch.no_grad()
def loss_at(net: rltok.AutoregressiveUNet, weights: torch.Tensor):
    """Loss of the sentence and its boundaries, with other weights W_q."""
    kept = net.rule.query.clone()
    net.rule.query.copy_(weights)
    out = net(sentence)
    net.rule.query.copy_(kept)
    return out.nll.mean().item(), out.boundaries[0]


def router_slope(net: rltok.AutoregressiveUNet) -> torch.Tensor:
    """What backpropagation gives for W_q."""
    return torch.autograd.grad(net(sentence).nll.mean(), net.rule.query)[0]


places = np.linspace(-1, 1, 121)
figure, panels = plt.subplots(1, 2)
for panel, (smooth, title) in zip(
    panels, {"none": "without smoothing", "ema": "with smoothing"}.items()
):
    net = router(2, smooth)
    slope, start = router_slope(net), net.rule.query.detach().clone()
    size = slope.norm().item()
    seen = [loss_at(net, start - place * slope / size) for place in places]
    losses = np.array([loss for loss, _ in seen])
    flips = np.array(
        [
            bool((one[1] != other[1]).any())
            for one, other in itertools.pairwise(seen)
        ]
    )
    still = np.abs(np.diff(losses)[~flips]).max()
    print(f"{title}: {flips.sum()} flips;", end=" ")
    print(f"between flips, steps of at most {still:.4f}")
    assert losses.std() > 0 and (smooth == "ema" or still < 1e-12)
    gaps = np.flatnonzero(flips) + 1
    panel.plot(
        np.insert(places, gaps, np.nan), np.insert(losses, gaps, np.nan)
    )
    panel.plot(
        places,
        losses[60] - size * places,
        color=plots.PALETTE[1],
        linewidth=0.8,
    )
    panel.set(title=title, xlabel="distance along minus the gradient")
panels[0].set_ylabel("nats per byte")
plots.show(figure)

# %% [markdown]
# Without smoothing the true derivative is 0 wherever it exists, and the gradient is pure pretence. Does it at least say
# what happens further away, where boundaries flip? Go a distance of 1 in random directions: how often does the loss
# move the way the slope says? A coin would be right half of the time. There are three
# variants: the pretended factor alone, both, and the smoothing alone.

# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
from rltok.rules import hnet

generator, tries, networks = torch.Generator().manual_seed(0), 16, 10
pretended = hnet.confidence
variants = {
    "pretended factor": ("none", pretended),
    "both": ("ema", pretended),
    "smoothing": ("ema", lambda gates, boundaries: torch.ones_like(gates)),
}
print(f"{networks} networks, {tries} directions each; errors over networks")
for name, (smooth, hnet.confidence) in variants.items():
    predicted, moved = [], []
    for seed in range(1, networks + 1):
        net = router(seed, smooth)
        slope, start = router_slope(net), net.rule.query.detach().clone()
        before, _ = loss_at(net, start)
        for _ in range(tries):
            direction = torch.randn(slope.shape, generator=generator)
            direction /= direction.norm()
            predicted.append((slope * direction).sum().item())
            moved.append(loss_at(net, start + direction)[0] - before)
    same_sign = np.array(predicted) * np.array(moved) > 0
    right = same_sign.reshape(networks, -1).mean(axis=1)
    error = right.std(ddof=1) / networks**0.5
    print(f"{name:16s}: the slope's sign is right in", end=" ")
    print(f"{right.mean():.2f} ± {error:.2f} of cases")
hnet.confidence = pretended

# %% [markdown]
# On these fresh models the pretended factor says next to nothing. The smoothing, whose gradient is true between the
# jumps, does at least as well alone. That is a warning about
# the word "straight-through": methods under this name differ in how much is pretended.
#
# ## What we saw
#
# * A straight-through gradient takes the hard decision forward and pretends backward. Its mean is not the gradient of
#   the expected loss, and need not be the gradient of any function. It is exact where the loss is linear in each
#   decision.
# * On a network that can be enumerated, the mean straight-through gradient of dynamic pooling was short, and its
#   direction had little to do with the exact one. No averaging removes that. REINFORCE on the same draws is right on
#   average and scatters more.
# * H-Net draws nothing, so its loss is a staircase in the router's weights. Its smoothing gives a true gradient between
#   the jumps; on fresh models the pretended part alone said next to nothing.
#
# All of it comes from small fresh models on short rows. Whether a biased direction trains worse is another question:
# [chapter 05b](05b_every_rule.ipynb) asks it of tiny runs, [chapter 07](07_reading_the_results.ipynb) at scale.
#
# ## Exercises
#
# **1. Where does it stop?** (easy, 5 minutes). For one decision and the loss $(a - t)^2$: how far above the lowest
# expected loss does straight-through end? For which $t$ from 0 to one half is this harm largest, and for which is there
# none?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
for target in (0.05, 0.25, 0.45, 0.49, 0.5):
    best = min(target**2, (1 - target) ** 2)
    at_target = target**2 + target * (1 - 2 * target)
    print(f"t = {target:.2f}: straight-through {at_target:.4f},", end=" ")
    print(f"best {best:.4f}, harm {at_target - best:.4f}")
print("the harm is t (1 - 2 t): none at t = 0 and one half,", end=" ")
print("largest at t = 1/4")

# %% [markdown]
# **2. Another loss** (easy, 10 minutes). Is the mean straight-through gradient of $f(a) = a_1^2 + a_2^2$ the gradient
# of a function? If so, of which? Is it the right one?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
for place in ([0.2, 0.7], [0.5, 0.5]):
    both = exact_and_straight(lambda a: a[0] ** 2 + a[1] ** 2, place)
    print(f"{place}: exact {rounded(both[0])},", end=" ")
    print(f"straight-through {rounded(both[1])}")
print("each component depends on its own p alone, so it is a gradient:")
print("of p_1^2 + p_2^2, while the expected loss is p_1 + p_2")

# %% [markdown]
# **3. Another temperature** (medium, 10 minutes). Run `both_gradients` at a temperature of 1 and of a tenth (`tau` is a
# global variable, and the hard decisions do not depend on it). What happens to cosine and length? Then compare, for
# some logits, the mean slope of the gate, `slope_of_gate`, with the slope of the probability, $p (1 - p)$. What can a
# temperature change, and what not?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
kept = tau
for tau in (1.0, 0.5, 0.1):
    exactly, mean = both_gradients(ids)
    print(f"temperature {tau}: cosine {cosine(exactly, mean):+.2f},", end=" ")
    print(f"length {mean.norm() / exactly.norm():.2f} of the exact one")
tau = kept
print(f"at temperature {tau}:  l     p   slope of p   mean slope of s")
for value in (-4.0, -2.0, -1.0, 0.0):
    middle = torch.tensor([[value]])
    rise = slope_of_gate(middle, torch.zeros(1), torch.ones(1)).item()
    at = torch.sigmoid(middle).item()
    print(f"{value:22.0f} {at:5.2f} {at * (1 - at):10.3f} {rise:15.3f}")
print("each slope is multiplied by a positive factor, so a temperature")
print("sets the pace; a slope that is 0 or has the wrong sign stays so")

# %% [markdown]
# **4. After some training** (hard, 20 minutes). Train the dynamic-pooling model for 40 updates on rows of 64 bytes of the
# sample, as `rltok` trains it (loss, a tenth of the early loss, its prior). Does the cosine between the
# straight-through mean and the exact gradient grow, averaged over the rows? Enumerate the 24 rows again.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
shorter = with_settings(rltok.preset("tiny"), {"data.sequence_length": 64})
short = load_corpus("sample", shorter.data, max_bytes=100_000).train
optimizer = torch.optim.Adam(model.parameters(), lr=0.006)
for step in range(40):
    first = 16 * step % (len(short) - 16)
    noise = row_uniforms(seed=0, step=step, rows=range(16), length=64)
    batch = short.ids(range(first, first + 16))
    out = model(batch, uniforms=noise.double())
    optimizer.zero_grad()
    (out.nll.mean() + 0.1 * out.early_nll.mean() + out.aux_loss).backward()
    optimizer.step()
later = [both_gradients(each) for each in rows]
after = np.array([cosine(*pair) for pair in later])
print(f"loss {out.nll.mean().item():.2f} nats per byte,", end=" ")
rate = out.boundaries[:, 1:].double().mean().item()
print(f"{rate:.2f} boundaries per byte")
for name, found in (("before", cosines), ("after", after)):
    error = found.std() / len(rows) ** 0.5
    print(f"mean cosine {name:6s} {found.mean():+.2f} ± {error:.2f}")
total, straight_total = (sum(each) / len(rows) for each in zip(*later))
print(f"rows together: cosine {cosine(total, straight_total):+.2f},", end=" ")
print(f"length {straight_total.norm() / total.norm():.2f} of the exact one")

# %% [markdown]
# ## Where to go next
#
# [Chapter 05b](05b_every_rule.ipynb) lets all rules cut the same text. [Paper against
# code](../book/paper_against_code.md) says what the paper, its authors' code and `rltok` do differently for dynamic
# pooling and H-Net.
