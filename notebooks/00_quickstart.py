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
# # 00 Quickstart: a text and its boundaries
#
# **In short.** Within a minute, a small model learns to end its tokens after spaces. It is told how often to end a token, but
# not where. This chapter shows it and asks why.
#
# **After this chapter you can** say what a token boundary is, train a model that learns where to put them, and explain what a
# boundary after a space does for the model.
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
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import HTML, display

import rltok
from rltok.byte_classes import CLASSES, byte_classes
from rltok.config import with_settings
from rltok.data import FIXED_TEXTS, load_corpus
from rltok.device import resolve_device
from rltok.evaluation import evaluate
from rltok.evidence.chapters import ch00_spaces
from rltok.rng import row_uniforms
from rltok.runs.models import new_model
from rltok.runs.snapshots import boundary_view, text_ids
from rltok.show import plots
from rltok.show.notebook import judge
from rltok.show.views import boundary_html

plots.use_style()
device = resolve_device("cpu")  # so that every reader sees the same digits
config = with_settings(
    rltok.preset("tiny"),
    {
        "data.sequence_length": 128,
        "train.sequences_per_update": 8,
        "train.micro_batch": 8,
        "train.training_bytes": 300_000,
        "train.evaluate_every": 1000,
        "train.checkpoint_every": 1000,
    },
)

# %% [markdown]
# ## A text is bytes, and a model has to group them
#
# A language model that reads one byte at a time spends its full depth on every letter. So language models first group bytes into
# *tokens*. Usually a separate program does this, by rules fixed before training. The model in this book decides by itself, after
# every byte: *does a token end here?* A "yes" is a *boundary*. The method is that of the paper {cite}`dauncey2026`, which this
# book reproduces.
#
# Here is a passage, and the boundaries that a model draws in it before any training. (Its settings, `config`, are in the folded
# cell at the top.)

# %%
text = FIXED_TEXTS["prose"]
data = text.encode("utf-8")
print(f"{len(text)} characters, {len(data)} bytes")
print("first bytes:", list(data[:8]), "=", repr(data[:8].decode()))

# %%
untrained = new_model(config, device)
before = boundary_view(untrained, text, seed=0)
wanted = config.model.rule.target_rate
print(f"{sum(before['boundaries'])} tokens in {len(data)} bytes;", end=" ")
print(f"wanted: one boundary every {1 / wanted:g} bytes")
low, middle, high = np.percentile(before["probabilities"], [0, 50, 100])
print(f"probabilities from {low:.2f} to {high:.2f}, median {middle:.2f}")

# %%
display(
    HTML(
        boundary_html(
            text,
            before["boundaries"],
            before["probabilities"],
            "The passage before training: boundaries fall anywhere.",
        )
    )
)

# %% [markdown]
# Blue means that a boundary after this character is unlikely, yellow that it is likely; a red edge marks a boundary that was
# drawn. The *policy* is the part of the model that computes these probabilities. It starts near the wanted rate, and its random
# weights favour some characters for no good reason.
#
# ## Train
#
# The model now trains on novels and government prose. Its objective says how *often* to end a token, about once every five
# bytes. Nothing says *where*. A boundary is rewarded when the bytes after it are
# predicted better. The table gives the share of each kind of byte that has a boundary after it. A *word start* is the first
# letter of a word.

# %%
corpus = load_corpus("sample", config.data)
folder = tempfile.mkdtemp()
record = rltok.train(
    config, corpus, f"{folder}/run", device="cpu", full=False
)
print(f"{record.updates} updates on {record.bytes:,} bytes", end=" ")
print(f"of the corpus {corpus.description['name']!r}")

# %%
model = rltok.load(f"{folder}/run")
start = evaluate(untrained, corpus.validation, seed=0, batch=16, max_rows=64)
end = evaluate(model, corpus.validation, seed=0, batch=16, max_rows=64)
classes = [
    name
    for name in CLASSES
    if name in ("space", "word start", "letter", "punctuation")
]
print("boundary after a     untrained  trained")
for name in classes:
    label = "other letter" if name == "letter" else name
    first, last = start.class_rates[name], end.class_rates[name]
    print(f"{label:20s} {first:9.1f} {last:8.1f}")
assert end.class_rates["space"] > 3 * end.class_rates["letter"]

