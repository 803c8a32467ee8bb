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
# # 02 The gradient of a choice
#
# **In short.** A drawn boundary has no gradient, but the loss averaged over all draws has one, a sum of two terms: the
# gradient of the loss at the boundaries that were drawn, and the loss times the *score*, the gradient of the draw's
# log-probability. For a short text both are computed exactly, by adding up all ways to cut it. One draw alone gives the right
# gradient only on average. Chapter 01 built the network; the next chapter writes what is derived here as one cell of code.
#
# **After this chapter you can** say why backpropagation stops at a drawn boundary, derive the two terms of the gradient that a
# model with drawn boundaries needs, and check every step of it by adding up all the ways to cut a short text.
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
import textwrap

import matplotlib.pyplot as plt
import numpy as np
import torch

import rltok
from rltok import vocab
from rltok.config import ObjectiveConfig, with_settings
from rltok.estimator import advantages
from rltok.evidence.chapters import ch02_graph, ch02_pictures
from rltok.losses import next_byte_nll
from rltok.rng import row_uniforms
from rltok.runs.models import new_model
from rltok.show import plots
from rltok.show.notebook import judge
from rltok.step import losses_of
from rltok.variance import exact
from rltok.variance.gradients import policy_parameters

plots.use_style()

# %% [markdown]
# ## A choice has no gradient
#
# Chapter 01 followed one string of boundaries through the network to a loss. Training needs more: it must find out how to move
# the weights so that *better strings* are drawn. This chapter shows how, following section 2.3 of the paper {cite}`dauncey2026`.
#
# We work with a model and a row of text so small that nothing has to be estimated. The model is fresh, with random weights: one
# byte layer, one token layer, one more byte layer, and a policy that sees its last three decisions. (The divisor $D$ of eq. (22)
# is 1, so that probabilities differ clearly between positions.) It computes in `float64`; numbers that agree to $10^{-12}$ are
# called equal.

# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
settings = {
    "train.seed": 1, "model.embedding_dim": 16, "model.num_heads": 2,
    "model.mid_layers": 1, "model.rule.lags": 3,
    "model.rule.target_rate": 0.3, "model.rule.scale": 1.0,
}  # fmt: skip
model = new_model(
    with_settings(rltok.preset("tiny"), settings), torch.device("cpu")
).double()


def row(words: str) -> torch.Tensor:
    """BOS and the bytes of a text, as ids [1, N + 1]."""
    return torch.cat(
        [torch.tensor([vocab.BOS]), torch.from_numpy(vocab.encode(words))]
    )[None]


text = "to be or"
ids = row(text)
N = ids.shape[1] - 1
print(f"{N} positions: BOS and the bytes of {text[:-1]!r}")
print(f"The last byte, {text[-1]!r}, is only predicted.")
print(sum(weight.numel() for weight in model.parameters()), "weights")

# %% [markdown]
# The model accepts given boundaries instead of drawing them. We write them as a string with a 1 for each boundary, and ask for
# the loss of a few strings: the mean of $-\log p$ over the 8 predicted bytes, in nats.


# %%
def as_boundaries(string: str) -> torch.Tensor:
    """'101' as boundaries [1, 3]."""
    return torch.tensor([[digit == "1" for digit in string]])


for string in ("10000000", "10010000", "10010010", "11111111"):
    out = model(ids, boundaries=as_boundaries(string))
    print(string, f"loss {out.nll.mean().item():.4f}")

# %% [markdown]
# The loss is a function of the string. But there is no string *between* 10010000 and 10010010, so the function has no slope.
#
# What does change smoothly is the *probability* of each string, because it comes from the logits of the policy. Suppose we nudge
# the policy: multiply its weights by $1.01$. Predict: what happens to the loss of the string 10010010?

# %% tags=["prediction"]
guess = None  # "it falls", "it rises" or "it stays"

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["measurement", "hide-cell"]
before = model(ids, boundaries=as_boundaries("10010010"))
with torch.no_grad():
    kept = model.rule.project.weight.clone()
    model.rule.project.weight.mul_(1.01)  # the nudge
    after = model(ids, boundaries=as_boundaries("10010010"))
    model.rule.project.weight.copy_(kept)
for name, made in (("before", before), ("after ", after)):
    some = made.boundary_logits[0, 1:5].tolist()
    print(f"logits {name}:", [round(value, 3) for value in some], "...")
moved = (after.nll.mean() - before.nll.mean()).item()
kinds = {-1: "it falls", 0: "it stays", 1: "it rises"}
print(judge(guess, kinds[int(np.sign(moved))]))
assert torch.equal(before.nll, after.nll)

# %% [markdown]
# The policy decides *which* string is drawn. Once the string is given, its loss does not depend on the policy. PyTorch agrees:
# from the loss back to the policy's weights there is no path, so the gradient is `None`. (`before` is the model's output for
# 10010010.)

# %%
(slope,) = torch.autograd.grad(
    before.nll.mean(), model.rule.project.weight, allow_unused=True
)
print("gradient with respect to the policy's weights:", slope)
assert slope is None

