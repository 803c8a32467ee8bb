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
# # TITLE
#
# **In short.** Two sentences: what came out, and where the chapter stands in the story.
#
# **After this chapter you can** count the ways to place boundaries in a short text. *(Say here what the reader will be able to
# do.)*
#
# <!-- strip -->
# <!-- /strip -->

# %% cellView="form" jupyter={"source_hidden": true} tags=["first-cell", "hide-input", "nbval-ignore-output"]

# %% tags=["setup"]
import torch

from rltok import vocab
from rltok.show.notebook import judge

torch.manual_seed(0)
text = "a byte"
ids = list(text.encode("utf-8"))
print(
    len(ids),
    "bytes:",
    ids,
    "and the markers",
    vocab.BOS,
    vocab.EOS,
    vocab.PAD,
)

# %% [markdown]
# ## The question
#
# A token may end after each byte but the last, where the text ends anyway. Before you run on: how many ways are there to choose?

# %% tags=["prediction"]
guess = None  # a number

# %% tags=["measurement", "hide-output"]
ways = 2 ** (len(ids) - 1)
print(judge(guess, ways))

# %% [markdown]
# ## What we saw
#
# * Each byte after the first doubles the number of ways.
#
# ## Exercises
#
# **1. Every boundary with probability one half** (easy, 5 minutes) How many tokens does the text then have on average? Think
# first, then compute.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
print("tokens on average:", 1 + (len(ids) - 1) / 2)