# %% tags=["nbval-ignore-output"]
# not compared: colours of a training run differ between processors
after = boundary_view(model, text, seed=0)
display(
    HTML(
        boundary_html(
            text,
            after["boundaries"],
            after["probabilities"],
            "The passage after training: boundaries follow the spaces.",
        )
    )
)

# %% [markdown]
# The same passage, drawn as the paper's figures draw it:

# %% mystnb={"figure": {"caption": "The passage after training, coloured as in the paper's figure 2.", "name": "fig-quickstart-text"}, "image": {"alt": "A passage as a grid of coloured characters. Spaces are yellow with a red edge, most letters dark blue."}}
plots.show(
    plots.boundary_figure(text, after["boundaries"], after["probabilities"]),
    checksum=False,
)

# %% [markdown]
# Now almost every space ends a token, and few other bytes do. The model was never given a list of words, nor the idea of a space.
#
# ## Why spaces?
#
# Which bytes are hard to predict when there are no boundaries? The *early head* tells: a second output of the model, which
# predicts the next byte before any boundary is drawn. Its loss, $-\log p$ of the byte that came, is how much that byte
# *surprises* it. The unit is the nat, because the logarithm is natural. Orange bars are first letters of words; a dot stands for
# a space.

# %% mystnb={"figure": {"caption": "How surprising each byte of the passage's beginning is to the early head, which knows no boundaries. Orange: first letters of words.", "name": "fig-surprise"}, "image": {"alt": "Bars over the characters of a sentence. The orange bars at first letters of words are tall; so are some bars inside long words."}}
ids = text_ids(text[:64])
with torch.no_grad():
    surprise = model.eval()(ids).early_nll[0]
starts = [
    char.isalpha() and text[i - 1] == " " for i, char in enumerate(text)
]
figure, axes = plt.subplots(figsize=(7.4, 2.6))
axes.bar(
    range(64), surprise, color=["C1" if s else "C0" for s in starts[:64]]
)
axes.set_xticks(range(64), text[:64].replace(" ", "·"), fontsize=7)
axes.set(ylabel="surprise (nats)")
plots.show(figure, checksum=False)

# %%
numbers = range(128)  # rows: pieces of text, here not used in training
ids = corpus.validation.ids(numbers)
uniforms = row_uniforms(seed=0, step=0, rows=numbers, length=128)
with torch.no_grad():
    out = model(ids, uniforms=uniforms)
kind = byte_classes(ids)[:, :-1]
# out.drawn: where there was a decision, whatever it was
print("mean surprise of the byte that comes after a ... (nats)")
for name in classes:
    these = (kind == CLASSES.index(name)) & out.drawn
    label = "other letter" if name == "letter" else name
    print(f"{label:20s} {float(out.early_nll[these].mean()):.1f}")
size = float(out.early_nll[out.drawn].std())
print(f"spread of all surprises (standard deviation): {size:.1f}")

# %% [markdown]
# On average, the first letter of a word is the hardest byte, and a boundary after a space comes right before it. Does the
# boundary help there? To test this, take one boundary after a space, leave all others as they were drawn, and see how the loss
# of the next eight bytes changes when the boundary is
#
# * *removed*,
# * moved *one byte earlier*, before the space, or
# * moved *one byte later*, after the first letter.
#
# Predict which edit costs most in a model that has learned its boundaries. (A boundary after a byte can already help to predict
# the very next byte.)

# %% tags=["prediction"]
guess = None  # "removed", "one byte earlier" or "one byte later"

# %% [markdown]
# The answer comes from two stored networks of the same size, trained three times as long as ours, one seed each. One learned
# where to put its boundaries. The other was trained with boundaries at random places, so it is used to none in particular. A
# fourth edit is for comparison: a boundary *added in a word*, between two letters.

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
stored = json.loads(Path("results/spaces.json").read_text())
print("change of the loss, summed over the next bytes (nats)")
print(f"{'trained with':18s} own boundaries   random ones")
for name in ch00_spaces.EDITS:
    sums = [sum(one["effects"][name]["mean"]) for one in stored["runs"]]
    shown = [round(value, 2) + 0.0 for value in sums]  # no -0.00
    print(f"{name:18s} {shown[0]:+14.2f} {shown[1]:+13.2f}")
losses = [f"{one['nll']:.2f}" for one in stored["runs"]]
print("loss per byte without edits:", " and ".join(losses))
own = stored["runs"][0]["effects"]
moves = [name for name in own if name != "added in a word"]
print(judge(guess, max(moves, key=lambda name: sum(own[name]["mean"]))))

