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
# # 06 Run it
#
# **In short.** A run of the paper's size needs no new code, only another preset. On one H100 it takes hours, and a tenth of it
# minutes. You start it with one command and leave it alone. After an interruption the same command goes on where it stopped; on a
# CPU it reaches the same weights, to the last digit. The chapters before were about what is trained, and this one is about how;
# [chapter 06b](06b_what_the_large_run_did.ipynb) says how our runs turned out.
#
# **After this chapter you can** say what a large run takes before you start it, start it, stop it, go on with it, and read its record.
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
import sys
import tempfile
import tomllib
from pathlib import Path
from unittest import mock

import matplotlib.pyplot as plt
import torch
from IPython.display import Markdown

import rltok
from rltok.cli.options import parse
from rltok.config import with_settings
from rltok.data import load_corpus
from rltok.evidence.chapters import ch06_plan, ch06_runs
from rltok.evidence.paper import FIGURE_3
from rltok.evidence.records import read_sweeps
from rltok.runs import training
from rltok.show import plots
from rltok.show.notebook import judge
from rltok.show.tables import markdown
from rltok.speed.bench import DATASHEET_RATES
from rltok.speed.fitting import that_fits
from rltok.speed.speeds import fastest, measured_speeds

plots.use_style()
PLAN = Path("scripts/measure/sweeps/147m.toml")
places = (Path(".."), Path("."))
root = next((place for place in places if (place / PLAN).exists()), None)
if root is None:
    raise SystemExit(
        "This chapter reads a plan and results that are not in the package."
        " Clone the repository of rltok and open the notebook in it; or write"
        " the repository's address behind REPOSITORY in the first cell, and"
        " run that again."
    )
results = root / "notebooks" / "results"
plan = tomllib.loads((root / PLAN).read_text())
runs = {run["name"]: run for run in plan["run"]}

# %% [markdown]
# ## The same code, a larger preset
#
# The paper's main model has 147 million parameters and reads six gigabytes of text. What is new at this size is planning, because a
# mistake now costs hours and money. A *plan* is a file; ours, `scripts/measure/sweeps/147m.toml`, has six methods. Here is its first
# run beside the paper's, with FLOPs as chapter 01 counts them (the paper leaves attention out):


# %%
def planned(run):
    """Settings of a run of the plan."""
    base = plan["preset"] + (f"_{run['variant']}" if "variant" in run else "")
    return rltok.preset(base, plan["settings"] | run.get("settings", {}))


config = planned(runs["ours_gamma0.9"])
paper = rltok.preset("147m")
both = {"our plan": config, "the paper's Table 2": paper}
Markdown(ch06_plan.plan_table(both))

# %% [markdown]
# Network and optimizer are the paper's. Three things are not:
#
# * **The text.** The paper reads FineWeb, pages of the web. We could not download it, so we read English from public repositories and old
#   books. Bits per byte on different texts cannot be compared.
# * **How much of it.** We read our text once, a tenth of the paper's budget, and cut each document into windows of full length;
#   the paper takes the beginning of each document. [Chapter 06b](06b_what_the_large_run_did.ipynb) is about what follows from
#   that.
# * **Gamma.** The text of the paper and its authors' code differ ([Paper against code](../book/paper_against_code.md)); our plan has the
#   code's.

# %%
reads, wants = (ch06_plan.pass_bytes(one) for one in (config, paper))
rate = config.model.rule.target_rate
a_byte = rltok.flops.flops_per_byte(config.model, rate)
print(f"we read {reads / wants:.1%} of the paper's bytes")
print(f"FLOPs of the paper's budget by our count: {a_byte * wants:.3g}")
print(f"last FLOPs of the paper's Figure 3: {FIGURE_3['flops']:.3g}")

# %% [markdown]
# The last two lines are a check: the paper's Figure 3 draws losses over FLOPs, and our count lands close to where its curves end.
#
# ## Text for it
#
# With a network, FineWeb comes from the Hugging Face hub, after `pip install 'rltok[data]'`. Prepare it once; after an interruption the
# same command reads what is missing. The first command is for the paper's run, the second for our plan, which drops the end of a
# document where it does not fill a window; to be safe it prepares twice as much text as it reads. (No check of this book runs them.)

# %%
FINEWEB = "fineweb"  # short for the sample that the authors' code reads
given = parse(["prepare", FINEWEB, "--out", "corpora/fineweb"])
held_out = given.validation_fraction + given.test_fraction
for one, out in ((paper, "fineweb"), (config, "fineweb_windows")):
    command = ch06_plan.prepare_command(
        one, FINEWEB, out=f"corpora/{out}", held_out=held_out
    )
    text = ch06_plan.prepared_bytes(one, held_out) / 1e9
    disk = ch06_plan.disk_bytes(one, 1) / 1e9
    print(command)
    print(f"# text: {text:.1f} GB; checkpoints: {disk:.1f} GB", end="\n\n")

