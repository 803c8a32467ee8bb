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
#       '0.01': how near a rate must come to its target to count as held
#       '0.1': percent of computation, the paper's wish
#     download_mb: 0
# ---

# %% [markdown] tags=["header-strip"]
# # 05 Straight-through and friends
#
# **After this chapter you can** say what a straight-through gradient is the gradient of (often: of nothing), measure its bias
# and its spread against exact numbers, tell eleven ways of drawing boundaries apart, show that boundaries of a tokenizer can
# give away bytes to come, and read a comparison of small runs without reading too much into it.
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
import itertools
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import HTML, Markdown

import rltok
from rltok import vocab
from rltok.config import with_settings
from rltok.data import load_corpus
from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.evidence.chapters import ch05_rates, ch05_rules
from rltok.evidence.methods import RULES
from rltok.flops import flops_per_byte, frozen_parameters, parameter_counts
from rltok.losses import next_byte_nll
from rltok.rng import row_uniforms
from rltok.rules import Boundaries, make_rule
from rltok.rules.dynamic_pooling import relaxed_bernoulli, straight_through
from rltok.runs.models import new_model
from rltok.show import plots
from rltok.show.tables import markdown
from rltok.variance import exact

plots.use_style()
torch.set_default_dtype(
    torch.float64
)  # rounding errors of about 1e-16: what should be equal can be asked to be

# %% [markdown]
# ## The other way: pretend
#
# Chapters 02 and 03 went around the drawn decision: loss times score, with much work to make it less noisy. There is another
# way, and a simpler one. *Forward*, take the hard decision $a$, 0 or 1. *Backward*, pretend that it had been its probability
# $p$, which has a derivative. This is the *straight-through estimator* {cite}`bengio2013`, in the variant that keeps the slope of
# the sigmoid. In code it is one line: a number
# that is $a$ and has the gradient of $p$.

# %%
t = 0.45  # of the loss (a - t)^2 below
logit = torch.tensor([[0.4]], requires_grad=True)
p = torch.sigmoid(logit)
hard = torch.tensor([[0.3]]) < p  # drawn: a boundary, because 0.3 < p
a = hard.double() + (p - p.detach())  # the line
((a - t) ** 2).sum().backward()
by_hand = (
    2 * (1 - t) * p.item() * (1 - p.item())
)  # slope of the loss at a = 1, times the slope of the sigmoid
assert abs(logit.grad.item() - by_hand) < 1e-15
assert torch.equal(a, straight_through(hard, p))  # the package's function
print(
    f"p = {p.item():.3f}, a = {a.item():.0f}, straight-through slope with respect to the logit: {logit.grad.item():+.4f}"
)

# %% [markdown]
# No second forward pass, no score, little noise. What is wrong with it?
#
# ### One decision
#
# Take the loss $f(a) = (a - t)^2$ with $t$ a little below one half {cite}`tucker2017`. Without a boundary it costs $t^2$, with
# one $(1 - t)^2$, which is more. So no boundary is the better choice. The expected loss is a straight line,
#
# $$\mathbb{E} f = p\,(1 - t)^2 + (1 - p)\,t^2 = t^2 + p\,(1 - 2t),$$
#
# and its slope says everywhere: smaller $p$. The straight-through slope with respect to $p$ is $f'(a) = 2 (a - t)$, at the $a$
# that was drawn. On average over draws:
#
# $$p \cdot 2(1 - t) + (1 - p) \cdot 2(0 - t) = 2\,(p - t).$$
#
# Now descend with each, from $p = 0.8$, in small steps of the logit. Predict: where does straight-through end?

# %% tags=["prediction"]
guess = 0.0  # a value of p


# %% tags=["measurement"]
def exact_slope(p):
    """Of the expected loss, with respect to p."""
    return (1 - t) ** 2 - t**2


def straight_slope(p):
    """Average over both outcomes of the straight-through slope."""
    return p * 2 * (1 - t) + (1 - p) * 2 * (0 - t)


def descend(
    slope, p: float, steps: int = 400, rate: float = 5.0
) -> list[float]:
    """Chances on the way down; dp/dl = p (1 - p)."""
    logit, path = np.log(p / (1 - p)), [p]
    for _ in range(steps):
        logit -= rate * slope(path[-1]) * path[-1] * (1 - path[-1])
        path.append(1 / (1 + np.exp(-logit)))
    return path


paths = {
    "exact": descend(exact_slope, 0.8),
    "straight-through": descend(straight_slope, 0.8),
}
for name, path in paths.items():
    print(
        f"{name:16s} ends at p = {path[-1]:.3f}, expected loss {t**2 + path[-1] * (1 - 2 * t):.4f}"
    )
assert (
    abs(straight_slope(t)) < 1e-15
    and abs(paths["straight-through"][-1] - t) < 1e-3
)
print(
    f"best possible {t**2:.4f}; the guess was",
    "right" if abs(guess - paths["straight-through"][-1]) < 0.02 else "wrong",
)

# %% mystnb={"figure": {"caption": "Left: the expected loss of the single decision is a straight line; dots mark where the two descents end. Right: the chance of a boundary on the way there.", "name": "fig-one-decision"}, "image": {"alt": "Left: a line that rises with p, with one dot at its left end and one near the middle. Right: two falling curves; the exact one goes on towards 0, the straight-through one levels off at 0.45."}}
grid = np.linspace(0, 1, 21)
figure, (left, right) = plt.subplots(1, 2)
left.plot(grid, t**2 + grid * (1 - 2 * t), color="k", linewidth=0.8)
for number, (name, path) in enumerate(paths.items()):
    left.plot(
        [path[-1]],
        [t**2 + path[-1] * (1 - 2 * t)],
        "o",
        color=plots.PALETTE[number],
    )
    right.plot(path[::4], color=plots.PALETTE[number], label=name)
left.set(xlabel="chance of a boundary, p", ylabel="expected loss")
right.set(xlabel="step / 4", ylabel="p", ylim=(0, 1))
right.legend()
plots.show(figure)

# %% [markdown]
# Straight-through stops at $p = t$, where the *probability itself*, put in the place of the decision, would have no loss. But
# nobody puts it there: what is drawn is 0 or 1. The estimator solves the pretended problem.
#
# ### Two decisions
#
# One might hope that straight-through at least descends on *some* function, if not on the expected loss. Let us look at two
# decisions, independent, with chances $p_1$ and $p_2$, and the loss $f(a) = a_1^2\, a_2$. The function below adds up all four
# strings, as in chapter 02: the exact gradient of the expected loss, and the mean of the straight-through gradient, both with
# respect to the chances.