# %% mystnb={"figure": {"caption": "Change of the loss of each of the next bytes after one edit, held-out text, with 95 % intervals over rows. Above zero: the edit hurts. Left: a network trained with the boundaries of its policy; right: one trained with random boundaries. The three edits of boundaries after a space, and a boundary added between two letters.", "name": "fig-edits"}, "image": {"alt": "Two panels, four curves each, over the next one to eight bytes. Left: with the boundary removed the curve stays at zero; moved one byte earlier it lies highest, with its top after four bytes; moved one byte later, or added in a word, it lies between; all fall towards zero at eight bytes. Right: all four curves stay at zero."}}
plots.show(ch00_spaces.effects_figure(stored))

# %% [markdown]
# This is not what we expected. *Removing* the boundary costs next to nothing: the bytes after it use the previous token instead.
# What costs is a boundary in an unusual place, most of all one byte early: that token ends with the last letter of a word and
# has not seen the space. And it costs only in the network that learned its boundaries. The one trained with random boundaries
# hardly reacts to any edit, although it predicts almost as well.
#
# So a boundary after a space is worth little *by itself*. The network has come to rely on a convention: tokens always end in the
# same way. The policy and the layers that use its tokens have adapted to each other. This experiment does not show why they
# settled on places before the hardest bytes.
#
# How strongly do boundaries favour surprising bytes? *Boundary enrichment* {cite}`neitemeier2026` puts this into a number:
#
# $$B = \frac{\text{mean surprise of the bytes right after a boundary}}{\text{mean surprise of all bytes}},$$
#
# which is 1 for boundaries placed without regard to surprise. (The cited paper describes it in words; this ratio is our
# reading.) The table compares the learned boundaries with five other ways to place them. The last, `hardest fifth`, puts one
# before each byte of the most surprising fifth. Surprise is always that of our trained model's early head.

# %%
chosen = {"learned, trained": out.boundaries}
for name, rule in (
    ("learned, untrained", "learned"),
    ("after each space", "whitespace"),
    ("evenly spaced", "even"),
    ("random places", "random_k"),
):
    settings = with_settings(config, {"model.rule.name": rule})
    with torch.no_grad():
        made = new_model(settings, device)(ids, uniforms=uniforms)
    chosen[name] = made.boundaries
fifth = torch.quantile(out.early_nll[out.drawn], 0.8)
chosen["hardest fifth"] = out.early_nll > fifth
print("boundaries           per byte   enrichment B")
for name, places in chosen.items():
    rate = float(places[out.drawn].float().mean())
    value = ch00_spaces.enrichment(out.early_nll, places, out.drawn)
    print(f"{name:20s} {rate:8.2f} {value:14.1f}")

# %% [markdown]
# The trained policy favours surprising bytes, slightly more than boundaries after every space do. The last line is an upper
# limit at this rate. No method can reach it without knowing the next byte.
#
# These measurements already show three ideas of the method:
#
# * **Return.** Moving a boundary changes the loss of several later bytes, not only of the next. So the reward of a decision is a
#   sum over later bytes.
# * **Discount.** The effect fades within about eight bytes. So later bytes count less in the sum.
# * **Early exit.** Some bytes are hard wherever boundaries are: surprise varies much more from byte to byte than one boundary
#   changes it. So the reward is not the model's loss itself but its gain over the early head, which meets the same hard bytes
#   and knows no boundaries.
#
# ## Three numbers that tell whether a policy has learned
#
# * The *entropy* of the policy says how undecided it is: $-p \log p - (1-p) \log (1-p)$ for each decision, largest at $p = 1/2$.
# * The *rate* says how many boundaries it draws for each byte. It should stay near the target.
# * The *loss* says how well the model predicts. Its gap to the early head's loss is what all layers after the early head add.
#   Only a comparison with random places tells how much of this is due to *where* boundaries are; the command `make demo` makes
#   one.

