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
# # 08 Explore and generate: a trained model on your own sentence
#
# **In short.** A small model of English that comes with the package ends its tokens after the spaces of sentences that it never saw,
# and continues a prompt with English words that make no sense. Caches make this writing fast and change no byte of it. In other
# scripts the model still ends a token at nearly every space, but its other boundaries make little sense, probably because
# it hardly read such text. The chapters before asked where boundaries come from and what they are worth; this one hands you the
# result.
#
# **After this chapter you can** look at any text through any model, generate text with its boundaries, and say what a model's
# boundaries on another script do and do not tell.
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
import textwrap
from pathlib import Path

from IPython.display import HTML, Markdown, display

import rltok
from rltok.data.sources import sample_documents
from rltok.evidence.chapters import ch08_explore
from rltok.explore import explorer, places, read
from rltok.explore.kinds import by_themselves, each_byte
from rltok.generation import Generation, Sampling, generate
from rltok.runs.loading import load_config
from rltok.show import plots
from rltok.show.notebook import judge
from rltok.show.readings import enrichment, keys, reading_html

plots.use_style()
NAME = "small-english"
row_bytes = load_config(NAME).data.sequence_length
# in double precision, so that every reader sees the same digits
model = rltok.load(NAME).double()
results = Path("results")
print(f"{sum(p.numel() for p in model.parameters()):,} parameters;", end=" ")
print(f"trained on rows of {row_bytes:,} bytes")

# %% [markdown]
# ## A sentence of yours
#
# `rltok.load` takes the name of a model that comes with the package (`rltok models` lists them), a run's folder or a file.
# Below, a model reads a sentence, which is then drawn as on the book's [first page](../book/intro.md).
#
# Bytes in the middle of a word are the easiest to predict, and the first letter of the next word is the hardest. If boundaries
# stand before such letters, the bytes right after boundaries are more surprising than others. *Boundary enrichment* (chapter 00) is
# the ratio: mean surprise right after a boundary over mean surprise of all bytes, for the early head, which knows no boundaries.
# Random places give about 1. Predict: what does the sentence in the next cell give?

# %% tags=["prediction"]
guess = None  # of: below 1, 1 to 1.5, above 1.5

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
sentence = "Nobody on the quay seemed to mind the unscheduled departure."
reading = read(model, sentence, row_bytes=row_bytes, seed=0)
ratio = enrichment(reading)
print(f"{sum(reading.boundaries)} boundaries in {len(reading.data)} bytes")
print(f"boundary enrichment {ratio:.2f}")
kind = "above 1.5" if ratio > 1.5 else "1 to 1.5" if ratio >= 1 else "below 1"
print(judge(guess, kind))

# %%
picture = reading_html(reading, "A sentence and its boundaries") + keys()
display(HTML(picture))

# %% [markdown]
# The panel below does this while you type, for one model or for two side by side; where the two disagree, the text is yellow. Hover
# over a character for its code points and bytes. In JupyterLab or Colab the panel answers; on the page of the book it is a picture.

# %% tags=["nbval-ignore-output"]
# not compared: a live widget has another identity every time
explorer(NAME, "demo", text=sentence)

# %% [markdown]
# ## Continue a prompt
#
# The model draws a byte, reads it, decides whether a token ends there, and draws the next. `temperature` divides the logits:
# below 1 likely bytes become likelier, and 0 always takes the likeliest. `top_k` admits the k likeliest bytes only. The next cell
# draws 500 bytes. Predict: what percentage of the words will be English, that is, occur anywhere in the bundled training text?

# %% tags=["prediction"]
guess = None  # a number from 0 to 100

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
prompt = "The captain looked at the sea and "
settings = {"max_bytes": 500, "temperature": 0.8, "seed": 0}
(row,) = generate(model, [prompt], **settings)


def words_of(text: str) -> list[str]:
    """Words in lower case, without marks around them."""
    return [word.strip(".,;:!?\"'()").lower() for word in text.split()]


known = {
    word
    for document in sample_documents("train")
    for word in words_of(document.text.decode())
}
words = words_of(prompt + row.text)[:-1]  # the last one may be cut off
share = round(100 * sum(word in known for word in words) / len(words))
print(judge(guess, share))

# %%
print(textwrap.fill(prompt + row.text, width=78))
print()
print("not in it:", *sorted({w for w in words if w not in known})[:6])

# %% [markdown]
# Nearly every word is English and hardly a sentence means anything: a model of this size learns spelling and some grammar. In a
# terminal, `rltok generate small-english 'The captain'` prints such text as it comes. The same prompt with other settings:

# %%
for settings in (
    {"temperature": 0},
    {"temperature": 0.5},
    {"temperature": 1.5},
    {"temperature": 1.5, "top_k": 3},
):
    (other,) = generate(model, [prompt], max_bytes=60, seed=0, **settings)
    print(*(f"{name} {value}" for name, value in settings.items()), sep=", ")
    print("   ", repr(other.text))