# %% [markdown]
# A prepared folder is read from the disk as it is needed, so the machine's memory need not hold it. Without a network, `--data` takes
# files: text, `.jsonl`, or `.parquet` with a column `text`. Ours are Parquet files named `english-*`, put together from public
# repositories; [the page on our texts](../book/texts.md) lists them. With other text, compare differences between methods with ours,
# not losses. Put the files into a folder `corpora`, which git ignores.
#
# ## What it takes
#
# Memory decides first. Eq. (17) compares the rows of one forward pass, so fewer rows make another estimator: a card must hold as
# many rows at once as the plan says (`train.micro_batch`, the preset's). `rltok doctor` says what your card holds, and `rltok bench` how fast it
# is. Time follows from FLOPs:

# %%
card = "NVIDIA H100 80GB HBM3"
print(f"one pass over our text: {a_byte * reads:.2g} FLOPs")
print(f"{card}: at most {DATASHEET_RATES[card]:.2g} FLOPs a second")

# %% [markdown]
# Predict: how many minutes does the pass take on this card? (No training reaches the datasheet's rate. A third of it is good.)

# %% tags=["prediction"]
guess = None  # minutes

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
speeds = measured_speeds()
fast = fastest(speeds, "147m")
print(judge(guess, round(reads / fast["bytes_per_second"] / 60)))
budgets = {"one pass": reads, "6 GB": wants}
Markdown(ch06_plan.cost_table("147m", budgets, speeds))

# %% [markdown]
# The first row is with our Triton kernels, the second with plain PyTorch. These are times of updates; start, evaluation, checkpoints
# and scores come on top. If your card holds fewer rows than the plan says, write the number that it holds into the plan and commit the
# file; do not mix such records with ours. A card that holds too few for a mean in eq. (17) can run the preset `32m`.
#
# ## Start it and leave it
#
# A run of hours has to survive a closed terminal. So start it *detached*, with its progress in a file. Type this block in the folder of
# the repository, with its environment active (`. .venv/bin/activate`). To go on after an interruption, type the block again: finished
# runs stay as they are, and the interrupted one goes on from its newest checkpoint.
#
# ```
# mkdir -p runs
# nohup python scripts/measure/run_sweep.py \
#   scripts/measure/sweeps/147m.toml \
#   --runs runs/147m --records runs/records/147m \
#   --data 'corpora/english-train-*.parquet' \
#   --validation corpora/english-validation.parquet \
#   --tasks corpora/eval --progress >> runs/147m.log 2>&1 &
# echo $! > runs/147m.pid
# ```
#
# With FineWeb, `--data corpora/fineweb_windows` replaces `--data` and `--validation`. `corpora/eval` holds four benchmark sets
# (LAMBADA, HellaSwag, PIQA, ARC-Easy) as files; with a network, `--tasks hub` fetches them. One run alone is `--only ours_gamma0.9`. To watch it, and to stop it:
#
# ```
# tail -f runs/147m.log
# kill $(cat runs/147m.pid)
# ```
#
# A line appears whenever a tenth of the bytes is done, so the log is silent at first. The command needs committed code, because
# its records name the commit. (Saving this notebook is a change, too: `git stash` puts it aside.) Each run trains, is scored on
# validation text and benchmarks, and leaves a record. Test text is read by another command, once for each run, after all choices are made:
#
# ```
# python scripts/measure/score_test.py \
#   scripts/measure/sweeps/147m.toml \
#   --runs runs/147m --records runs/records/147m \
#   --data corpora/english-test.parquet
# ```
#
# Training alone, without a plan or a record for the book, is one call of `rltok`. These are the paper's run, and the first run of our plan:

# %%
print(
    ch06_plan.train_command(
        paper, "147m", data="corpora/fineweb", out="runs/paper_147m"
    ),
    end="\n\n",
)
print(
    ch06_plan.train_command(
        config,
        "147m_gamma0.9",
        data="corpora/english-train-*.parquet",
        validation="corpora/english-validation.parquet",
        out="runs/one_147m",
    )
)

# %% [markdown]
# From Python it is `rltok.train(config, corpus, "runs/one_147m", progress=True)`, and after an interruption the same with `resume=True`.
#
# ## Interrupted on purpose
#
# What does an interruption cost? A run goes on from its newest checkpoint, and what came after that is done again. It should give the
# same numbers the second time, because initial weights, rows and every draw of a boundary are functions of the seed and the number of
# the update. Here is the same configuration with a small network and short rows:

# %%
small = with_settings(
    config,
    {
        "model.embedding_dim": 64,
        "model.num_heads": 2,
        "model.down_layers": 1,
        "model.mid_layers": 2,
        "model.up_layers": 1,
        "data.sequence_length": 128,
        "train.sequences_per_update": 8,
        "train.micro_batch": 8,
        "train.training_bytes": 60 * 8 * 128,
        "train.log_every": 1,
        "train.evaluate_every": 20,
        "train.evaluate_rows": 32,
        "train.checkpoint_every": 20,
    },
)
corpus = load_corpus("sample", small.data)
folder = Path(tempfile.mkdtemp())
here = {"device": "cpu", "full": False}
whole = rltok.train(small, corpus, folder / "whole", **here)
every = small.train.checkpoint_every
print(f"{whole.updates} updates, a checkpoint every {every}")

# %% [markdown]
# The same once more; this time somebody presses control-C between two checkpoints.


# %%
def stopped_in(update):
    """Training that control-C stops in this update."""
    step = training.train_step

    def stopping(*given, **more):
        if given[4] == update:  # the number of the update
            raise KeyboardInterrupt
        return step(*given, **more)

    return mock.patch.object(training, "train_step", stopping)


def curve(run):
    """Lines of training of a run so far, without its times."""
    times = ("seconds", "bytes_per_second")
    log = (folder / run / "metrics.jsonl").read_text().splitlines()
    return [
        {key: line[key] for key in line if key not in times}
        for line in map(json.loads, log)
    ]


stop = 34
try:
    with stopped_in(stop):
        rltok.train(small, corpus, folder / "cut", **here)
except KeyboardInterrupt:
    lost = curve("cut")
    print(f"stopped in update {stop}; last line: update {lost[-1]['step']}")
kept = sorted((folder / "cut" / "checkpoints").iterdir())
print("checkpoints:", ", ".join(path.name for path in kept))

# %% [markdown]
# Predict: how many updates will be done again?

# %% tags=["prediction"]
guess = None  # a number

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
resumed = rltok.train(small, corpus, folder / "cut", resume=True, **here)
second = resumed.sessions[1]
pairs = list(zip(curve("cut"), curve("whole"), strict=True))
different = sum(a != b for a, b in pairs)
weights = [rltok.load(folder / run).state_dict() for run in ("cut", "whole")]
same = all(
    torch.equal(weights[0][name], weights[1][name]) for name in weights[1]
)
print(judge(guess, second["redone"]))
print(f"went on after update {second['after']}; in the end {different} lines")
print(f"differ from the run that never stopped; weights equal: {same}")
assert different == 0 and same

# %% mystnb={"figure": {"caption": "Loss by update: never interrupted (line), stopped and resumed (dots), and the updates that the interruption lost (crosses).", "name": "fig-scale-resume"}, "image": {"alt": "A falling, noisy line. Dots lie exactly on it from the first update to the last; crosses lie on it, too, where updates were lost."}}
figure, axes = plt.subplots()
after = second["after"]
shown = {
    "never interrupted": (curve("whole"), "-"),
    "resumed": (curve("cut"), "."),
    "lost": ([line for line in lost if line["step"] > after], "x"),
}
for words, (lines, style) in shown.items():
    trained = [line for line in lines if line["split"] == "train"]
    points = [(line["step"], line["nll"]) for line in trained]
    axes.plot(*zip(*points), style, label=words)
axes.set(xlabel="update", ylabel="loss (nats per byte)")
axes.legend()
plots.show(figure, checksum=False)

# %% [markdown]
# The crosses lie on the line, too: the lost updates came out the same when they were done again. The run's record has an entry for each
# start, with device, commit and the number of updates done again. (That number is counted from lines of the log. Where not every
# update has a line, as in our plan, the record says *at least*.)
#
# On a card, sums may be taken in another order from run to run, and a difference in the last digit grows over hundreds of updates: the
# curve goes on, but not with the digits of a run that was never stopped. [An
# appendix](../book/beside_the_first_sweep.md#the-same-seed-twice) measures how far apart two runs of one seed end.
#
# ## On Colab
#
# Colab takes the machine back when it likes, and its disk with it. So the run's folder has to lie on Google Drive, and the cell that
# starts the run also goes on with it. (We had no Colab to try this on.) The cell takes as many rows of `147m` as should fit the card, or
# the preset `small` where `147m` does not fit at all; a free T4 has neither the memory for `147m` nor bf16. Fewer rows make another
# estimator, so go on with a run on the same kind of card. [What a program deletes on
# Drive](https://github.com/huggingface/transformers/issues/14922) goes to its bin and still takes up space: frequent checkpoints fill
# the Drive, and rare ones make an interruption costly.