# %% mystnb={"figure": {"caption": "One short run. Left: loss of the whole model and of the early head. Right: rate and entropy of the policy.", "name": "fig-quickstart"}, "image": {"alt": "Two panels over updates. Left, two falling loss curves, the model's ends below the early head's. Right, the policy's entropy falls towards zero while its rate stays near the target."}}
steps = [point["step"] for point in record.curve]
figure, (left, right) = plt.subplots(1, 2)
left.plot(steps, [point["nll"] for point in record.curve], label="model")
left.plot(
    steps,
    [point["early_nll"] for point in record.curve],
    label="early head",
    linestyle="--",
)
left.set(xlabel="update", ylabel="loss (nats per byte)")
left.legend()
right.plot(
    steps,
    [point["policy_entropy"] for point in record.curve],
    label="entropy (nats)",
)
right.plot(
    steps,
    [point["rate"] for point in record.curve],
    label="rate (per byte)",
    linestyle="--",
)
right.axhline(
    config.model.rule.target_rate,
    color="k",
    linewidth=0.8,
    label="target rate",
)
right.set(xlabel="update", ylim=(0, None))
right.legend()
plots.show(figure, checksum=False)

# %%
first, last = record.curve[0], record.curve[-1]
halved = last["policy_entropy"] < first["policy_entropy"] / 2
print("entropy falls to less than half of its start:", halved)
near = abs(end.rate - config.model.rule.target_rate) < 0.05
print("rate at the end is within 0.05 of the target:", near)
print("the loss falls by more than half:", last["nll"] < first["nll"] / 2)

# %% [markdown]
# ## What we saw
#
# * A boundary is a yes-or-no decision after every byte, drawn from a probability that the model computes.
# * The model was told how often to end a token. Where, it learned from its predictions alone: after spaces, before the bytes
#   that are hardest to predict.
# * A single boundary is worth little by itself; what costs is one where the network does not expect it.
# * Whether learned boundaries beat other rules is the question of [chapter 07](07_reading_the_results.ipynb).
#
# ## Exercises
#
# **1. Is it really the space?** (easy, 5 minutes) Give the trained model a text in which every space is an underscore. Predict
# first: will boundaries follow the underscores? Then count.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
underscored = text.replace(" ", "_")
view = boundary_view(model, underscored, seed=0)


def share_after(mark: str, shown: dict, written: str) -> float:
    """Share of the bytes `mark` that carry a boundary."""
    pairs = zip(shown["boundaries"], written.encode())
    return float(np.mean([bit for bit, byte in pairs if byte == ord(mark)]))


after_space = share_after(" ", after, text)
after_underscore = share_after("_", view, underscored)
print(f"share of spaces with a boundary      {after_space:.1f}")
print(f"share of underscores with a boundary {after_underscore:.1f}")
print("The policy has learned about the space, not about gaps between words.")
assert after_space > after_underscore

# %% [markdown]
# **2. How random is a draw?** (easy, 5 minutes) Draw the boundaries of the same text with five seeds, before and after training.
# At how many positions do the draws disagree? Which of the three numbers above explains it?


# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
def disagreeing(drawing_model) -> int:
    """Positions at which five draws of the same text are not all equal."""
    draws = [
        boundary_view(drawing_model, text, seed=seed)["boundaries"]
        for seed in range(5)
    ]
    return sum(len(set(column)) > 1 for column in zip(*draws))


fewer = disagreeing(model) < disagreeing(untrained)
print("fewer disagreements after training:", fewer)
print(
    "Entropy explains it: a decided policy draws nearly the same each time."
)

# %% [markdown]
# **3. Edit boundaries yourself** (medium, 10 minutes) `ch00_spaces.effects` makes the edits of "Why spaces?". Apply it to this
# chapter's own model, with 40 places for each edit. Which edit of a boundary after a space costs least, and which most? Are they
# the same as in the network that was trained longer?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
mine = ch00_spaces.effects(model, ids, out.boundaries, most=40)
sums = {name: float(mine[name][0].sum()) for name in moves}
theirs = {name: sum(own[name]["mean"]) for name in moves}
for choose, word in ((min, "cheapest"), (max, "costliest")):
    here, there = choose(sums, key=sums.get), choose(theirs, key=theirs.get)
    print(f"{word}: {here} here, {there} there")

# %% [markdown]
# ## Where to go next
#
# The [next chapter](01_bytes_tokens_and_the_unet.ipynb) opens the network: how bytes become tokens and tokens become bytes
# again. To train on your own text first, see [using rltok](../book/using_rltok.md). The [glossary](../book/glossary.md) explains
# words and symbols.
#
# The settings at the top are the preset `tiny` with shorter rows. They let the policy move much faster than the paper's settings
# do: the weight of its reward is 30 times larger, and what the policy computes is 16 times larger before it is made a
# probability. Also, byte layers see 4 bytes instead of 64. So a minute of training shows the effect; [chapter
# 04](04_the_boundary_policy.ipynb) says what that changes.