# %% [markdown]
# At temperature 0 it repeats itself, at 1.5 it stops spelling, and `top_k` brings the spelling back.
#
# ## What the cache does
#
# A full pass for every byte computes everything again for all bytes before it. With caches, a byte layer keeps keys and values of
# the bytes in its window, a token layer those of all tokens, and the token layers run only after a boundary. Predict for the
# prompt and the bytes above: how many times fewer byte positions are computed?

# %% tags=["prediction"]
guess = None  # a number

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
work = ch08_explore.positions(row)
print(f"{'':8s}{'full passes':>12s}{'cached':>8s}")
print(f"{'bytes':8s}{work.bytes_full:12,}{work.bytes_cached:8,}")
print(f"{'tokens':8s}{work.tokens_full:12,}{work.tokens_cached:8,}")
print(judge(guess, round(work.bytes_full / work.bytes_cached)))

# %% [markdown]
# The text must not change. Both ways use the same random numbers, one for each boundary and one for each byte, so bytes and boundaries
# must agree:

# %%
short = Sampling(max_bytes=40, temperature=0.8, seed=0)
(cached,) = Generation(model, [prompt], short).results()
(full,) = Generation(model, [prompt], short, cached=False).results()
print("same bytes:", cached.data == full.data)
print("same boundaries:", cached.boundaries == full.boundaries)
assert cached == full

# %% [markdown]
# The gain in time is smaller, because small steps use a processor badly. In bytes per second, from a stored record of models with
# fresh weights, on a CPU and on a card:

# %%
Markdown(ch08_explore.speeds(results / "generation.json"))

# %% [markdown]
# On a card caches help a single row much less. The card computes all positions of a full pass at once, and launching kernels one after
# the other, not arithmetic, takes most of its time. A step with caches has far fewer positions, but only a few times fewer kernels.
# For the same reason a step for many rows takes not much longer than one for a single row: give a card many prompts at once.
#
# ## A model of code
#
# `small-python` comes with the package, too: about half as large, trained with the same method on Python code. It reads the beginning of rltok's
# own code, which was not in its training text; the model of English reads it as well. Predict: after which of these does the model of code
# draw a boundary most often: a space, a vowel, a closing bracket?

# %% tags=["prediction"]
guess = None  # of: space, vowel, closing bracket

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
code = Path("../tests/items/python.txt").read_bytes()[:8192]
of_code = rltok.load("small-python").double()
both = {NAME: model, "small-python": of_code}
drawn = {
    name: read(each, code, row_bytes=row_bytes, seed=0).boundaries
    for name, each in both.items()
}
kinds = places(code, drawn["small-python"])
options = {
    "space": "other white space",
    "vowel": "vowel",
    "closing bracket": "closing bracket",
}
shares = {
    name: kinds[kind][0] / kinds[kind][1] for name, kind in options.items()
}
print(judge(guess, max(shares, key=shares.get)))

# %%
Markdown(ch08_explore.kinds_table(code, drawn))

# %% [markdown]
# A kind can hide what its members do. The model of code again, letter by letter and sign by sign:

# %%
by_byte = each_byte(code, drawn["small-python"])
Markdown("\n\n".join(by_themselves(by_byte)))

# %%
passage = """def mean_price(rows):
    prices = [row["price"] for row in rows if row["stock"] > 0]
    return sum(prices) / max(1, len(prices))
"""
for name, each in both.items():
    seen = read(each, passage, row_bytes=row_bytes, seed=0)
    display(HTML(f"<p><b>{name}</b></p>" + reading_html(seen, name)))
display(HTML(keys()))

# %% [markdown]
# The model of code draws no boundary after a space. It draws one after nearly all digits and closing brackets, but most of its boundaries
# stand after consonants. Which consonant it is decides, and signs differ as much: nearly always one after `[`, never one after `(`. The
# first consonants of a word have boundaries more often than later ones; in chapter 06b a large run on English had many boundaries there,
# too. The model of English ends tokens at white space in code as well, of which it read little. Before the run we expected white space in
# code to have boundaries more often than chance gives. Much of it is indentation, which is easy to predict, but whether that is why was
# not tried: this is one run with one seed. The model's card (`rltok models small-python`) counts more bytes.

# %% [markdown]
# ## Other scripts
#
# What does a model of English do with Tamil? Nothing is trained here. The texts are the beginning of a page of a guide for maintainers of
# software ([opensource.guide](https://opensource.guide), CC BY 4.0) in translations, and, in English, of another page of it. Japanese has no
# spaces between words, and each of its characters takes three bytes. Predict: after which kind of byte will most Japanese tokens end: white space, other ASCII, the
# last byte of a longer character, or an earlier byte of one?

# %% tags=["prediction"]
guess = None  # of: white space, other ASCII, last byte, earlier byte

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
record = json.loads((results / "scripts.json").read_text())
texts = record["texts"]
plain = rltok.load(NAME)  # single precision is enough for one decimal
counts = {}
for name in ("english", "tamil", "japanese"):
    seen = read(plain, texts[name], row_bytes=row_bytes, seed=0)
    counts[name] = ch08_explore.byte_kinds(texts[name], seen.boundaries)
    print(f"{name}: boundaries after")
    for kind, (drawn, there) in counts[name].items():
        print(f"    {drawn:4d} of {there:4d}  {kind}")