# %% [markdown]
# ## One decision by hand
#
# The loss of one drawn string has no gradient, but its *average over draws* has one. Take the smallest case, a single decision.
# A boundary comes with probability $p = \sigma(l)$, where $\sigma$ is the sigmoid and $l$ the logit. With the boundary the loss
# is 2, without it 3. The expected loss
#
# $$\bar f(l) = p \cdot 2 + (1 - p) \cdot 3$$
#
# is a smooth function of $l$. Since $dp/dl = p (1 - p)$, its derivative is $p (1 - p) (2 - 3)$.


# %%
def sigmoid(logit: float) -> float:
    """1 / (1 + exp(-l))."""
    return 1 / (1 + np.exp(-logit))


def expected(logit: float) -> float:
    """Expected loss of the single decision."""
    return sigmoid(logit) * 2 + (1 - sigmoid(logit)) * 3


p = 0.2
logit = np.log(p / (1 - p))  # where sigmoid(logit) = p
by_calculus = p * (1 - p) * (2 - 3)
by_differences = (expected(logit + 1e-5) - expected(logit - 1e-5)) / 2e-5
assert abs(by_calculus - by_differences) < 1e-9
print(f"expected loss {expected(logit):.2f}, derivative {by_calculus:.2f}")

# %% [markdown]
# The derivative is negative: a larger logit means a smaller expected loss. This is right, because the boundary is the better
# choice.

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "The single decision: the loss jumps between two values, its expectation over draws is smooth in the logit.", "name": "fig-decision"}, "image": {"alt": "A falling S-shaped curve between two dotted lines, the loss without a boundary above and with one below. Left of the middle a point with its falling tangent."}} tags=["hide-input"]
plots.show(ch02_pictures.decision_figure(p, 2, 3))

# %% [markdown]
# Now the trick on which the method rests. We want that derivative *as an average over draws*, because averages can be estimated
# by drawing. Write $\pi(a)$ for the probability of an outcome $a$ and $f(a)$ for its loss. The derivative of
# $\sum_a \pi(a) f(a)$ is $\sum_a \pi'(a) f(a)$. This is not an average yet: the factors $\pi'(a)$ are not probabilities. But the
# chain rule says $(\log \pi)' = \pi' / \pi$, so
#
# $$\pi'(a) = \pi(a) \, (\log \pi(a))'.$$
#
# This is called the *log-derivative trick*. With it, the derivative is $\sum_a \pi(a) \, f(a) \, (\log \pi(a))'$, and that is
# an average: draw $a$, then take loss times $(\log \pi(a))'$. The last factor is called the *score* of the outcome. By calculus
# it is $1 - p$ for a boundary and $-p$ for none.

# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
h = 1e-5
score_of_boundary = (
    np.log(sigmoid(logit + h)) - np.log(sigmoid(logit - h))
) / (2 * h)
score_of_none = (
    np.log(1 - sigmoid(logit + h)) - np.log(1 - sigmoid(logit - h))
) / (2 * h)
assert (
    abs(score_of_boundary - (1 - p)) < 1e-9
    and abs(score_of_none - (-p)) < 1e-9
)
print(f"score of a boundary {score_of_boundary:.2f},", end=" ")
print(f"of no boundary {score_of_none:.2f}")

# %% [markdown]
# So a step of training could look like this: draw $a$; compute the estimate, loss times score; move $l$ a little *against* it.
#
# Predict: a boundary was drawn, which is the better choice. Does this step make boundaries more likely or less likely?

# %% tags=["prediction"]
guess = None  # "more" or "less"

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["measurement", "hide-cell"]
print("outcome      probability  loss  score  loss x score")
for outcome, weight, loss, score in (
    ("boundary   ", p, 2, 1 - p),
    ("no boundary", 1 - p, 3, -p),
):
    product = loss * score
    print(f"{outcome}  {weight:11.1f}  {loss:4d}  {score:5.1f}", end="  ")
    print(f"{product:12.1f}")
average = p * 2 * (1 - p) + (1 - p) * 3 * (-p)
print(f"average of loss x score: {average:.2f}")
print(judge(guess, "more" if 2 * (1 - p) < 0 else "less"))
assert abs(average - by_calculus) < 1e-15

# %% [markdown]
# This surprises many: losses are positive, so *every* outcome that is drawn becomes less likely. The bad outcome is pushed down
# harder, and what counts is the average, which is exactly the derivative above. One draw may point the wrong way; the mean of
# many does not.
#
# Estimates of this kind are called *score-function estimates*, or REINFORCE {cite}`williams1992`.
#
# ## The stochastic computation graph
#
# Back to the model. A graph in which some nodes are computed and others are drawn is a *stochastic computation graph*
# {cite}`schulman2015`. The figure shows ours. Squares are computed from the nodes that point at them, the circle is drawn,
# rounded boxes are weights. Grey arrows are the forward pass. Coloured arrows are the two paths by which the gradient comes
# back; this chapter derives both. Numbers in brackets are equations: (12) and (13) are derived below, the others are in
# chapter 01.

# %% mystnb={"figure": {"caption": "The stochastic computation graph of one forward pass, after the paper's figure 1 (right). Squares are computed, the circle is drawn, rounded boxes are weights. No gradient passes through the drawn node: blue stops before it, orange goes around it.", "name": "fig-graph"}, "image": {"alt": "A graph. Bytes x lead to the encoder state X, from there upwards to logits l and straight on to tokens, then to the loss. A dotted arrow leads from the logits to a circle a, which is drawn and leads to the tokens. Blue arrows run back from the loss through tokens and X to the weights of decoder, token level and encoder. An orange dashed arrow leads from the loss over the circle to the logits, and on to the weights of policy and encoder."}}
plots.show(ch02_graph.computation_graph())