# %%
colab_every = 250  # updates from checkpoint to checkpoint
for name, one in (("147m", config), ("small", rltok.preset("small"))):
    gigabytes = ch06_plan.checkpoint_bytes(one) / 1e9
    count = -(-one.num_updates // colab_every)
    share = min(1, colab_every / one.num_updates)
    print(f"{name}: {count * gigabytes:.1f} GB, kept or in the bin,")
    print(f"  and an interruption costs at most {share:.0%} of the run")

# %%
start_on_colab = False  # set it to True there

if "google.colab" in sys.modules and start_on_colab:
    from google.colab import drive

    drive.mount("/content/drive")
    card = torch.cuda.get_device_properties(0)
    bf16 = card.major >= 8
    fitting = that_fits(config, card.total_memory, bf16, measured_speeds())
    chosen = with_settings(
        fitting or rltok.preset("small"),
        {"train.checkpoint_every": colab_every},
    )
    trained = 1 - chosen.data.held_out_fraction  # the rest is validation
    size = round(chosen.train.training_bytes / trained)
    text = load_corpus("fineweb", chosen.data, max_bytes=size)
    out = f"/content/drive/MyDrive/rltok/{chosen.name}"
    rltok.train(chosen, text, out, resume=True, progress=True)
else:
    print("nothing started: this is not Colab, or start_on_colab is False")

# %% [markdown]
# ## Read its record
#
# A finished run leaves a record with its settings, commit, device, cost and scores. These are our runs of the plan. *As planned* says
# that the digest of a record's settings is that of the plan; *peak GB* is of memory since the last start; *seconds* are those of all
# updates.

# %%
sweep = read_sweeps(results / "sweeps", only="147m").get("147m")
plans = {name: planned(run) for name, run in runs.items()}
Markdown(
    ch06_runs.record_table(sweep, plans)
    if sweep
    else "No run of the plan has a finished record yet."
)

# %% [markdown]
# One of our runs was killed on purpose (`kill -9`), soon after a checkpoint, and the command typed again. BPE guidance takes longer
# because the CPU cuts text into its tokens, and H-Net because it begins with several times as many boundaries. If you put your records
# into `notebooks/results/sweeps/147m` and commit them, this page and the next ones show them.
#
# ## What we saw
#
# * Scaling up changes a preset and a card, and no code.
# * Time follows from a measured speed, before anything is started. Memory decides which cards can take part.
# * A run that was stopped continues the same curve. An interruption costs the updates since the last checkpoint.
# * A record says whether a run was the one that was planned.
#
# ## Exercises
#
# **1. The whole budget** (easy, 5 minutes). You have one H100, at a price of two units of your currency an hour. What does the paper's
# budget cost with three seeds?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
hours = 3 * wants / fast["bytes_per_second"] / 3600
print(f"{hours:.1f} hours, {hours * 2:.0f} of your currency")

# %% [markdown]
# **2. How often?** (medium, 10 minutes). The plan makes a checkpoint every `train.checkpoint_every` updates. How many updates apart may
# checkpoints be on an H100 if an interruption is to cost at most 30 seconds? What speaks against it? (A disk writes, say, one gigabyte
# a second.)

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
an_update = config.bytes_per_update / fast["bytes_per_second"]
writing = ch06_plan.checkpoint_bytes(config) / 1e9
rows = []
for every in (int(30 / an_update), config.train.checkpoint_every):
    seconds = every * an_update
    rows.append([str(every), f"{seconds:.0f}", f"{writing / seconds:.1%}"])
head = ["updates", "seconds lost at most", "time spent on checkpoints"]
Markdown(markdown(head, rows))

# %% [markdown]
# **3. Twice** (medium, 10 minutes). Stop the small run twice: before its first checkpoint, and between its last two. Predict the entries
# of its record, then look.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
for update in (10, 45):
    try:
        with stopped_in(update):
            rltok.train(small, corpus, folder / "twice", resume=True, **here)
    except KeyboardInterrupt:
        pass
twice = rltok.train(small, corpus, folder / "twice", resume=True, **here)
for session in twice.sessions:
    print(f"began after update {session['after']},", end=" ")
    print(f"{session['redone']} updates done again")
print("the same curve:", curve("twice") == curve("whole"))