print(judge(guess, max(counts["japanese"], key=counts["japanese"].get)))

# %%
piece = texts["japanese"][:24]
seen = read(model, piece, row_bytes=row_bytes, seed=0)
display(HTML(reading_html(seen, "The opening in Japanese") + keys()))

# %% [markdown]
# A line inside a character marks a token that ends in the middle of it. In Tamil and in Japanese this is the rule: boundaries are rarer
# after the last byte of a character than after an earlier one. Here are all languages:

# %%
found = [
    ch08_explore.language(plain, name, text, row_bytes)
    for name, text in texts.items()
]
Markdown(ch08_explore.languages_table(found, record["training"]))

# %%
drawn = there = 0
for name in set(texts) - {"english"}:
    seen = read(plain, texts[name], row_bytes=row_bytes, seed=0)
    kinds = ch08_explore.byte_kinds(texts[name], seen.boundaries)
    drawn, there = (
        x + y for x, y in zip((drawn, there), kinds["white space"])
    )
print(f"all but English: boundaries after {drawn} of {there} white spaces")

# %% [markdown]
# ### Is the training text the reason?
#
# Probably. The last column says how little the model read: of a million bytes of its training text, only so many are in the script of
# the row (for languages in Latin letters: letters beyond ASCII). What it read beyond ASCII was mostly dashes and quotation marks, not
# letters. So it could hardly learn which bytes end a character. What it did learn carries over: a space is a space in every
# language, and gets its boundary. In English without spaces the model hardly draws a boundary, as exercise 1 shows.

# %% mystnb={"figure": {"caption": "Share of boundaries that divide a character, over how much of its script the training text held; a dot for each language.", "name": "fig-other-scripts"}, "image": {"alt": "A point a language. French and Spanish, with the most text, lie lowest; Japanese, Tamil and Chinese highest, but Chinese had about as much text as Russian and more than Korean, which lies far lower."}}
plots.show(ch08_explore.scripts_figure(found, record["training"]))

# %% [markdown]
# The more text of a script, the fewer divided characters, but not strictly: scripts also differ in bytes per character.

# %%
scripts = record["training"]["scripts"]
beyond = record["training"]["bytes"] - scripts["ASCII"]
print(
    f"beyond ASCII: {beyond / record['training']['bytes']:.2%} of training,"
)
print(f"of which {scripts['other'] / beyond:.0%} are not letters")
by_name = {one.name: one for one in found}
for name in ("english", "japanese"):
    one = by_name[name]
    print(f"{name}: a token every {one.bytes_per_token:.1f} bytes,", end=" ")
    print(f"{one.bytes_per_token / one.bytes_per_character:.1f} characters")

# %% [markdown]
# The table cannot say whether the method *could* find words in Japanese; for that a model would have to be trained on Japanese. Nor do
# few bits per byte mean that the model understands: a Greek letter takes two bytes, and the first of them takes few values, which are
# easy to predict. A fixed rule that ends tokens at white space would make next to no tokens of Japanese or Chinese; this model makes
# many, cut in the wrong places.

# %% [markdown]
# ## What we saw
#
# * On a sentence it never saw, the model's boundaries fall before surprising bytes, most of them after spaces.
# * It writes English words without sense; temperature and `top_k` trade variety for spelling.
# * With caches hundreds of times fewer positions are computed, for the same bytes and boundaries.
# * A model of code that was trained in the same way never ends a token after a space. It ends them after digits, closing brackets, and
#   some consonants and signs, but never after others.
# * On scripts that it hardly read, boundaries at spaces remain, and many others divide characters. This is about its training text;
#   the method was not tried on these scripts.
#
# ## Exercises
#
# **1. A sentence without spaces** (easy, 5 minutes) Take the spaces out of the sentence above. Will the model still end its tokens
# at the ends of words? Count.


# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
joined = sentence.replace(" ", "")
ends, place = set(), -1
for word in sentence.split():
    place += len(word)
    ends.add(place)
seen = read(model, joined, row_bytes=row_bytes, seed=0)
drawn = [i for i, boundary in enumerate(seen.boundaries) if boundary]
hits = sum(i in ends for i in drawn)
print(f"boundaries: {len(drawn)} in {len(joined)} bytes")
print(f"at an end of a word: {hits} of {len(ends)} ends")

# %% [markdown]
# **2. In two parts** (easy, 5 minutes) Random numbers belong to positions. So a text that was generated, when given back as a prompt,
# goes on as if it had never stopped. Check it: generate 40 bytes; then 20, and 20 more after those.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
(whole,) = generate(model, [prompt], max_bytes=40, seed=3)
(start,) = generate(model, [prompt], max_bytes=20, seed=3)
(rest,) = generate(
    model, [prompt.encode() + start.data], max_bytes=20, seed=3
)
print("the same text:", start.data + rest.data == whole.data)
assert start.data + rest.data == whole.data

# %% [markdown]
# ## Where to go next
#
# [Chapter 09](09_beyond_the_paper.ipynb) asks what the paper left open. [Using rltok](../book/using_rltok.md) has the commands to train, show and compare models of your own.