# %% [markdown]
# The picture leaves out two things: logits also see earlier decisions, and the early head of chapter 00 comes in later.
#
# The cell goes through the forward pass step by step and asks PyTorch which nodes a gradient reaches. The answers are those of
# the picture: from the loss, backpropagation reaches tokens and $X$ but not the logits.

# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
X = model.encode(ids[:, :-1])  # eq. (1)
string = as_boundaries("10010010")
decided = model.decide(X, ids, boundaries=string)  # eq. (2), given
l_nodes, a_nodes = decided.logits, decided.boundaries
selected = model.rule.downsample(X, decided)  # eq. (3)
token_states = model.mid(selected)  # eq. (4)
upsampled = model.rule.upsample(token_states, X, decided)  # eq. (5)
decoded = model.decode(upsampled)  # eq. (6)
nll = next_byte_nll(model.output_logits(decoded), ids[:, 1:])

for name, node in (("tokens", token_states), ("X", X), ("logits", l_nodes)):
    (reached,) = torch.autograd.grad(
        nll.mean(), node, retain_graph=True, allow_unused=True
    )
    print(f"from the loss to {name:11s}", reached is not None)
(reached,) = torch.autograd.grad(l_nodes.sum(), X)
print("from the logits to X        ", bool(reached.abs().max() > 0))
print("through the drawn boundaries", a_nodes.requires_grad)

# %% [markdown]
# ## All strings of a short row
#
# Position 0 holds BOS, where the boundary is forced. That leaves 7 free positions and $2^7 = 128$ strings: few enough for a
# loop. For each we need two numbers, its loss $f(a)$ and its probability $\pi(a)$.
#
# The probability of a string is a product over its decisions, taken from left to right: $p_i = \sigma(l_i)$ for a boundary at
# $i$, and $1 - p_i$ for none. Since $l_i$ may depend on the earlier decisions, every string has its own logits.

# %%
# logits along the string 10010010
l_string = before.boundary_logits[0].detach().numpy()
product = 1.0
for i, digit in enumerate("10010010"):
    if i > 0:  # the boundary on BOS is not drawn
        p_i = sigmoid(l_string[i])
        product *= p_i if digit == "1" else 1 - p_i
        print(f"position {i}: p = {p_i:.3f}, decided {digit},", end=" ")
        print(f"probability so far {product:.4f}")

# %% [markdown]
# Now for all of them. We keep the logarithm of the probability, because its gradient is needed later. In the code,
# `logsigmoid(l)` is $\log p$, and `logsigmoid(-l)` is $\log(1 - p)$.

# %%
strings = torch.tensor(
    [(1, *free) for free in itertools.product([0, 1], repeat=N - 1)],
    dtype=torch.bool,
)


