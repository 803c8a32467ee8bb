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
# **After this chapter you can** say what a token boundary is here, train a model that learns where to put them, and read the
# three numbers that tell whether it did.
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
import tempfile

import rltok
from rltok.byte_classes import CLASSES
from rltok.config import with_settings
from rltok.data import FIXED_TEXTS, load_corpus
from rltok.device import resolve_device
from rltok.evaluation import evaluate
from rltok.runs.models import new_model
from rltok.runs.snapshots import boundary_view
from rltok.show import plots
from rltok.show.views import boundary_html

plots.use_style()
device = resolve_device("cpu")  # so that every reader sees the same digits

# %% [markdown]
# ## A text is bytes, and a model has to group them
#
# A language model that reads one byte at a time spends its whole depth on every single letter. So language models group bytes
# into *tokens* first. Usually a separate program does that, by rules fixed before training starts. The model in this book decides
# by itself, byte by byte: *does a token end here?* The method is that of the paper this book reproduces,
# {cite}`dauncey2026`.
#
# That decision is a *boundary*. Let us look at the boundaries of a model that has learned nothing yet.

# %%
text = FIXED_TEXTS["prose"]
data = text.encode("utf-8")
print(f"{len(text)} characters, {len(data)} bytes")
print("first bytes:", list(data[:8]), "=", repr(data[:8].decode()))

# %%
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
untrained = new_model(config, device)
before = boundary_view(untrained, text, seed=0)
print(
    f"{sum(before['boundaries'])} tokens in {len(data)} bytes; wanted: one boundary every {1 / config.model.rule.target_rate:g} bytes"
)

# %%
from IPython.display import HTML, display

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
# Blue means that a boundary after this character is unlikely, yellow that it is likely, and a red edge marks a boundary that was
# drawn. Everything is nearly the same blue: the *policy*, the part of the model that computes these probabilities, starts at the
# wanted rate everywhere, and the drawn boundaries are accidents.
#
# The settings above are those of the preset `tiny` on shorter rows. They make the policy move much faster than the paper's
# do (its `scale` is 16 times smaller, the weight of its reward 30 times larger, its byte layers see 4 bytes instead of 64), so that
# the effect fits into a minute.
#
# ## Predict, then train
#
# In a moment the model trains for well under a minute on novels and government prose. It is told how *often* to end a token, one
# boundary every five bytes, because otherwise it would end one after every byte. It is not told *where*. There, its only
# reward is: does a boundary here help to predict the next bytes?
#
# Before you run the next cell, write down your guess. After which kind of byte will boundaries be most frequent?

# %% tags=["prediction"]
guess = "letter"  # one of: space, word start, letter, punctuation
print("my guess:", guess)

# %%
corpus = load_corpus("sample", config.data)
folder = tempfile.mkdtemp()
record = rltok.train(
    config, corpus, f"{folder}/run", device="cpu", full=False
)
print(
    f"{record.updates} updates on {record.bytes:,} bytes of {corpus.description['name']}"
)

# %%
model = rltok.load(f"{folder}/run")
start = evaluate(untrained, corpus.validation, seed=0, batch=16, max_rows=64)
end = evaluate(model, corpus.validation, seed=0, batch=16, max_rows=64)
shown = [
    name
    for name in CLASSES
    if name in ("space", "word start", "letter", "punctuation")
]
print("boundary after a ...   before   after")
for name in shown:
    label = "other letter" if name == "letter" else name
    print(
        f"{label:20s} {start.class_rates[name]:8.1f} {end.class_rates[name]:7.1f}"
    )

# %%
most = max(shown, key=lambda name: end.class_rates[name])
print("boundaries are most frequent after:", most)
print(
    "the guess was", "right" if guess == most else "wrong: look at the table"
)
assert end.class_rates["space"] > 3 * end.class_rates["letter"]

# %% tags=["nbval-ignore-output"]
# not compared: every colour follows from a training run, whose digits differ a little between processors
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
# The paper's figures show such texts as a grid. Here is the same passage in that manner:

# %% mystnb={"figure": {"caption": "The passage after training, coloured as in the paper's figure 2.", "name": "fig-quickstart-text"}, "image": {"alt": "A passage as a grid of coloured characters. Spaces are yellow with a red edge, most letters dark blue."}}
plots.show(
    plots.boundary_figure(text, after["boundaries"], after["probabilities"]),
    checksum=False,
)

# %% [markdown]
# Nobody told the model what a space is. It found that a token which ends right after a space is worth having. One reading of it:
# that is where the next word begins, and where the letters so far say least about what comes. We have not tested that reading.
#
# ## Three numbers that tell whether a policy has learned
#
# * The *entropy* of the policy says how undecided it is: $-p \log p - (1-p) \log (1-p)$ for each decision, in nats (natural
#   logarithm), largest at $p = 1/2$.
# * The *rate* says how many boundaries it draws for each byte. It should stay near the target.
# * The *loss* says how well the model predicts: the mean of $-\log p$ of the right next byte. The *early head* is a second
#   output that predicts from the first byte layers alone, without tokens. Its loss tells how hard the text is, and the gap to
#   the model's loss is what tokens *and* the last byte layers add. To isolate where tokens end, compare with random places,
#   as `make demo` does.

# %% mystnb={"figure": {"caption": "One short run. Left: loss of the whole model and of the early head. Right: rate and entropy of the policy.", "name": "fig-quickstart"}, "image": {"alt": "Two panels over updates. Left, two falling loss curves, the model's ends below the early head's. Right, the policy's entropy falls towards zero while its rate stays near the target."}}
import matplotlib.pyplot as plt

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
print(
    f"entropy falls to less than half of its start: {last['policy_entropy'] < first['policy_entropy'] / 2}"
)
print(
    f"rate at the end is within 0.05 of the target: {abs(end.rate - config.model.rule.target_rate) < 0.05}"
)
print(f"the loss falls by more than half: {last['nll'] < first['nll'] / 2}")

# %% [markdown]
# ## What we saw
#
# * A boundary is a yes-or-no decision after every byte, drawn from a probability that the model computes.
# * Rewarded only for better predictions, the model came to end its tokens after spaces.
# * This run shows that boundaries *can* be learned. It does not show that they beat other rules: `make demo` compares them with
#   random places. Chapters that compare them with every other rule, at sizes where it matters, are planned.
#
# ## Exercises
#
# **1. Is it really the space?** (easy, 5 minutes) Give the trained model a text in which every space is an underscore. Predict
# first: will boundaries follow the underscores? Then count.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
underscored = text.replace(" ", "_")
view = boundary_view(model, underscored, seed=0)
after_space = sum(
    b for b, byte in zip(after["boundaries"], data) if byte == ord(" ")
) / data.count(b" ")
after_underscore = sum(
    b
    for b, byte in zip(view["boundaries"], underscored.encode())
    if byte == ord("_")
) / data.count(b" ")
print(
    f"of spaces {after_space:.1f} carry a boundary, of underscores {after_underscore:.1f}"
)
assert after_space > after_underscore

# %% [markdown]
# **2. How much of a draw is chance?** (easy, 5 minutes) Draw the boundaries of the same text with five seeds, before and after
# training. In how many positions do the draws disagree? Which number above explains it?


# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
def disagreeing(drawing_model) -> int:
    """Positions at which five draws of the same text are not all equal."""
    draws = [
        boundary_view(drawing_model, text, seed=seed)["boundaries"]
        for seed in range(5)
    ]
    return sum(len(set(column)) > 1 for column in zip(*draws))


print(
    "fewer disagreements after training:",
    disagreeing(model) < disagreeing(untrained),
)
print("the entropy explains it: a decided policy leaves little to chance")

# %% [markdown]
# ## Where to go next
#
# The [next chapter](01_bytes_tokens_and_the_unet.ipynb) opens the network: how bytes become tokens and tokens become bytes again.
# If you would rather train on your own text first, the README has the three commands. The
# [glossary](../book/glossary.md) explains words and symbols.