# %%
def exact_and_straight(
    f, chances: list[float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient of the expected loss and mean straight-through gradient, by enumeration."""
    p = torch.tensor(chances, requires_grad=True)
    expected, straight = 0.0, torch.zeros(len(p))
    for string in itertools.product([0.0, 1.0], repeat=len(p)):
        a = torch.tensor(string, requires_grad=True)
        chance = torch.where(a.detach() == 1, p, 1 - p).prod()
        (slope,) = torch.autograd.grad(
            f(a), a
        )  # what straight-through hands to p
        expected = expected + chance * f(a).detach()
        straight = straight + chance.detach() * slope
    return torch.autograd.grad(expected, p)[0], straight


def squared(a):
    """a_1^2 a_2."""
    return a[0] ** 2 * a[1]


here = [0.3, 0.6]
for name, gradient in zip(
    ("exact", "straight-through"), exact_and_straight(squared, here)
):
    print(
        f"{name:16s} at p = {here}: {[round(value, 2) for value in gradient.tolist()]}"
    )

# %% [markdown]
# By hand: $\mathbb{E} f = p_1 p_2$, with the gradient $(p_2, p_1)$. The straight-through gradient of one draw is
# $(2 a_1 a_2,\; a_1^2)$, and its mean $(2 p_1 p_2,\; p_1)$. Is that the gradient of some other function $F(p_1, p_2)$? If it
# were, then differentiating $F$ first for $p_1$ and then for $p_2$, or the other way round, would give the same.

# %%
h = 1e-5


def mixed(which: int) -> tuple[float, float]:
    """d g_1 / d p_2 and d g_2 / d p_1 of the exact (0) or the straight-through (1) field."""
    p1, p2 = here

    def g(x, y):
        return exact_and_straight(squared, [x, y])[which]

    return (g(p1, p2 + h) - g(p1, p2 - h))[0].item() / (2 * h), (
        g(p1 + h, p2) - g(p1 - h, p2)
    )[1].item() / (2 * h)


for which, name in enumerate(("exact", "straight-through")):
    first, second = mixed(which)
    print(f"{name:16s} d g1/d p2 = {first:.3f}, d g2/d p1 = {second:.3f}")
    assert (abs(first - second) < 1e-9) == (name == "exact")

# %% [markdown]
# They differ. There is a picture for this. Walk once around a rectangle and add up slope times step. On the gradient of a
# function the sum is the height at the end minus the height at the start: 0, since they are the same place. Predict: what do we
# get on the straight-through field, around the rectangle $0 \le p_1 \le 1/2$, $0 \le p_2 \le 1$?

# %% tags=["prediction"]
guess = 0.0

# %% tags=["measurement"]
corners = [(0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0), (0.0, 0.0)]
sums = np.zeros(2)
for start, stop in itertools.pairwise(np.array(corners)):
    for middle in (np.arange(50) + 0.5) / 50:
        fields = exact_and_straight(
            squared, (start + middle * (stop - start)).tolist()
        )
        sums += [
            float(field @ torch.tensor((stop - start) / 50))
            for field in fields
        ]
print(
    f"around the rectangle: exact {abs(sums[0]):.3f}, straight-through {sums[1]:.3f}"
)
assert (
    abs(sums[0]) < 1e-12 and abs(sums[1] - 1 / 4) < 1e-12
)  # the area's integral of 1 - 2 p_1
print("the guess was", "right" if abs(guess - sums[1]) < 1e-3 else "wrong")

# %% [markdown]
# A quarter, for coming back to where one was; the other way round, minus a quarter. (In logits the sum is the same, since each
# $p_i$ is a function of its own logit.) So the mean straight-through field is the gradient of *no* function. Descent on it need
# not go down on anything, and usual arguments for convergence do not apply. It may work well all the same; that is a matter of
# measurement.
#
# ### Where it is exact
#
# Look at the table of losses: $a_1^2 a_2$ and $a_1 a_2$ are *the same function* of decisions, since $0^2 = 0$ and $1^2 = 1$.
# The expected loss cannot tell them apart. Straight-through can: it asks how the loss would change *between* 0 and 1, where no
# decision ever is.

# %%
plain = exact_and_straight(lambda a: a[0] * a[1], here)
corners = list(itertools.product([0.0, 1.0], repeat=2))
assert all(squared(torch.tensor(a)) == a[0] * a[1] for a in corners)
print(
    "straight-through for a1^2 a2:",
    [
        round(value, 2)
        for value in exact_and_straight(squared, here)[1].tolist()
    ],
)
print(
    "straight-through for a1 a2:  ",
    [round(value, 2) for value in plain[1].tolist()],
)
print(
    "exact for both:              ",
    [round(value, 2) for value in plain[0].tolist()],
)

# %% [markdown]
# For $a_1 a_2$ it is exact. In general it is exact, for independent decisions, when the loss is *multilinear*: linear in each
# $a_i$ while the others stay. Then the slope for $a_i$ is the difference that flipping $a_i$ makes, and does not depend on
# $a_i$ itself. Any table of losses has exactly one multilinear formula. But a network does not compute that one, it computes
# its own.

# %%
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
print(
    f"{len(subsets)} products of 3 decisions, 5 random losses: exact and straight-through agree to 12 decimals"
)

# %% [markdown]
# ## The same on a network
#
# Now a network that is trained this way: *dynamic pooling* {cite}`nawrot2023`. A small perceptron gives each byte a logit $l$.
# Then a *soft gate* is drawn, a number between 0 and 1, with noise inside the sigmoid and a temperature $\tau$:
#
# $$s = \sigma\Big(\frac{l + \log(1 - u) - \log u}{\tau}\Big), \qquad u \text{ uniform between 0 and 1.}$$
#
# (It is called a *relaxed Bernoulli* or Gumbel-sigmoid {cite}`jang2017,maddison2017`.) The boundary is there if $s > 1/2$; the
# gradient is handed to $s$. The bytes after one boundary, up to and with the next, form a token, as the mean of their states,
# and the gates act through the weights of these means.
#
# $s > 1/2$ means that what is in the bracket is positive, $\log(u / (1 - u)) < l$, hence $u < \sigma(l)$. So each boundary is a
# Bernoulli decision with $p = \sigma(l)$, independent of the others once the bytes are given. That makes the exact answer easy:
# the chance of a string is a product. We take the smallest such network and the row of chapter 02.

# %%
settings = {
    "train.seed": 1,
    "model.embedding_dim": 16,
    "model.num_heads": 2,
    "model.mid_layers": 1,
}
model = new_model(
    with_settings(rltok.preset("tiny_dynamic_pooling"), settings),
    torch.device("cpu"),
)
rule, tau = model.rule, model.rule.temperature


def row(words: str) -> torch.Tensor:
    """BOS and the bytes of a text, as ids [1, N + 1]."""
    return torch.cat(
        [torch.tensor([vocab.BOS]), torch.from_numpy(vocab.encode(words))]
    )[None]


ids = row("to be or")
N, draws = ids.shape[1] - 1, 2048
logits = rule.logits(model.encode(ids[:, :-1]))  # [1, N]
p = torch.sigmoid(logits).detach()
uniforms = row_uniforms(seed=0, step=0, rows=range(draws), length=N).double()
hard, gates = relaxed_bernoulli(logits.detach(), uniforms, tau)
assert torch.equal(gates > 0.5, uniforms < p) and torch.equal(
    hard, uniforms < p
)
shares = (gates > 0.5).double().mean(dim=0)
off = (shares - p[0]).abs() / (p[0] * (1 - p[0]) / draws).sqrt()
print(
    f"temperature {tau}; sigmoid(l):   ",
    [f"{value:.3f}" for value in p[0, 1:].tolist()],
)
print(
    f"boundaries in {draws} draws:",
    [f"{value:.3f}" for value in shares[1:].tolist()],
)
print(f"largest distance: {off[1:].max():.1f} standard errors")

# %% [markdown]
# ### Exact loss, exact gradient
#
# 128 strings, each with its loss and its chance. As always, position 0 is forced.

# %%
strings = exact.enumerate_boundaries(N)


def losses_at(ids: torch.Tensor, decided: Boundaries) -> torch.Tensor:
    """Loss of one row at many strings, nats per position [many, N]."""
    many = len(decided.boundaries)
    states = model.encode(ids[:, :-1]).expand(many, -1, -1)
    decoded = model.after_boundaries(states, decided)
    return next_byte_nll(
        model.output_logits(decoded), ids[:, 1:].expand(many, -1)
    )


def chances_of(logits: torch.Tensor) -> torch.Tensor:
    """Chance of every string: a product over positions 1 to N - 1."""
    signed = torch.where(strings, logits, -logits)[:, 1:]
    return torch.nn.functional.logsigmoid(signed).sum(dim=1).exp()


def expected_loss() -> torch.Tensor:
    """Sum of chance times loss over all strings, nats per byte; gates held fixed, so that nothing is pretended."""
    chances = chances_of(rule.logits(model.encode(ids[:, :-1])))
    return (
        chances
        * losses_at(ids, Boundaries(strings, soft=strings.double())).mean(
            dim=1
        )
    ).sum()


with torch.no_grad():
    drawn = losses_at(
        ids, Boundaries((gates > 0.5) | strings[0], soft=gates)
    ).mean(dim=1)
    error = drawn.std().item() / draws**0.5
    print(f"chances add up to {chances_of(logits).sum().item():.6f}")
    print(
        f"expected loss {expected_loss().item():.4f}; mean of {draws} draws {drawn.mean().item():.4f} ± {error:.4f}"
    )
    assert abs(drawn.mean() - expected_loss()) < 4 * error

# %% [markdown]
# Its gradient has the two terms of chapter 02, the one through the losses and the one through the chances. PyTorch
# differentiates the whole sum. We check the result by finite differences, along random directions in *all* weights.

# %%
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
    found = expected_loss().item()
    for w, before in zip(everything, kept):
        w.copy_(before)
    return found


generator = torch.Generator().manual_seed(0)
worst = 0.0
for _ in range(5):
    direction = [
        torch.randn(w.shape, generator=generator) for w in everything
    ]
    differences = (
        expected_at(direction, 1e-5) - expected_at(direction, -1e-5)
    ) / 2e-5
    slope = sum((g * d).sum() for g, d in zip(whole, direction)).item()
    worst = max(worst, abs(differences - slope) / abs(slope))
assert worst < 1e-6
print(
    f"5 directions in {sum(w.numel() for w in everything)} weights: slopes agree to 6 digits"
)

# %% [markdown]
# From now on we look at the *boundary predictor's* own weights, those of the perceptron and the norm before it, and at the loss
# of the text alone. (The rule also has a loss of its own, for the rate; it is left out on all sides.) Only the chances depend
# on these weights, so the exact gradient for them is the policy term alone. And everything reaches them through the $N$ logits.
# So we can work with slopes for the logits and multiply by one fixed matrix in the end.

# %%
own = [
    name
    for name, _ in rule.named_parameters()
    if name.startswith(("norm.", "hidden.", "gate."))
]
predictor = [rule.get_parameter(name) for name in own]
given = losses_at(ids, Boundaries(strings, soft=strings.double())).mean()
through_losses = torch.autograd.grad(given, predictor, allow_unused=True)
assert all(gradient is None for gradient in through_losses)


def pull(logits: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
    """From slopes for the logits [1, N] to one long gradient of the predictor's weights."""
    return torch.cat(
        [
            g.flatten()
            for g in torch.autograd.grad(
                logits, predictor, slopes, retain_graph=True
            )
        ]
    )


logits = rule.logits(model.encode(ids[:, :-1]))
jacobian = torch.stack(
    [pull(logits, unit[None]) for unit in torch.eye(N)]
)  # [N, weights]
with torch.no_grad():
    f = losses_at(ids, Boundaries(strings, soft=strings.double())).mean(dim=1)
(exact_slopes,) = torch.autograd.grad(
    (chances_of(logits) * f).sum(), logits, retain_graph=True
)
truth = exact_slopes[0] @ jacobian
by_name = dict(zip((name for name, _ in model.named_parameters()), whole))
same = torch.cat([by_name[f"rule.{name}"].flatten() for name in own])
assert torch.allclose(truth, same, rtol=0, atol=1e-12)
print(
    f"{len(truth)} weights of the predictor, length of the exact gradient {truth.norm().item():.4f}"
)

# %% [markdown]
# ### The straight-through gradient
#
# First one draw as training does it, from the loss back to the weights; then the same for 2048 draws at once.

# %%
out = model(ids, uniforms=uniforms[:1])
one_draw = torch.cat(
    [g.flatten() for g in torch.autograd.grad(out.nll.mean(), predictor)]
)


def straight_slopes(
    uniforms: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For each draw: straight-through slopes for the logits [draws, N], the boundaries, and the losses [draws, N]."""
    leaf = logits.detach().expand(len(uniforms), -1).clone().requires_grad_()
    soft = torch.where(
        strings[:1], 1.0, relaxed_bernoulli(leaf, uniforms, tau)[1]
    )  # strings[0] is BOS alone
    nll = losses_at(ids, Boundaries(soft > 0.5, soft=soft))
    (slopes,) = torch.autograd.grad(nll.mean(dim=1).sum(), leaf)
    return slopes, soft > 0.5, nll.detach()


slopes, boundaries, nll = straight_slopes(uniforms)
assert torch.allclose(slopes[0] @ jacobian, one_draw, rtol=0, atol=1e-12)
straight = slopes @ jacobian  # [draws, weights]
print(
    f"one draw, by the model and by the function: equal to 12 decimals in all {len(one_draw)} weights"
)

# %% [markdown]
# Predict the cosine between the *mean* straight-through gradient and the exact one: 1 is the same direction, 0 a right angle,
# -1 the opposite.

# %% tags=["prediction"]
guess = 0.8


# %% tags=["measurement"]
def cosine(x: torch.Tensor, y: torch.Tensor) -> float:
    """Of the angle between two vectors."""
    return torch.nn.functional.cosine_similarity(x, y, dim=0).item()


def with_error(
    measure, samples: torch.Tensor, blocks: int = 16
) -> tuple[float, float]:
    """A measure of the mean, and its standard error from leaving out one block of draws after the other (jackknife)."""
    parts = samples.unflatten(0, (blocks, -1)).mean(dim=1)
    left_out = np.array(
        [measure((parts.sum(dim=0) - part) / (blocks - 1)) for part in parts]
    )
    return measure(samples.mean(dim=0)), float(
        np.sqrt((blocks - 1) * left_out.var())
    )


measures = {
    "cosine with the exact gradient": lambda mean: cosine(mean, truth),
    "length / exact length": lambda mean: (mean.norm() / truth.norm()).item(),
    "bias / exact length": lambda mean: (
        (mean - truth).norm() / truth.norm()
    ).item(),
}
for name, measure in measures.items():
    value, error = with_error(measure, straight)
    print(f"{name:31s} {value:6.3f} ± {error:.3f}")
found, _ = with_error(measures["cosine with the exact gradient"], straight)
print(f"the guess was {guess}, off by {abs(guess - found):.1f}")

# %% [markdown]
# On this row it leans the right way, but it is short, about a tenth of the exact gradient. So the bias is nearly as long as the
# exact gradient itself, and it is known to better than a percent: no number of further draws would remove it. Position by
# position:

# %%
means, errors = slopes.mean(dim=0), slopes.std(dim=0) / draws**0.5
print("byte        exact      straight-through")
for i in range(1, N):
    shown = chr(int(ids[0, i]))
    print(
        f"{i} {shown!r}   {exact_slopes[0, i].item():+.5f}     {means[i].item():+.5f} ± {errors[i].item():.5f}"
    )

# %% [markdown]
# Look at the last position: a slope of 0, without any error. This is no accident. The gates act through the weights of the
# group means, and from the weights a gate learns only this: should the *later bytes of its own group* count more or less in the
# mean? A boundary that was drawn ends its group, so there are none. The last bytes of a row belong to no finished group. For
# both the slope is 0:

# %%
assert slopes[boundaries].abs().max() < 1e-15
assert slopes[:, -1].abs().max() == 0 and exact_slopes[0, -1].abs() > 1e-3
print(
    "slopes at boundaries that were drawn, and at the last position: 0 up to rounding"
)
print(
    f"share of positions with a slope that is not 0: {(slopes[:, 1:].abs() > 1e-15).double().mean().item():.2f}"
)

# %% [markdown]
# So in this method the loss never pushes at a boundary that was drawn, only at places without one, and nowhere does it see what
# ending a token would do to the prediction of the *next* byte. That may be a good part of why its gradient is so short. (We read
# the original in the same way: the tests of `rltok` hold these sums to its dense matrix of bytes and groups.)
#
# ### Without draws
#
# Because a slope splits into two factors, we can do without draws here too. At a given string $\partial f / \partial a_i$ is
# fixed; what remains is the slope of the gate, $s (1 - s) / \tau$, averaged over the noise that leads to this decision. A fine
# grid of $u$ does that. So bias and cosine can be had exactly, on any short row:


# %%
def slope_of_gate(
    logits: torch.Tensor, low: torch.Tensor, high: torch.Tensor
) -> torch.Tensor:
    """Mean over u between low and high of ds/dl = s (1 - s) / tau."""
    grid = (torch.arange(4000)[:, None] + 0.5) / 4000
    _, s = relaxed_bernoulli(logits, low + grid * (high - low), tau)
    return (s * (1 - s) / tau).mean(dim=0)


def both_gradients(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Exact gradient and exact mean of straight-through for the predictor's weights, on one row of N + 1 ids."""
    logits = rule.logits(model.encode(ids[:, :-1]))
    gates = strings.double().requires_grad_()
    f = losses_at(ids, Boundaries(strings, soft=gates)).mean(dim=1)
    (at_strings,) = torch.autograd.grad(
        f.sum(), gates, retain_graph=True
    )  # d f / d a_i at each string
    (exactly,) = torch.autograd.grad(
        (chances_of(logits) * f.detach()).sum(), logits, retain_graph=True
    )
    with torch.no_grad():
        p = torch.sigmoid(logits[0])
        yes, no = (
            slope_of_gate(logits, torch.zeros(N), p),
            slope_of_gate(logits, p, torch.ones(N)),
        )
        mean = (
            chances_of(logits)[:, None]
            * at_strings
            * torch.where(strings, yes, no)
        ).sum(dim=0)
        mean[0] = 0  # forced
    return pull(logits, exactly), pull(logits, mean[None])


again, straight_mean = both_gradients(ids)
assert torch.allclose(again, truth, rtol=0, atol=1e-12)
apart = (straight.mean(dim=0) - straight_mean).norm() / (
    straight.var(dim=0).sum() / draws
).sqrt()
assert apart < 4
bias = (straight_mean - truth).norm()
print(
    f"cosine {cosine(straight_mean, truth):.3f}, bias / exact length {bias / truth.norm():.3f}"
)
print(f"the mean of the draws lies {apart:.1f} standard errors from this")

# %% [markdown]
# One more thing falls out. Even where the loss is linear in the gates, the average slope of the soft gate is not that of the
# probability, $p (1 - p)$. With this temperature it is another number, so rare boundaries are pushed at another pace than
# frequent ones:

# %%
print("   l     p   slope of p   mean slope of s")
for value in (-4.0, -2.0, -1.0, 0.0):
    chance = torch.sigmoid(torch.tensor(value))
    mean = slope_of_gate(
        torch.tensor([[value]]), torch.zeros(1), torch.ones(1)
    ).item()
    print(
        f"{value:4.0f} {chance:5.2f} {chance * (1 - chance):10.3f} {mean:15.3f}"
    )

# %% [markdown]
# ### Against REINFORCE
#
# The score-function estimate of chapters 02 and 03 works here as well: the decisions are Bernoulli, so the slope for a logit is
# $-A_i\,(a_i - p_i) / N$, with $A_i$ the rewards from position $i$ on, relative to the early head. First its expectation over
# all 128 strings, then single draws: the *same* strings that straight-through had.

# %%
with torch.no_grad():
    early = next_byte_nll(
        model.early_logits(model.encode(ids[:, :-1])), ids[:, 1:]
    )


def score_slopes(boundaries: torch.Tensor, nll: torch.Tensor) -> torch.Tensor:
    """REINFORCE with causal credit and early-exit rewards: slopes for the logits."""
    advantages = (early - nll).flip(1).cumsum(dim=1).flip(1)
    found = -advantages * (boundaries.double() - p) / N
    found[:, 0] = 0  # forced
    return found


with torch.no_grad():
    at_strings = score_slopes(
        strings, losses_at(ids, Boundaries(strings, soft=strings.double()))
    )
    expectation = chances_of(logits) @ at_strings @ jacobian
assert torch.allclose(expectation, truth, rtol=0, atol=1e-12)
scored = score_slopes(boundaries, nll) @ jacobian
print("expectation of REINFORCE and exact gradient: equal to 12 decimals\n")
print(
    "in units of the exact length: bias   spread of a draw;   spread / length of its own mean"
)
for name, samples, mean in (
    ("straight-through", straight, straight_mean),
    ("REINFORCE", scored, truth),
):
    spread = samples.var(dim=0).sum().sqrt()
    shown = [
        (mean - truth).norm() / truth.norm(),
        spread / truth.norm(),
        spread / mean.norm(),
    ]
    print(f"{name:28s} {shown[0]:5.2f} {shown[1]:18.2f} {shown[2]:32.2f}")

# %% [markdown]
# As many texts say, straight-through has the smaller spread. But look at the last column too, where each is measured by the length
# of its own mean: part of the smaller spread is that it is shorter.
#
# Now average $n$ draws. The mean squared distance from the exact gradient is then $\text{bias}^2 + \text{variance} / n$.
# Predict: from about how many draws on is REINFORCE nearer?

# %% tags=["prediction"]
guess = 1000

# %% tags=["measurement"]
variances = [samples.var(dim=0).sum() for samples in (straight, scored)]
crossing = ((variances[1] - variances[0]) / bias**2).item()
print(
    f"from {crossing:.0f} draws on; the guess was off by a factor of {max(crossing / guess, guess / crossing):.1f}"
)

# %% mystnb={"figure": {"caption": "Root mean square distance of the mean of n draws from the exact gradient of the predictor's weights, in units of its length; one row, one fresh model. Lines: from bias and variance. Dots: means of groups of the 2048 draws.", "name": "fig-draws"}, "image": {"alt": "Two curves over the number of draws on logarithmic axes. REINFORCE falls steadily as one over the square root. Straight-through starts lower and is flat from a few draws on, just below the length of the gradient; they cross at a handful of draws."}}
many = np.geomspace(1, 2048, 23)
figure, axes = plt.subplots()
for number, (name, samples, mean) in enumerate(
    (
        ("straight-through", straight, straight_mean),
        ("REINFORCE", scored, truth),
    )
):
    squared_distance = (mean - truth).square().sum().item() + variances[
        number
    ].item() / many
    axes.plot(
        many,
        np.sqrt(squared_distance) / truth.norm().item(),
        color=plots.PALETTE[number],
        label=name,
    )
    for n in (1, 4, 16, 64, 256):
        groups = samples.unflatten(0, (-1, n)).mean(dim=1)
        distance = (groups - truth).square().sum(
            dim=1
        ).mean().sqrt() / truth.norm()
        axes.plot(
            [n],
            [distance.item()],
            "o",
            markersize=4,
            color=plots.PALETTE[number],
        )
axes.set(
    xscale="log",
    yscale="log",
    xlabel="draws averaged",
    ylabel="distance / exact length",
)
axes.legend()
plots.show(figure)

# %% [markdown]
# Averaging helps the one and not the other. An error of 1 is what the answer "zero" would have, too.
#
# ### More than one row
#
# One row may be bad luck. Here are 24 rows from a text, each enumerated, both gradients exact.

# %%
prose = FIXED_TEXTS["prose"]
rows = [row(prose[start : start + N]) for start in range(0, 24 * N, N)]
pairs = [both_gradients(each) for each in rows]
cosines = np.array([cosine(*pair) for pair in pairs])
total, straight_total = (
    sum(gradients) / len(rows) for gradients in zip(*pairs)
)
print(
    f"cosine, row by row: {cosines.min():.2f} to {cosines.max():.2f}, mean {cosines.mean():+.2f} ± {cosines.std() / 24**0.5:.2f}"
)
print(
    f"rows on which straight-through points away from the exact gradient: {(cosines < 0).sum()} of {len(rows)}"
)
print(
    f"gradients averaged over all rows: cosine {cosine(total, straight_total):+.2f},",
    end=" ",
)
print(f"length / exact length {straight_total.norm() / total.norm():.2f}")

# %% [markdown]
# One network may be bad luck, too. Others, fresh with other seeds, on the row above:

# %%
kept = model, rule, predictor
for other in range(1, 7):
    model = new_model(
        with_settings(
            rltok.preset("tiny_dynamic_pooling"),
            settings | {"train.seed": other},
        ),
        torch.device("cpu"),
    )
    rule = model.rule
    predictor = [rule.get_parameter(name) for name in own]
    one, pretended = both_gradients(ids)
    print(
        f"seed {other}: cosine {cosine(one, pretended):+.2f}, length / exact length {pretended.norm() / one.norm():.2f}"
    )
model, rule, predictor = kept

# %% [markdown]
# Row by row, and network by network, anything occurs, from nearly the same direction to nearly the opposite one. The first row on
# the first network was one of the better ones. Exercise 5 asks whether training changes that. What this does *not* say: that dynamic
# pooling cannot learn. Its predictor shares the encoder with everything else, and its prior holds the rate. It says that what
# moves its boundaries is not the gradient of the expected loss.
#
# ### H-Net: nothing is drawn
#
# *H-Net* {cite}`hwang2025` compares the states of neighbouring bytes, each through a matrix. The gate is large where they point
# different ways,
#
# $$p_i = \tfrac12 \big(1 - \cos(W_q X_{i-1},\, W_k X_i)\big), \qquad a_i = 1 \text{ if } p_i > \tfrac12,$$
#
# and that is that: no draw, no expected loss. As a function of the *router's* weights $W_q$ and $W_k$ the boundaries stay the
# same for a while, and then one flips. The gradient comes from two places. A factor that is always 1 pretends to be the confidence,
# $p_i$ at a boundary and $1 - p_i$ elsewhere, straight-through. And a *smoothing* mixes each token with the ones before it, as the gates say, in earnest: a true path.
# `rltok` can leave the smoothing out, so we can look at both. Here is the loss along one line in $W_q$, the way the gradient
# points downhill.

# %%
sentence = row(
    "Nobody on the quay seemed to mind: two children counted gulls."
)


def router(seed: int, smooth: str) -> rltok.AutoregressiveUNet:
    """A small fresh H-Net model; smooth is "ema" or "none"."""
    settings = {
        "train.seed": seed,
        "model.embedding_dim": 16,
        "model.num_heads": 2,
        "model.mid_layers": 1,
    }
    return new_model(
        with_settings(
            rltok.preset("tiny_hnet_port"),
            settings | {"model.rule.smooth": smooth},
        ),
        torch.device("cpu"),
    )


@torch.no_grad()
def loss_at(
    net: rltok.AutoregressiveUNet, weights: torch.Tensor
) -> tuple[float, torch.Tensor]:
    """Loss of the sentence, nats per byte, and its boundaries, with other weights W_q."""
    kept = net.rule.query.clone()
    net.rule.query.copy_(weights)
    out = net(sentence)
    net.rule.query.copy_(kept)
    return out.nll.mean().item(), out.boundaries[0]


def router_slope(net: rltok.AutoregressiveUNet) -> torch.Tensor:
    """What backpropagation gives for W_q."""
    return torch.autograd.grad(net(sentence).nll.mean(), net.rule.query)[0]


lines = {}
places = np.linspace(-1, 1, 121)
for smooth in ("none", "ema"):
    net = router(2, smooth)
    slope, start = router_slope(net), net.rule.query.detach().clone()
    seen = [
        loss_at(net, start - place * slope / slope.norm()) for place in places
    ]
    flips = [
        bool((one[1] != other[1]).any())
        for one, other in itertools.pairwise(seen)
    ]
    steps = np.diff([loss for loss, _ in seen])
    lines[smooth] = (
        np.array([loss for loss, _ in seen]),
        np.array(flips),
        slope.norm().item(),
    )
    still = np.abs(steps[~np.array(flips)]).max()
    print(
        f"smoothing {smooth:4s}: {sum(flips):2d} flips; largest change between neighbouring places without a flip {still:.4f}"
    )
assert (
    lines["none"][0].std() > 0
    and np.abs(np.diff(lines["none"][0])[~lines["none"][1]]).max() < 1e-12
)

# %% mystnb={"figure": {"caption": "Loss of one sentence along a line in the router's weights, through a fresh H-Net at 0. Orange: the slope that backpropagation gives at 0. Left: without smoothing, the loss is a staircase. Right: with smoothing, pieces with a slope, and jumps.", "name": "fig-router"}, "image": {"alt": "Two panels. Left: flat steps of different heights, and a falling orange line that follows none of them. Right: short sloping pieces with jumps between them; the orange line has nearly the slope of the piece in the middle."}}
figure, panels = plt.subplots(1, 2)
for panel, (smooth, (losses, flips, size)) in zip(panels, lines.items()):
    shown = np.insert(
        losses, np.flatnonzero(flips) + 1, np.nan
    )  # a gap at each jump
    panel.plot(np.insert(places, np.flatnonzero(flips) + 1, np.nan), shown)
    panel.plot(
        places,
        losses[60] - size * places,
        color=plots.PALETTE[1],
        linewidth=0.8,
    )
    panel.set(
        title=f"smoothing: {smooth}",
        xlabel="distance along minus the gradient",
        ylabel="nats per byte",
    )
plots.show(figure)

# %% [markdown]
# Without smoothing the true derivative is 0 wherever it exists, and the orange line is pure pretence. Does it at least say what
# happens further away, where boundaries flip? Take random directions, go a distance of 1, and compare: did the loss move the
# way the slope said? Predict the share for both variants; tossing a coin has one half. (A third line has the smoothing alone: the
# pretended factor is a plain 1.)

# %% tags=["prediction"]
guess_none, guess_ema = 0.7, 0.7

# %% tags=["measurement"]
from rltok.rules import hnet

generator, tries, networks = torch.Generator().manual_seed(0), 16, 10
pretend = hnet.confidence
for smooth, guess in (
    ("none", guess_none),
    ("ema", guess_ema),
    ("ema alone", None),
):
    hnet.confidence = (
        pretend
        if guess is not None
        else lambda gates, boundaries: torch.ones_like(gates)
    )
    said, came = [], []
    for seed in range(1, networks + 1):
        net = router(seed, smooth.removesuffix(" alone"))
        slope, start = router_slope(net), net.rule.query.detach().clone()
        here, _ = loss_at(net, start)
        for _ in range(tries):
            direction = torch.randn(slope.shape, generator=generator)
            direction /= direction.norm()
            said.append(
                (slope * direction).sum().item() / slope.norm().item()
            )
            came.append(loss_at(net, start + direction)[0] - here)
    said, came = (
        np.array(said).reshape(networks, -1),
        np.array(came).reshape(networks, -1),
    )
    right = (said * came > 0).mean(axis=1)  # one share a network
    error = right.std(ddof=1) / networks**0.5
    within = np.mean([np.corrcoef(*part)[0, 1] for part in zip(said, came)])
    told = "" if guess is None else f"; guess {guess}"
    print(
        f"smoothing {smooth:9s}: sign right in {right.mean():.2f} ± {error:.2f}, correlation {within:+.2f}{told}"
    )
hnet.confidence = pretend
print(f"({networks} networks, {tries} directions each; errors over networks)")

# %% [markdown]
# So the two parts are worth very different things. On these fresh models the pretended part tells next to nothing. The smoothing,
# whose gradient is honest between the jumps, does the work, and does it about as well without the pretended factor. This fits what H-Net's authors say smoothing is for. It
# is also a warning about the word "straight-through": methods under this name differ in how much is pretended.

# %% [markdown]
# ## Every rule on the same text
#
# A *rule* is a way of drawing boundaries; everything else in the network stays the same. `rltok compare` trains one network for
# each rule, with the same data in the same order, and keeps what each drew on three fixed texts that no network was trained on.
# We read its records. (A rule's line below is what the trained network drew with the first seed; the rules that draw at
# random would draw something else the next time.)

# %%
compared = ch05_rules.read_comparison(Path("results"))
seed = min(compared.runs["learned"])
print(ch05_rules.describe_sweep(compared))
target = compared.runs["learned"][seed]["config"]["model"]["rule"][
    "target_rate"
]
print(f"target rate of the rules that have one: {target}")


def show_lines(*names: str) -> None:
    """The beginning of the English text, with a bar where a token ends."""
    print(
        "\n".join(
            ch05_rules.text_lines(
                compared, names, "prose", seed, characters=59
            )
        )
    )


# %% [markdown]
# **Rules that do not look at the text.**
#
# * `even` puts boundaries at equal distances, as many as the target rate asks for. It is the paper's uniform baseline. It cuts
#   words wherever they happen to stand.
# * `random_k` puts as many boundaries at random places, others for each row. A rule that does not beat this has not shown that
#   its places are better than any.

# %%
show_lines("even", "random_k")

# %% [markdown]
# **Rules that read the text, fixed beforehand.**
#
# * `whitespace` is SpaceByte's {cite}`slagle2024`: a boundary on the first of consecutive bytes that are neither ASCII letter
#   nor digit nor the inside of a longer character. It needs no training and no data, and its rate is what the text gives.
# * `entropy` is BLT's {cite}`pagnoni2024`: a small byte model is trained first and frozen. A boundary stands where it is unsure
#   about the next byte, above a threshold; the threshold is set so that the rate on training text is the target. What it was
#   trained for is to predict bytes, not to help this network.
# * `bpe` is the paper's "BPE guidance" (appendix D.1). A byte-pair tokenizer {cite}`sennrich2016` is trained first; each of its
#   tokens makes one token here. The boundary is put on the *first byte after* the token, one place late, so that it does not
#   give away that the token ends. The section after next looks at what it still gives away. The size of its vocabulary and the
#   text set the rate.
# * `bpe_causal` is ours. It asks the same tokenizer about each beginning of the text alone: does the last token start at the
#   last byte? No later byte can matter. Its boundaries are not those of the whole segmentation, and there are more of them.

# %%
show_lines("whitespace", "entropy", "bpe", "bpe_causal")

# %% [markdown]
# **Rules trained straight-through.**
#
# * `dynamic_pooling` is the one from above, as published {cite}`nawrot2023`: drawn gates, means over groups, and a prior on the
#   number of boundaries in a row.
# * `dynamic_pooling_port` is what the paper's authors compared with: temperature 1 in place of one half, no learned vector for
#   bytes before the first boundary, tokens placed at the mean position of their bytes, and in place of the prior the pressure of
#   eq. (24) on the gates with their noise.
# * `hnet` is H-Net's router {cite}`hwang2025` in this network: a boundary where neighbouring states point different ways.
#   Nothing is drawn; a *ratio loss* pulls the mean gate down while there are more boundaries than wanted, and up while there
#   are fewer.
# * `hnet_port` adds byte states as they are, where `hnet` sends them through a linear layer that starts at zero.

# %%
show_lines("dynamic_pooling", "dynamic_pooling_port", "hnet", "hnet_port")

# %% [markdown]
# **The paper's rule.**
#
# * `learned` draws each decision from a policy that sees the byte state and its own last decisions. It is trained by its score,
#   with the estimator of chapter 03, and held at the target rate by the pressure of eq. (24).

# %%
show_lines("learned")

# %% [markdown]
# All on one page. Colour is the probability of a boundary, or the gate (blue 0, yellow 1); rules without either show their
# decisions. A red edge says that a token ends.

# %%
HTML(ch05_rules.side_by_side(compared, RULES, "prose", seed, characters=110))

# %%
kinds = ("space", "word start", "letter", "punctuation")
lines = []
for name in RULES:
    rates = [
        run["scores"]["test"]["class_rates"]
        for run in compared.runs[name].values()
    ]
    found = [np.mean([each[kind] for each in rates]) for kind in kinds]
    rate = np.mean(compared.values(name, "rate", "test"))
    lines.append(
        [f"`{name}`", *(f"{value:.2f}" for value in found), f"{rate:.3f}"]
    )
Markdown(
    markdown(
        ["rule", *(f"after: {kind}" for kind in kinds), "all bytes"], lines
    )
)

# %% [markdown]
# The table is of held-out text and the mean over seeds: the share of bytes of each kind with a boundary after them (*letter*:
# inside a word). The last column is the rate. Rules that know nothing of the text have about the same number in every column.

# %% [markdown]
# ## What one may ask of a rule
#
# The paper's section 2.1 asks for three things (chapter 01): boundaries learned to lower the loss, byte states used again at
# the token level, and less than 0.1 percent of extra computation over boundaries from BPE. Here are three more, which anyone
# will ask who wants to use one: does it look ahead? Does it hold a rate? Must it see text beforehand?
#
# Some of the answers can be computed. **Looking ahead**: change one byte, keep the random numbers, and see whether a decision
# *before* it changes. We try every byte of a sentence. Predict: how many of the eleven rules fail?

# %% tags=["prediction"]
guess = 0

# %% tags=["measurement"]
corpus = load_corpus("sample", rltok.preset("tiny").data)
some_text = corpus.train.subset(slice(0, 40))
walk = row("the walker was walking, then walked on")
length = walk.shape[1] - 1
others = walk.repeat(
    length, 1
)  # others[j] has another byte at j; others[0] is the sentence itself
for j in range(1, length):
    others[j, j] = ord("s") if walk[0, j] == ord(" ") else ord(" ")
same_draw = (
    row_uniforms(seed=0, step=0, rows=[0], length=length)
    .double()
    .expand(length, -1)
)
little = {
    "model.rule.fit_bytes": 10_000,
    "model.rule.entropy_dim": 32,
    "model.rule.vocabulary": 1024,
}


def looks_ahead(name: str) -> int:
    """How many decisions change that stand before the changed byte, all places together."""
    net = new_model(
        with_settings(
            rltok.preset("tiny" if name == "learned" else f"tiny_{name}"),
            little,
        ),
        torch.device("cpu"),
    )
    net.rule.fit(some_text, seed=0)
    with torch.no_grad():
        decided = net.decide(
            net.encode(others[:, :-1]), others, uniforms=same_draw
        ).boundaries
    before = (
        torch.arange(length)[None, :] < torch.arange(length)[:, None]
    )  # [j, i]: i < j
    return int(((decided != decided[:1]) & before).sum())


ahead = {name: looks_ahead(name) for name in RULES}
print({name: count for name, count in ahead.items() if count} or "none")
failing = sum(count > 0 for count in ahead.values())
assert [name for name, count in ahead.items() if count] == ["bpe"]
print(
    f"{failing} of {len(RULES)} rules look ahead; the guess was",
    "right" if guess == failing else "wrong",
)

# %% [markdown]
# **Extra computation**, by the paper's count (chapter 01): what the rule's own matrices cost in training, relative to the same
# network with boundaries that are given. The policy of `learned` needs the early head for its rewards, so that is counted with
# it. Fitting the byte model of `entropy` or a tokenizer beforehand is not in it.


# %%
def own_share(size: str, name: str) -> float:
    """Training FLOPs of a rule over those of the network without it and without an early head, at the same rate."""
    config = rltok.preset(
        size if name == "learned" else f"{size}_{name}"
    ).model
    counts = parameter_counts(config)
    own = (
        6 * counts["policy"]
        + 2 * frozen_parameters(config)
        + 6 * counts["early_head"] * (name == "learned")
    )
    given = rltok.preset(f"{size}_even").model
    return own / (
        flops_per_byte(given, given.rule.target_rate)
        - 6 * counts["early_head"]
    )


shares = {
    name: {size: own_share(size, name) for size in ("147m", "tiny")}
    for name in RULES
}
policy_alone = 6 * parameter_counts(rltok.preset("147m").model)["policy"]
early = 6 * parameter_counts(rltok.preset("147m").model)["early_head"]
print(
    f"of the learned rule's share at 147m, the early head is {early / (early + policy_alone):.1%}"
)

# %% [markdown]
# **Holding a rate** is in the record: the largest distance, over seeds, between the rate in the last fifth of training and the
# target. The columns *trained by* and *beforehand* are argued, not computed; the reasons stand below.

# %%
trained_by = {name: "nothing" for name in RULES} | {
    "learned": "the loss, by score", "dynamic_pooling": "the loss, straight-through",
    "dynamic_pooling_port": "the loss, straight-through", "hnet": "the loss, straight-through and smoothing",
    "hnet_port": "the loss, straight-through and smoothing", "entropy": "another model's loss", "bpe": "counts of pairs",
    "bpe_causal": "counts of pairs",
}  # fmt: skip
lines = []
for name in RULES:
    off = ch05_rates.farthest(compared, name)
    lines.append(
        [
            f"`{name}`",
            trained_by[name],
            f"{shares[name]['147m']:.3%}",
            f"{shares[name]['tiny']:.1%}",
            "yes" if ahead[name] else "no",
            "no target" if off is None else f"{off:.3f} off at most",
            "text" if name in ("entropy", "bpe", "bpe_causal") else "nothing",
        ]
    )
head = [
    "rule",
    "boundaries trained by",
    "own share, 147m",
    "own share, tiny",
    "looks ahead",
    "rate",
    "needs beforehand",
]
Markdown(markdown(head, lines))

# %% [markdown]
# The reasons, a sentence each:
#
# * **End-to-end training.** Only `learned` follows an estimate of the expected loss's gradient, with the biases of chapter 03
#   (discount, batch mean, $\lambda_\pi$). The straight-through rules are trained by the same loss, but not along its gradient;
#   `entropy` lowers the loss of another model; BPE counts; the others do nothing.
# * **End-to-end architecture.** All rules here sit in the same network, which takes byte states up to the token level, so it
#   does not tell them apart. It tells methods apart in the next section.
# * **Efficiency.** At the size of the paper the policy alone is far below 0.1 percent, and with the early head it is above, so
#   by this count the wish is not met by `learned` as it is trained. (After training the early head can go.) A perceptron or two
#   matrices at every byte cost percents. The byte model has the same size in both columns: little beside a large network, much
#   beside a small one. BLT's is larger.
# * **Looking ahead.** `bpe` segments the whole row, and where a token ends depends on what follows. Two sections on it below.
# * **Rate.** `even` and `random_k` count their boundaries, so nothing can go wrong (what is off is rounding, and the forced
#   boundary). `entropy` sets its threshold on training text and can be off elsewhere. The learned ones are pushed towards the
#   rate by a loss, which says nothing about whether they get there; that is measured below.
# * **Beforehand.** A tokenizer or a byte model that was fitted on one kind of text is used on every other.
#
# ## Related work
#
# Where do the boundaries come from, and what trains them? In the order of how much is learned:
#
# * **Hourglass** {cite}`nawrot2022` shortens a sequence by a fixed factor inside one transformer and lengthens it again.
#   Boundaries are even; nothing about them is trained.
# * **MegaByte** {cite}`yu2023` cuts bytes into patches of fixed length. A large model reads one vector for each patch, put
#   together from the embeddings of its bytes, and a small one writes the bytes inside. Boundaries are even again; no byte layer
#   stands below the patches.
# * **SpaceByte** {cite}`slagle2024` runs its large blocks only after bytes that are like a space. The rule is written by hand
#   and causal.
# * **BLT** {cite}`pagnoni2024` starts a patch where a small byte model, trained before and apart, is unsure. Patches get longer
#   where text is easy. The threshold is chosen for a wanted length of patches.
# * **Charformer** {cite}`tay2022` draws no boundaries at all. Each position mixes candidate blocks of several lengths by
#   learned weights, and the result is shortened by a fixed factor. All of it is differentiable, nothing is pretended.
# * **MANTa** {cite}`godey2022` predicts a chance of a boundary at each byte and spreads every byte softly over blocks.
#   Differentiable, too; it looks both ways, in an encoder, and would leak in a model that writes from left to right.
# * **MrT5** {cite}`kallini2025` lets the encoder of ByT5 {cite}`xue2022` delete bytes after a few layers. In training the
#   deleted ones are masked softly and still computed; in use they are dropped. A penalty drives how many are deleted.
# * **Dynamic pooling** {cite}`nawrot2023` compares boundaries from white space, from a tokenizer and from spikes of entropy
#   with drawn gates that are trained straight-through.
# * **H-Net** {cite}`hwang2025` trains its router straight-through and by smoothing, stacks several levels, and is trained at a
#   much larger scale than anything here.
# * **The paper** {cite}`dauncey2026` draws boundaries and trains them by their score. Independently, {cite:t}`wu2026` do so for
#   patches of time series.
#
# ## The leak, shown
#
# Now to the rule that failed. Take a tokenizer, trained on the bundled text, and look at one word as it comes in, byte by byte.
# The construction of appendix D.1 puts a boundary on the first byte of a token that follows another one. (This section needs
# the package `tokenizers`: `pip install 'rltok[bpe]'`.)

# %%
bpe = make_rule(
    with_settings(
        rltok.preset("tiny_bpe"), {"model.rule.vocabulary": 8192}
    ).model
)
bpe.fit(corpus.train, seed=0)
tokenizer = bpe.pairs


def tokens(text: bytes) -> str:
    """The text with a bar between tokens."""
    starts = [*tokenizer.starts(text), len(text)]
    return "|".join(text[a:b].decode() for a, b in itertools.pairwise(starts))


print(f"vocabulary {bpe.reached_vocabulary}")
for word in (b" walk", b" walks", b" walking", b" walkers"):
    print(f"{word.decode()!r:12s} {tokens(word)}")

# %% [markdown]
# Suppose the network has read ` walki`, and is to predict the next byte. Which decision does it see at the `i`? If the text
# ends there, the tokens are ` walk` and `i`, and the `i` is the first byte of a token: a boundary. If it goes on with `ng`,
# there is one token, ` walking`: no boundary. Predict: in a row that holds ` walking`, does the decision at `i` depend on a
# byte that has not been read?

# %% tags=["prediction"]
guess = "no"

# %% tags=["measurement"]
word = b" walking"
whole, at_prefixes = tokenizer.pattern(word, causal=False), {}
print(
    "read so far   bits of what was read   last bit, if read alone   in the whole word   causal"
)
for n in range(1, len(word) + 1):
    at_prefixes[n] = tokenizer.pattern(word[:n], causal=False)
    causal = tokenizer.pattern(word[:n], causal=True)
    assert (
        causal == tokenizer.pattern(word, causal=True)[:n]
    )  # bytes to come change nothing
    now, final = at_prefixes[n][-1], whole[n - 1]
    print(
        f"{word[:n].decode()!r:13s} {''.join(map(str, at_prefixes[n])):23s} {now:<25d} {final:<19d} {causal[-1]}"
    )
leaks = [n for n in at_prefixes if at_prefixes[n][-1] != whole[n - 1]]
found = "yes" if leaks else "no"
print(
    f"bytes at which the whole word decides otherwise than what has been read: {[chr(word[n - 1]) for n in leaks]}"
)
print(
    f"depends on bytes to come: {found} - the guess was",
    "right" if guess == found else "wrong",
)

# %% [markdown]
# So *no boundary at the i* is news: it says that the word goes on, and in a way that the tokenizer knows. The shift by one
# place, which the paper makes against leaks, hides the byte *after* a token's end. It does not hide that a token has *not*
# ended. The causal column is the same however the word goes on, for that is how it is made.
#
# ## The leak, measured
#
# How much is it worth? `scripts/measure/measure_leak.py` asks in three ways. Its record:

# %%
leak = ch05_rules.check(
    json.loads(Path("results/bpe_leak.json").read_text()), "bpe_leak"
)
print(ch05_rules.describe(leak))
fitted = {
    name: run["fitted"]["reached_vocabulary"]
    for name, run in leak["runs"][0]["unet"].items()
    if run["fitted"]
}
print(
    f"vocabulary asked for in the trained parts: {leak['vocabulary']}; ids that were found: {fitted}"
)

# %% [markdown]
# **First, by counting words.** From the training text, count what follows each beginning of a word: once by the beginning
# alone, once by the beginning and its shifted bits. Then score held-out words. Causal bits are a function of the beginning, so
# they would add exactly nothing. Predict: how many bits per byte of a word do shifted bits give away, with 8192 ids?

# %% tags=["prediction"]
guess = 0.02

# %% tags=["measurement"]
found = leak["words"]["8192"]["leak"]
print(
    f"{found:.3f} bits per byte; the guess was off by a factor of {max(found / guess, guess / found):.1f}"
)
Markdown(ch05_rules.words_table(leak))

# %% mystnb={"figure": {"caption": "What shifted BPE bits tell of the next byte of a word, by how many of its bytes are known. From counts on the bundled English sample, which does not support the largest vocabulary asked for.", "name": "fig-leak"}, "image": {"alt": "One curve for each of three vocabularies over the number of known bytes, from one to eight and more. Nothing at one byte; each rises to a peak at four. The smallest vocabulary then falls; the two larger ones dip at five and rise to a second peak at seven."}}
plots.show(ch05_rules.words_figure(leak))

# %% [markdown]
# These are bits per byte *inside words*, told to a model that knows words by counts. It is an upper hand that any model can use
# which sees the bits; whether a network does is another question.
#
# **Second, a byte model that is told the bits.** A small network without tokens reads bytes and, beside each, the bit there:
# none, shifted, or causal. The causal bits follow from what it has read, so only shifted bits can hold news, whatever tokens
# are good for. (A small network may be helped even by bits that it could work out itself; the last line says by how much. So the
# difference is no clean leak: where causal bits come out ahead, work that was spared may have counted for more than news.)
#
# A difference is the loss of the first minus that of the second, with two errors: over rows of text, and over seeds.

# %%
print("where, in the predicted byte's token: causal bits - shifted bits")
for place, gap in ch05_rules.leak_by_place(
    leak, "causal bits", "shifted bits"
).items():
    print(f"  {place:17s} {gap}")
Markdown(ch05_rules.leak_table(leak, "probe"))

# %% [markdown]
# **Third, the network itself**, with tokens at the boundaries of each construction. Here rules differ in where their tokens lie
# and in how many there are, so no difference is the leak alone. The fairest is the first one: a smaller vocabulary, so that the
# shifted construction draws as often as the causal one.

# %%
Markdown(ch05_rules.leak_table(leak, "unet"))

# %%
verdicts = {
    part: ch05_rules.leak_gaps(leak, part) for part in ("probe", "unet")
}
for part, name in (
    ("probe", "causal bits - shifted bits"),
    ("unet", "causal - shifted as often as causal"),
):
    gap = verdicts[part][name]
    said = {
        "higher": "lower loss with shifted",
        "lower": "lower loss with causal",
        "undecided": "undecided",
    }[gap.verdict]
    print(f"{part:5s} {name}: {said}, by its 95 % interval")

# %% [markdown]
# Mind that from three seeds an interval is wide; the last section works out how wide. What this may claim: that a boundary of this construction carries information about later bytes (shown above, for sure), how
# much of it counts can use, and whether a small network on a small corpus used it. What it may not: how large the effect is in
# the paper's table, at another size, with a tokenizer from another corpus.
#
# ## Do the learned rules hold their rate?
#
# Boundaries cost computation, so a learned rule must come to the rate that it was asked for. `scripts/measure/measure_rates.py` asks
# for rates from 1/2 to 1/8. A rate counts as held if over the last fifth of training it is within 0.01 of the target. Predict:
# in how many of the runs of `learned`?

# %% tags=["prediction"]
guess = "all"  # all, some or none

# %% tags=["measurement"]
rates = ch05_rules.check(
    json.loads(Path("results/rates.json").read_text()), "rates"
)
print(ch05_rules.describe(rates))
print("\n".join(ch05_rates.rates_held(rates)))
off = [
    abs(run["off"]) <= rates["within"]
    for run in rates["runs"]
    if run["rule"] == "learned"
]
found = "all" if all(off) else "some" if any(off) else "none"
print(
    f"{sum(off)} of {len(off)} runs of learned - the guess was",
    "right" if guess == found else "wrong",
)

# %% mystnb={"figure": {"caption": "Rates reached over the last fifth of training against the rate asked for (left) and how far off they are (right; the line is 0.01, and distances below a ten-thousandth are drawn there). One dot a run; preset tiny on the bundled English sample.", "name": "fig-rates"}, "image": {"alt": "Left: rates reached over target rates from one eighth to one half, with a diagonal line. Right: distance from the target on a logarithmic axis, with a horizontal line at one hundredth; a marker for each rule and run."}}
plots.show(ch05_rates.rates_figure(rates))

# %%
Markdown(ch05_rates.rates_table(rates))

# %% [markdown]
# Each rule has its own push towards the rate, with its own weight, as published; another weight or a longer run could change
# this picture. Where a rule misses the target here, that is a statement about some 300 updates of a tiny network.
#
# ## A small comparison
#
# Last, the losses. Before the numbers, what they are of: the preset `tiny`, a quarter of a million weights, the bundled English
# sample (not the paper's corpus), its test split, one budget of bytes for all. Before that, how to read them.
#
# * *minus learned* is paired: the same rows and seeds on both sides, so what is common to them drops out.
# * There are two errors: over rows of text, and over seeds. That whose 95 % interval is wider counts. A difference beyond it gets a
#   verdict, *lower* or *higher* loss than `learned`; anything else is *undecided*.
# * With so few seeds, two standard errors are weaker than they sound. How often would pure chance go beyond them? The interval over
#   seeds is therefore Student's, and wider.

# %%
seeds = len(compared.runs["learned"])
x = np.linspace(0, 2000, 2_000_001)
density = (1 + x**2 / (seeds - 1)) ** (
    -seeds / 2
)  # Student's t with seeds - 1 degrees of freedom, up to a factor
beyond = 1 - density.cumsum() / density.sum()
many = len(ch05_rules.minus_learned(compared))
print(
    f"{seeds} seeds and no true difference: beyond two standard errors of seeds in {beyond[x > 2][0]:.0%} of cases"
)
print(
    f"beyond {x[beyond < 0.05][0]:.1f} of them in 5 %; among {many} such differences, {many * 0.05:.1f} on average"
)

# %% [markdown]
# (The error over rows, which comes on top, makes false verdicts rarer.) Predict: of the contenders that are compared with
# `learned`, how many end undecided?

# %% tags=["prediction"]
guess = 3

# %% tags=["measurement"]
print("\n".join(ch05_rules.findings(compared, near=0.01)))
undecided = sum(
    gap.verdict == "undecided"
    for gap in ch05_rules.minus_learned(compared).values()
)
print(
    f"undecided: {undecided}; the guess was off by {abs(undecided - guess)}"
)
spent = ch05_rules.tokens_of(compared)
cheaper = [
    name
    for name, gap in ch05_rules.minus_learned(compared).items()
    if gap.verdict == "lower" and spent[name] <= spent["learned"] + 0.01
]
print(
    "lower loss than learned with no more tokens per byte (within 0.01):",
    ", ".join(cheaper) or "none",
)

# %%
Markdown(ch05_rules.comparison_table(compared))

# %% mystnb={"figure": {"caption": "Held-out bits per byte minus those of the learned rule (left; lines are 95 % intervals, dots are seeds) and tokens per byte (right), which differ. Preset tiny, bundled English sample (not the paper's corpus), test split. A line that crosses 0 supports no verdict. Orange: as many random places as the rule of that name draws. Small differences at this size say nothing about larger ones.", "name": "fig-comparison"}, "image": {"alt": "A line for each contender, sorted by its difference from the learned rule, with a horizontal bar and dots around it; beside it a square at its tokens per byte, with a vertical line at the learned rule's."}}
plots.show(ch05_rules.comparison_figure(compared))

# %% [markdown]
# What differs besides the boundaries: the *tokens per byte*, hence the computation, for the rules without rate control, and for
# those that missed their target. And `entropy` had a byte model trained on up to a third of the budget beforehand, which its
# FLOPs count. The last line above names rules that were fixed beforehand and still do better than the paper's rule at this size,
# with no more tokens. For the rules without rate control the record has a fairer partner, random places of the same number; those
# that hold the target rate are measured against `random_k`. (`hnet`, `hnet_port` and
# `dynamic_pooling_port` missed their rate and have no partner, so their means say little.)

# %%
print("loss of the rule minus that of as many random places")
for name, gap in ch05_rules.minus_matched_random(compared).items():
    print(f"{name:20s} {gap}: {gap.verdict}")
for name, gap in ch05_rules.minus_random(
    compared, ["learned", "even", "dynamic_pooling"]
).items():
    print(f"{name:20s} {gap}: {gap.verdict}")
print("random places by tokens per byte:", end=" ")
places = sorted(
    (spent[name], compared.mean(name, "test").bits)
    for name in compared.runs
    if "random" in name
)
print(", ".join(f"{bits:.3f} at {share:.3f}" for share, bits in places))

# %% [markdown]
# Which of this is about tiny runs only? All of it. A byte window of 4 makes tokens matter more than in the paper's network.
# With the paper's settings the policy would hardly move in 300 updates, so the preset moves it faster. Two megabytes of old
# novels are one kind of text. And the settings of the preset were chosen so that `learned` shows its effect in minutes; nobody
# chose any for the others. The comparison is here so that you can repeat it, change it, and see what a fair one takes:
#
#     rltok compare --rules all --budget full --split test --seeds 0 1 2

# %% [markdown]
# ## What we saw
#
# * A straight-through gradient takes the hard decision forward and pretends backward. Its mean is not the gradient of the
#   expected loss, and need not be the gradient of any function. It is exact where the loss is linear in each decision.
# * On a network that can be enumerated, the mean straight-through gradient of dynamic pooling was short, and its direction had
#   little to do with the exact one. No averaging removes that. REINFORCE on the same draws is right on average and scatters
#   more.
# * H-Net draws nothing, so its loss is a staircase in the router's weights. Its smoothing gives a true gradient between the
#   jumps; on fresh models the pretended part alone told next to nothing.
# * Shifted BPE boundaries depend on bytes to come. Causal ones do not. By counts the leak is worth some hundredths of a bit per
#   byte inside words; of two networks that draw equally often the shifted one had the lower loss; a small model that was told the
#   bits, and no more, did not gain.
# * Whether a learned rule comes to the rate it was asked for has to be measured; no loss promises it.
# * A comparison of rules is one of places *and* of rates. Its verdicts stand above with their errors, and hold for runs like
#   these, in which rules that were fixed beforehand did better than the learned one.
#
# What was enumerated is exact, for small fresh models on short rows. What was trained is a handful of tiny runs.
#
# ## Exercises
#
# **1. Where does it stop?** (easy, 5 minutes). For one decision and the loss $(a - t)^2$, for which $t$ do straight-through and
# exact descent end at nearly the same expected loss, although at different $p$? For which is the harm largest? Take $t$ from 0 to
# one half.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
for target in (0.05, 0.25, 0.45, 0.49, 0.5):
    best = min(target**2, (1 - target) ** 2)
    at_target = target**2 + target * (1 - 2 * target)
    print(
        f"t = {target:.2f}: straight-through {at_target:.4f}, best {best:.4f}, harm {at_target - best:.4f}"
    )
print(
    "the harm is t (1 - 2 t): none at t = 0 and one half, largest at t = 1/4"
)

# %% [markdown]
# **2. Go around again** (easy, 10 minutes). Is the straight-through field of $f(a) = a_1^2 + a_2^2$ the gradient of a function?
# If so, of which? Is it the right one?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
for chances in ([0.2, 0.7], [0.5, 0.5]):
    one, other = exact_and_straight(lambda a: a[0] ** 2 + a[1] ** 2, chances)
    print(
        chances,
        "exact",
        [round(value, 2) for value in one.tolist()],
        "straight-through",
        [round(value, 2) for value in other.tolist()],
    )
print(
    "each component depends on its own p alone, so it is: of p_1^2 + p_2^2, while the expected loss is p_1 + p_2"
)

# %% [markdown]
# **3. Another temperature** (medium, 10 minutes). Set the temperature of the gates in `both_gradients` to 1 and to a tenth
# (`tau` is a global variable, and the hard decisions do not depend on it). What happens to cosine and length on the row of this
# chapter? What can a temperature not mend?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
kept = tau
for tau in (1.0, 0.5, 0.1):
    exactly, mean = both_gradients(ids)
    print(
        f"temperature {tau}: cosine {cosine(exactly, mean):+.2f}, length / exact length {mean.norm() / exactly.norm():.2f}"
    )
tau = kept
print(
    "it rescales the slope of each logit by a positive factor; slopes that are 0 or have the wrong sign stay so"
)

# %% [markdown]
# **4. Your own word** (easy, 5 minutes). Find English words with a byte whose shifted bit in the whole word is not what it was
# when that byte was read. Which endings do it?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
for word in (
    " interesting",
    " happiness",
    " returned",
    " hopeless",
    " ladies",
    " cat",
):
    data = word.encode()
    final = tokenizer.pattern(data, causal=False)
    changed = [
        n
        for n in range(1, len(data))
        if tokenizer.pattern(data[:n], causal=False)[-1] != final[n - 1]
    ]
    print(
        f"{word!r:15s} {tokens(data):18s} decided otherwise later at: {[word[n - 1] for n in changed]}"
    )
print(
    "those that the tokenizer joins with their stem to one token; where the ending stays a token of its own, nothing changes"
)

# %% [markdown]
# **5. After some training** (hard, 20 minutes). Train the dynamic-pooling model for 40 updates on rows of 64 bytes of the
# sample, as it is trained in `rltok` (loss, a tenth of the early loss, its prior). Predict: will the cosine between the
# straight-through mean and the exact gradient be larger, averaged over the rows? Then enumerate the 24 rows again.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
short = load_corpus(
    "sample",
    with_settings(rltok.preset("tiny"), {"data.sequence_length": 64}).data,
    max_bytes=100_000,
).train
optimizer = torch.optim.Adam(model.parameters(), lr=0.006)
for step in range(40):
    batch = short.ids(
        range(
            16 * step % (len(short) - 16), 16 * step % (len(short) - 16) + 16
        )
    )
    out = model(
        batch,
        uniforms=row_uniforms(
            seed=0, step=step, rows=range(16), length=64
        ).double(),
    )
    optimizer.zero_grad()
    (out.nll.mean() + 0.1 * out.early_nll.mean() + out.aux_loss).backward()
    optimizer.step()
later = [both_gradients(each) for each in rows]
after = np.array([cosine(*pair) for pair in later])
total, straight_total = (
    sum(gradients) / len(rows) for gradients in zip(*later)
)
print(
    f"loss {out.nll.mean().item():.2f} nats per byte, {out.boundaries[:, 1:].double().mean().item():.2f} boundaries per byte"
)
print(
    f"cosine before {cosines.mean():+.2f} ± {cosines.std() / 24**0.5:.2f}, after {after.mean():+.2f} ± {after.std() / 24**0.5:.2f}"
)
print(
    f"averaged over rows: cosine {cosine(total, straight_total):+.2f}, length ratio {straight_total.norm() / total.norm():.2f}"
)

# %% [markdown]
# ## Where to go next
#
# A [rule of your own](../book/a_new_rule.md) fits into one
# file and can join the comparison. What the paper, its authors' code and `rltok` do differently for each of these methods is
# told in [paper against code](../book/paper_against_code.md).