def loss_and_log_probabilities(
    string: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Loss, log-probability and logit of each position; with gradient."""
    out = model(ids, boundaries=string[None])
    signed = torch.where(
        string, out.boundary_logits[0], -out.boundary_logits[0]
    )
    each = torch.where(
        out.drawn[0], torch.nn.functional.logsigmoid(signed), 0.0
    )
    return out.nll[0], each, out.boundary_logits[0]


with torch.no_grad():
    table = [loss_and_log_probabilities(string) for string in strings]
f = torch.stack([nll.mean() for nll, _, _ in table])  # f(a), nats per byte
pi = torch.stack([each.sum() for _, each, _ in table]).exp()  # pi(a)
assert abs(pi.sum() - 1) < 1e-12
by_hand = strings.tolist().index(as_boundaries("10010010")[0].tolist())
assert abs(pi[by_hand] - product) < 1e-12
print(f"{len(strings)} strings,", end=" ")
print(f"their probabilities add up to {pi.sum().item():.6f}")

# %%
print("string    probability    loss")
for s in [*pi.argsort(descending=True)[:4], f.argmin(), f.argmax()]:
    written = "".join(str(int(digit)) for digit in strings[s])
    print(f"{written}  {pi[s].item():11.4f}  {f[s].item():.4f}")
print("(the four likeliest, then the best and the worst)")

# %% [markdown]
# The expected loss is the sum of probability times loss over the table. Nothing is estimated; this is the exact value, which is
# out of reach for rows of useful length. The package does the same for any short row in `rltok.variance.exact`.

# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
expected_loss = (pi * f).sum()
package = exact.enumerate_row(model, ids)
assert torch.equal(package.boundaries, strings)
assert abs(exact.expected_loss(model, ids) - expected_loss) < 1e-12
print(f"expected loss {expected_loss.item():.6f},", end=" ")
print(f"by the package {-package.expected.item() / N:.6f}")

# %% [markdown]
# What training can afford is to draw. The more draws, the closer their mean loss comes to the exact value. The typical distance
# is the *standard error*: the standard deviation of the single losses, divided by the square root of the number of draws.
# Predict: from 64 to 4096 draws, by which factor does the standard error shrink?

# %% tags=["prediction"]
guess = None  # a factor

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["measurement", "hide-cell"]
draws, errors = {}, {}
for many in (64, 512, 4096):
    uniforms = row_uniforms(seed=0, step=0, rows=range(many), length=N)
    with torch.no_grad():
        draws[many] = model(ids.expand(many, -1), uniforms=uniforms).nll.mean(
            dim=1
        )
    errors[many] = draws[many].std().item() / many**0.5
    mean = draws[many].mean().item()
    off = mean - expected_loss.item()
    print(f"{many:4d} draws: mean {mean:.4f}, off by {off:+.4f},", end=" ")
    print(f"standard error {errors[many]:.4f}")
    assert abs(off) < 4 * errors[many]
print(judge(guess, round(errors[64] / errors[4096])))

# %% [markdown]
# ## The gradient, step by step
#
# Now the same for all weights $\theta$ at once, following the paper's appendix A.1. $\nabla$ stands for the derivative with
# respect to each of them, and $\mathbb{E}_{a \sim \pi}$ for the average over strings that the policy draws. With $y$ the bytes
# to be predicted, $y_i = x_{i+1}$, the paper writes
#
# $$\nabla_\theta\, \mathbb{E}_{a \sim \pi_\theta} \log p_\theta(y \mid a, x) \tag{11}$$
# $$= \mathbb{E}_{a \sim \pi_\theta} \big[ \nabla_\theta \log p_\theta(y \mid a, x) \tag{12}$$
# $$\quad + \log p_\theta(y \mid a, x)\, \nabla_\theta \log \pi_\theta(a \mid x) \big] \tag{13}$$
#
# The paper makes the log-probability of the row *large*. We keep to the loss $f(a) = -\log p(y \mid a, x) / N$, which should
# become *small*; only the sign and a factor $N$ differ.
#
# Every line is now checked with numbers. For every string, PyTorch gives two vectors with an entry for each weight:
# $\nabla f(a)$ and the score $\nabla \log \pi(a)$. The function `gradient` computes such vectors.

# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
parameters = list(model.parameters())


def gradient(value: torch.Tensor, keep: bool = True) -> torch.Tensor:
    """Derivatives with respect to all weights; 0 where no path is."""
    grads = torch.autograd.grad(
        value,
        parameters,
        retain_graph=keep,
        allow_unused=True,
        materialize_grads=True,
    )
    return torch.cat([grad.flatten() for grad in grads])


grad_f, score = [], []
for string in strings:
    nll, each, _ = loss_and_log_probabilities(string)
    grad_f.append(gradient(nll.mean()))
    score.append(gradient(each.sum(), keep=False))
grad_f, score = torch.stack(grad_f), torch.stack(score)
print("two tables, strings x weights:", [*grad_f.shape], [*score.shape])

# %% [markdown]
# **Step 1: the gradient of the sum, as a whole.** PyTorch differentiates the sum of probability times loss over all strings. The
# other lines must equal this. (`pi_graph` and `f_graph` are $\pi$ and $f$ of all strings, with what PyTorch needs to
# differentiate them; `same` says whether two vectors are equal.)

# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
out = model(ids.expand(len(strings), -1), boundaries=strings)
signed = torch.where(strings, out.boundary_logits, -out.boundary_logits)
pi_graph = (
    torch.where(out.drawn, torch.nn.functional.logsigmoid(signed), 0.0)
    .sum(dim=1)
    .exp()
)
f_graph = out.nll.mean(dim=1)
whole = gradient((pi_graph * f_graph).sum())
print(f"length of the exact gradient: {whole.norm().item():.4f}")


def same(x: torch.Tensor, y: torch.Tensor) -> str:
    """Say that two vectors are equal up to rounding, or fail."""
    assert (x - y).abs().max() < 1e-12
    return "equal to within 1e-12"


# %% [markdown]
# **Step 2: the product rule.** $\nabla \sum_a \pi(a) f(a) = \sum_a \pi(a) \nabla f(a) + \sum_a f(a) \nabla \pi(a)$. The first
# sum holds the probabilities fixed, the second the losses. In PyTorch, `detach()` holds a factor fixed.

# %%
through_losses = gradient((pi_graph.detach() * f_graph).sum())
through_policy = gradient((pi_graph * f_graph.detach()).sum())
total = through_losses + through_policy
print("sum of the two and the whole:", same(total, whole))
lengths = [through_losses.norm().item(), through_policy.norm().item()]
print(f"lengths: {lengths[0]:.4f} and {lengths[1]:.4f}")

# %% [markdown]
# **Step 3: the log-derivative trick.** $\nabla \pi(a) = \pi(a) \nabla \log \pi(a)$, as with the single decision. First for one
# string, then inside the second sum.

# %%
s = int(pi.argmax())
print(
    "for the likeliest string:", same(gradient(pi_graph[s]), pi[s] * score[s])
)
print(
    "for the sum:             ",
    same(through_policy, ((f * pi)[:, None] * score).sum(dim=0)),
)

# %% [markdown]
# **Step 4: read both sums as averages over draws.** Each has the factor $\pi(a)$, so each is an expectation: eq. (12), which we
# call the *conditional term*, and eq. (13), the *policy term*.

# %%
conditional_term = pi @ grad_f  # eq. (12): E[ grad f ]
policy_term = pi @ (f[:, None] * score)  # eq. (13): E[ f grad log pi ]
print(
    "eq. (12) + eq. (13) and the whole:",
    same(conditional_term + policy_term, whole),
)

# %% [markdown]
# That is the result: *draw a string; backpropagate the loss as usual; and add loss times score.* The package splits the
# gradient in the same way.

# %%
split = exact.exact_gradient(model, ids)
names = [name for name, _ in model.named_parameters()]
print("eq. (12):", same(split.flat("conditional", names), conditional_term))
print("eq. (13):", same(split.flat("policy", names), policy_term))

# %% [markdown]
# One check remains that does not use PyTorch's derivatives. Move all weights by a small step $h$ along some direction $v$, once
# forwards and once backwards. The two expected losses must differ by $2h$ times the gradient along $v$. We take a random
# direction, and that of the gradient itself.


# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
def moved(direction: torch.Tensor, h: float) -> float:
    """Expected loss a step h along the direction; weights are kept."""
    start = torch.nn.utils.parameters_to_vector(parameters).detach()
    with torch.no_grad():
        torch.nn.utils.vector_to_parameters(start + h * direction, parameters)
        value = exact.expected_loss(model, ids).item()
        torch.nn.utils.vector_to_parameters(start, parameters)
    return value


random = torch.randn(
    len(whole),
    generator=torch.Generator().manual_seed(0),
    dtype=torch.float64,
)
for name, direction in (
    ("random", random / random.norm()),
    ("gradient", whole / whole.norm()),
):
    by_differences = (moved(direction, 1e-5) - moved(direction, -1e-5)) / 2e-5
    along = (whole @ direction).item()
    assert abs(by_differences - along) < 1e-7
    print(
        f"{name:8s} direction: by differences {by_differences:9.6f},", end=" "
    )
    print(f"by eqs. (12), (13) {along:9.6f}")

# %% [markdown]
# ## The score has expectation zero
#
# Probabilities add up to 1, whatever the weights are. So
# $\sum_a \pi(a) \nabla \log \pi(a) = \sum_a \nabla \pi(a) = \nabla 1 = 0$: on average, the score is zero. For the single
# decision: $p (1 - p) + (1 - p)(-p) = 0$. For the model:

# %%
mean_score = pi @ score
assert mean_score.abs().max() < 1e-12
print(f"largest entry of one score:      {score[s].abs().max().item():.4f}")
print("largest entry of the mean score: 0 to within 1e-12")

# %% [markdown]
# This has a use. Subtract from the loss any number $b$ that does not depend on the string. The policy term stays what it is,
# since $\mathbb{E}[(f - b) \nabla \log \pi] = \mathbb{E}[f \nabla \log \pi] - b \cdot 0$. Such a number is called a *baseline*.
# It changes how far single estimates lie from their mean. For the single decision:

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "The two possible estimates of the single decision, for every baseline. Their mean never changes; their distance does, and it vanishes where the lines cross.", "name": "fig-baseline"}, "image": {"alt": "Two straight lines over the baseline, one falling and one rising slowly, that cross left of the dotted expected loss; between them a level dashed line, the mean, which passes through the crossing."}} tags=["hide-input"]
plots.show(ch02_pictures.baseline_figure(p, 2, 3))

# %%
spread = (pi @ (f - expected_loss) ** 2).sqrt().item()
print(f"losses of the 128 strings: mean {expected_loss.item():.3f},", end=" ")
print(f"spread {spread:.3f}")

# %% [markdown]
# The estimate of the policy term is now $(f - b)$ times score, a vector. Let $b$ be the expected loss. Predict from the two
# numbers above: by which factor does the *squared length* of the estimate shrink, on average over strings, compared with
# $b = 0$?

# %% tags=["prediction"]
guess = None  # a factor

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["measurement", "hide-cell"]
plain = f[:, None] * score
centred = (f - expected_loss)[:, None] * score
print("expectation:", same(pi @ plain, pi @ centred))
sizes = [
    (pi @ estimate.square().sum(dim=1)).item()
    for estimate in (plain, centred)
]
print(f"mean squared length: {sizes[0]:.2f} without baseline,", end=" ")
print(f"{sizes[1]:.5f} with it")
print(judge(guess, round(sizes[0] / sizes[1])))
print(f"(mean / spread) squared: {(expected_loss.item() / spread) ** 2:.0f}")

# %% [markdown]
# The expectation is the same and the noise far smaller. The baseline removes what the losses have in common and leaves their
# spread, so the squares shrink about as the square of mean over spread. Chapter 03 takes this idea further.
#
# ## What a decision can change
#
# So far the score of every decision is multiplied by the loss of the whole row. Is all of it needed?
#
# Take the decision at $i$ and the loss at one position $j$. The score of the decision with respect to its own logit is
# $a_i - p_i$ (which is $1 - p_i$ or $-p_i$, as above). The mean of loss times score,
#
# $$C_{ij} = \sum_a \pi(a) \, (a_i - p_i) \, \frac{-\log p(x_{j+1} \mid x_{\le j}, a_{\le j})}{N},$$
#
# is what the loss at $j$ adds to the gradient with respect to this logit. Rows are decisions, columns are losses; a boundary at
# $i$ first acts on the prediction of byte $i + 1$. Predict: where is this matrix zero?

# %% tags=["prediction"]
guess = None  # "below the diagonal", "above the diagonal" or "nowhere"

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["measurement", "hide-cell"]
position_losses = torch.stack([nll for nll, _, _ in table])  # [128, N]
logits = torch.stack([each for _, _, each in table])
own_score = strings.double() - logits.sigmoid()
own_score[:, 0] = 0.0  # BOS: nothing is decided
# the sum over all strings s
C = torch.einsum("s,si,sj->ij", pi, own_score, position_losses) / N
assert C.tril(-1).abs().max() < 1e-14
shown = torch.where(C.abs() < 1e-14, 0.0, C) * 1000
print("1000 C:  " + "".join(f"{'j=' + str(j):>8s}" for j in range(N)))
for i in range(1, N):
    cells = [f"{v:8.2f}" if v else "       0" for v in shown[i].tolist()]
    print(f"   i={i}   " + "".join(cells))
print(judge(guess, "below the diagonal"))

# %% [markdown]
# Below the diagonal all is zero, because decisions do not change the past: the loss at an earlier position $j < i$ is settled
# before $a_i$ is drawn. Given the earlier decisions, the score of $a_i$ has mean zero too, so that loss is a baseline for $a_i$,
# and adds nothing on average. The diagonal itself is not zero: the boundary at $i$ already acts on the prediction made at $i$.
#
# `exact.influence` computes the same with respect to all weights. That gives a vector for each pair of positions, the
# *influence* of the loss at $j$ on the decision at $i$:
#
# $$I_{ij} = \mathbb{E}_{a \sim \pi} \Big[ \frac{-\log p(x_{j+1} \mid x_{\le j}, a_{\le j})}{N}\, \nabla \log \pi(a_i) \Big].$$
#
# The picture shows the lengths of these vectors; white is zero, as in row 0: the boundary on BOS is no decision.

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "How strongly the loss at j acts on the gradient of decision i, exactly, for 'to be or'. White is zero: below the diagonal, because decisions do not change the past, and in row 0, where nothing is decided.", "name": "fig-influence"}, "image": {"alt": "An eight by eight heat map, decisions down, losses across. All cells below the diagonal and the whole first row are white. Coloured cells fill the rest, unevenly."}} tags=["hide-input"]
pieces = exact.influence(model, ids)
lengths = pieces.norm(dim=-1)
assert lengths.tril(-1).max() < 1e-12
figure, axes = plt.subplots(figsize=(5.0, 3.6))
image = axes.imshow(
    np.where(lengths < 1e-12, np.nan, lengths * 1000), cmap="cividis"
)
axes.set(xlabel="loss at position j", ylabel="decision at position i")
axes.grid(False)
figure.colorbar(image, label="length of the contribution x 1000")
plots.show(figure)

# %% [markdown]
# The sum of all these vectors is the policy term. Leaving out those below the diagonal changes nothing, so each decision needs
# only the losses of its own and later positions.

# %%
reaches = list(policy_parameters(model))  # those of policy and encoder
later_only = sum(pieces[i, j] for i in range(N) for j in range(i, N))
equal = same(later_only, split.flat("policy", reaches))
print("cells on and above the diagonal, and eq. (13):", equal)

# %% [markdown]
# ## What is maximised
#
# Training lowers the expected loss. What does this have to do with the probability of the text? The paper writes
#
# $$\log p_\theta(y \mid x) = \mathbb{E}_{a \sim \pi_\theta} \log p_\theta(y \mid a, x) \tag{10}$$
#
# On the left stands the probability that the model writes the text, whatever boundaries it draws on the way. That is the sum
# over all ways to cut it, $p(y \mid x) = \sum_a \pi(a \mid x) \, p(y \mid a, x)$. So the left side of eq. (10) is the logarithm
# of a mean, the right side is the mean of logarithms. Are they equal?
#
# Try two strings, each with probability one half; with one of them the text has probability $0.9$, with the other $0.1$.

# %% tags=["prediction"]
# compared with the mean of the logarithms, the logarithm of the mean is
guess = None  # "equal", "larger" or "smaller"

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["measurement", "hide-cell"]
log_of_mean = np.log(0.5 * 0.9 + 0.5 * 0.1)
mean_of_logs = 0.5 * np.log(0.9) + 0.5 * np.log(0.1)
kinds = {-1: "smaller", 0: "equal", 1: "larger"}
print(f"log of the mean {log_of_mean:.3f},", end=" ")
print(f"mean of the logs {mean_of_logs:.3f}")
print(judge(guess, kinds[int(np.sign(log_of_mean - mean_of_logs))]))

# %% [markdown]
# Not equal. The logarithm bends downwards, so the logarithm of a mean is at least the mean of the logarithms; this is *Jensen's
# inequality*.

# %% cellView="form" jupyter={"source_hidden": true} mystnb={"figure": {"caption": "Jensen's inequality for the two strings: the logarithm at the mean lies above the middle of the chord.", "name": "fig-jensen"}, "image": {"alt": "The logarithm as a rising curve that bends downwards, a straight chord below it between two points, and in the middle a vertical bar from the chord up to the curve, the gap."}} tags=["hide-input"]
plots.show(ch02_pictures.jensen_figure(0.9, 0.1))

# %% [markdown]
# Eq. (10) should be read as
#
# $$\log p_\theta(y \mid x) \ge \mathbb{E}_{a \sim \pi_\theta} \log p_\theta(y \mid a, x).$$
#
# The method maximises the right side, a lower bound of the left one. How large is the gap between them? Enumeration gives both
# sides for any short row, in nats for the whole row.

# %%
print("row         left side  right side     gap")
for words in ("to be or", "not to b", "e, that ", "is the q"):
    enumerated = exact.enumerate_row(model, row(words))
    left, right = enumerated.marginal.item(), enumerated.expected.item()
    assert (
        left >= right
        and abs(left - right - enumerated.jensen_gap.item()) < 1e-12
    )
    print(f"{words!r:11s} {left:9.3f}  {right:10.3f}  {left - right:6.3f}")

# %% [markdown]
# The gap is small beside the loss. And it is on the safe side: losses are reported for drawn boundaries, so on average they are
# the right side, which does not flatter the model. The gap is zero when all strings give the text the same probability, and also
# when only one string is ever drawn. So a more decided policy should have a smaller gap. To make this one more decided, raise
# each probability to a power $k$ and divide by the sum.

# %%
print("  k  probability, likeliest     gap")
log_p = -N * f  # log p(y | a, x) of the whole row
for k in (1, 4, 16, 64):
    decided = pi**k / (pi**k).sum()
    gap = torch.log((decided * log_p.exp()).sum()) - (decided * log_p).sum()
    print(f"{k:3d}  {decided.max().item():22.4f}  {gap.item():6.4f}")

# %% [markdown]
# The paper's figure 13 shows a policy that becomes decided early in training, so its gap should soon be small.
#
# ## One draw at a time
#
# Training draws one string for each row. The first term of the gradient is that of the string's loss. For the policy term one
# adds a *surrogate loss*,
#
# $$-\sum_i \log \pi(a_i) \cdot A_i / N \quad \text{with } A_i \text{ held fixed,}$$
#
# where $\pi(a_i)$ is the probability of decision $i$ given the earlier ones. Its *value* means nothing. Its *gradient* is the
# sum of the decisions' scores, each times $-A_i / N$. If $A_i$ is minus the summed loss of the row, that is loss times score.
# $A_i$ is called the *advantage* of a decision; a step of training makes decisions with a large advantage more likely. Since
# baselines and earlier losses do not change the expectation, these three choices are equally right on average:
#
# * `whole row`: minus the loss of all positions, for every decision;
# * `later only`: minus the loss from position $i$ on;
# * `later, minus early`: the same, and from each loss we subtract that of the early head. It has seen no boundaries, so it is a
#   baseline.
#
# To check this, the cell computes for each of the 128 strings the gradient that training would compute if it drew that string,
# and averages with the probabilities. (The package's `losses_of` returns the string's loss as `auto` and the surrogate as
# `policy`.)

# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
ways = {
    "whole row": ObjectiveConfig(
        gamma=1.0, centring="none", relative_rewards=False, credit="total"
    ),
    "later only": ObjectiveConfig(
        gamma=1.0, centring="none", relative_rewards=False
    ),
    "later, minus early": ObjectiveConfig(gamma=1.0, centring="none"),
}
estimates = {name: [] for name in ways}
for string in strings:
    out = model(ids, boundaries=string[None])
    for name, objective in ways.items():
        weights = advantages(
            out.nll, out.early_nll, out.scored, **objective.reductions
        )
        losses = losses_of(out, weights, target_rate=0.3)
        estimates[name].append(gradient(losses.auto + losses.policy))
estimates = {name: torch.stack(found) for name, found in estimates.items()}
print("mean over all strings, and the exact gradient")
for name, found in estimates.items():
    print(f"{name:19s}", same(pi @ found, whole))

# %% [markdown]
# An estimate whose expectation is the true value is called *unbiased*. All three are. (Chapter 03 adds two further reductions of
# variance, which can change the expectation.)
#
# Unbiased does not mean good. How long is a single estimate, compared with the exact gradient? We look at the policy's own
# weights.

# %% cellView="form" jupyter={"source_hidden": true} tags=["hide-input"]
index = torch.cat(
    [
        torch.full((weight.numel(),), name.startswith("rule."))
        for name, weight in model.named_parameters()
    ]
)
print(f"exact gradient: length {whole[index].norm().item():.3f}")
for name, found in estimates.items():
    square = (pi @ found[:, index].square().sum(dim=1)).sqrt().item()
    print(f"{name:19s} length (root mean square) {square:.3f}")

# %% [markdown]
# Predict from these lengths, for `whole row`: in what share of all draws does the estimate point away from the exact gradient,
# so that a small step of descent makes the expected loss *larger*?
#
# (The *cosine* of two vectors says how well their directions agree: 1 for the same, 0 for a right angle, negative where they
# point away from each other.)

# %% tags=["prediction"]
guess = None  # a share

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["measurement", "hide-cell"]
print("                    points away  mean cosine")
for name, found in estimates.items():
    cosines = torch.nn.functional.cosine_similarity(
        found[:, index], whole[index][None], dim=1
    )
    away = pi[cosines < 0].sum().item()
    print(f"{name:19s} {away:11.2f} {(pi @ cosines).item():12.2f}")
    if name == "whole row":
        answer = away
print(judge(guess, round(answer, 2)))

# %% [markdown]
# With `whole row`, the direction of a single draw is hardly better than a coin toss: almost all of its length is noise. The
# other two point the right way more often, with the same expectation. Chapter 03 goes on from here.
#
# ## What we saw
#
# * The loss of a drawn string has no derivative with respect to the policy. The expected loss has one.
# * It has two terms: the gradient of the loss at the string that was drawn, and loss times score. Every step was checked against
#   the sum over all 128 strings, and the result against finite differences.
# * The score is zero on average. So baselines may be subtracted, and a decision does not need the losses that came before it.
# * Eq. (10) is an inequality: what is maximised is a lower bound on the log-probability of the text, and the gap was measured.
# * The gradient from one draw is right on average, and mostly noise.
#
# The numbers are those of one row and one fresh model. The identities hold for any.
#
# ## Exercises
#
# **1. The best baseline** (easy, 10 minutes). For the single decision with losses 2 and 3 and $p = 0.2$: subtract a baseline $b$
# from the loss. For which $b$ does the estimate vary least? Is it the expected loss?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
p = 0.2
for b in (0.0, 1.0, 2.0, 2.2, 2.8, 4.0):
    outcomes = np.array([(2 - b) * (1 - p), (3 - b) * (-p)])
    mean = p * outcomes[0] + (1 - p) * outcomes[1]
    variance = (
        p * (outcomes[0] - mean) ** 2 + (1 - p) * (outcomes[1] - mean) ** 2
    )
    assert abs(mean - by_calculus) < 1e-15
    print(f"b = {b:.1f}: mean {mean:.2f}, variance {variance:.4f}")
print("Best at 2.2, where both outcomes give the same estimate. The expected")
print("loss, 2.8, is far better than 0 and not the best.")

# %% [markdown]
# **2. Not a baseline** (easy, 5 minutes). What goes wrong if the number that is subtracted depends on the outcome, say 2 after a
# boundary and 3 after none? Compute the expectation of the estimate.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
biased = p * (2 - 2) * (1 - p) + (1 - p) * (3 - 3) * (-p)
print(f"expectation {biased:.2f} instead of {by_calculus:.2f}")
print("The signal is gone: the mean of b times score need not be 0 when b")
print("depends on the outcome.")

# %% [markdown]
# **3. Where is the gap largest?** (medium, 10 minutes). Two strings, with losses of 2 and 3 nats for the row, the first with
# probability $p$. Plot or print the gap between the two sides of eq. (10) over $p$. Where is it zero? Is it largest at one half?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
grid = np.linspace(0, 1, 101)
gap = (
    np.log(grid * np.exp(-2) + (1 - grid) * np.exp(-3))
    + grid * 2
    + (1 - grid) * 3
)
ends = f"{abs(gap[0]):.3f} and {abs(gap[-1]):.3f}"
print(f"at p = 0 and 1 only one string is drawn: gap {ends}")
print(
    f"largest at p = {grid[gap.argmax()]:.2f}: {gap.max():.4f} nats;", end=" "
)
print(f"at one half {gap[50]:.4f}")

# %% [markdown]
# **4. The price of being exact** (easy, 5 minutes). A row of the paper has 4096 positions. How many digits does the number of
# its strings have? Then ask `exact.enumerate_boundaries` for a row of 20 positions and read the error.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
print("digits:", len(str(2**4095)))
try:
    exact.enumerate_boundaries(20)
except ValueError as error:
    print(textwrap.fill(str(error), 76))

# %% [markdown]
# **5. A misprint** (medium, 10 minutes). For readers with the paper at hand: the third line of its appendix A.1 has one
# $\nabla_\theta$ too many,
#
# $$\nabla_\theta \sum_a \big( \nabla_\theta \log p(y \mid a, x) + \log p(y \mid a, x) \nabla_\theta \log \pi(a \mid x) \big)\, \pi(a \mid x).$$
#
# The sum is already the gradient. Take the line literally for the single decision: what number comes out, and what would it be
# for a model with many weights?


# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
def g(logit: float) -> float:
    """Derivative of the expected loss of the single decision."""
    return sigmoid(logit) * (1 - sigmoid(logit)) * (2 - 3)


literal = (g(logit + 1e-5) - g(logit - 1e-5)) / 2e-5
assert abs(literal - p * (1 - p) * (1 - 2 * p) * (2 - 3)) < 1e-9
print(f"the sum {g(logit):.3f}, with another derivative {literal:.3f}")
print(
    f"A gradient has {len(whole):,} entries, the gradient of it is a matrix"
)
print(f"of {len(whole):,} x {len(whole):,}, which cannot equal a vector.")

# %% [markdown]
# ## Where to go next
#
# [Chapter 02b](02b_the_whole_algorithm.ipynb) puts the parts together. [Chapter 03](03_variance_ladder.ipynb) then measures what
# each reduction of variance buys. The [equation register](../book/equations.md) lists the equations of this chapter with their
# functions and tests.
