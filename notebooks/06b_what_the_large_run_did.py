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
# # 06b What the large run did
#
# **In short.** In runs as short as ours a policy of the paper's size finds spaces, and predicts better than even spacing, if its
# weights have a higher learning rate than the network's. Our first run of that size had one rate for all weights, and its
# boundaries are elsewhere: its policy's weights could move far less than in the paper's run. Neither an interruption nor the code
# was to blame; a second seed, stopped early, did not go to spaces either; and a learning rate that peaks only after much text is
# just part of the reason. [Chapter 06](06_run_it.ipynb) made the runs; this chapter gives the answer, then the search for it;
# [chapter 07](07_reading_the_results.ipynb) weighs the methods.
#
# **After this chapter you can** say how far a run lets a policy move, and test an explanation of a surprising run before you believe it.
#
# <!-- strip -->
# *CPU · under 1 minute on one x86_64 core · under 2 GB of memory · no download*
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
from pathlib import Path

from IPython.display import HTML, Markdown

import rltok
from rltok.evidence import figures
from rltok.evidence.chapters import ch06_case, ch06_plan, ch06_where
from rltok.evidence.chapters.ch06_suspicions import suspicions_table
from rltok.evidence.chapters.ch07_results import name_in
from rltok.evidence.headline import FAST, SLOW
from rltok.optim import learning_rate
from rltok.presets import travel_share
from rltok.show import plots
from rltok.speed.speeds import fastest, measured_speeds

plots.use_style()
here = Path("results")
case = ch06_case.read(here if here.exists() else Path("notebooks/results"))

# %% [markdown]
# ## The finding

# %%
Markdown(ch06_case.finding(case))

# %% [markdown]
# *How far* is the *travel* of [chapter 04](04_the_boundary_policy.ipynb#how-far-must-the-policys-weights-move): the learning rates of all
# updates, added up and divided by the $D$ that divides logits, relative to the paper's run. Adam moves a weight by about its learning rate in each update,
# however large the gradient is, so travel is known before a run starts. All policies that this chapter is about:

# %%
Markdown(ch06_case.travel_table(case))

# %% [markdown]
# *White space* (in test text) and *first letters* (in validation text) are the shares of each with a boundary after it. The last
# two columns are differences in bits per byte, as [chapter 07](07_reading_the_results.ipynb#how-to-read-a-difference) reads them:
# over the seeds that both methods have (from BPE guidance at 147M, seed 0), ± half an interval, in parentheses from fewer than
# three. (At 32M the list above compares with BPE guidance at *equally many* boundaries, the table does not.) Travel is not
# everything: where the learning rate peaks after little text (*early peak*), the small policy found white space with little
# travel, as shown below.
#
# ## What the run did
#
# The large run (in our plans `ours_gamma0.9`), and below it a later one whose policy has a learning rate of its own (`policy_x20`), on
# the same held-out passage. The colour is the probability of a boundary, a red edge is one that was drawn.

# %%
pair = (case.large, SLOW), (case.large, FAST)
HTML(
    "".join(
        figures.sample_html(sweep, name, 240, label=label)
        for label, sweep, name in case.rows
        if (sweep, name) in [(one, name_in(one, kind)) for one, kind in pair]
    )
)

# %% [markdown]
# Look for the rule that the first passage follows: after which letters of a word is there a boundary?

# %% tags=["prediction"]
guess = None  # a rule, in words

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
large = name_in(case.large, SLOW)
Markdown(
    ch06_where.onsets_table(case.large, large)
    if large
    else "no run with one learning rate is stored"
)

# %% [markdown]
# The boundary comes after the *first consonants* of a word: *late* becomes `l│ate`, *planet* `p│l│anet`. Words that begin with a
# vowel mostly have none at their beginning. After s and t, which often begin a group of consonants, the policy mostly waits for a second
# consonant: *the* becomes `th│e`. (The policy sees only what came before, so it cannot know that a vowel follows; after other
# consonants it bets on one.) So these boundaries mark most beginnings of words, too, only later than at the space.
#
# ## Where we looked
#
# A result that disagrees with the paper may be a mistake. The most promising suspicion came out of a comparison of settings: in
# our first comparison at 32M (*early peak* above), the same policy with the same code found white space. There the learning rate
# peaks twice as high as in the large run, and after far less text. So we trained the small model with the large one's schedule
# (`ours_as_147m`), and with parts of it, one seed each. *Late* means after much text, not late in the run: the large run's peak
# (last line) comes as early in its run as the first sweep's (first line).

# %%
print(ch06_case.schedules(case, ended=False))

# %% [markdown]
# The first sweep (the plans of both sizes call its policy `ours_gamma0.9`) puts boundaries after nearly all white space. Predict:
# which of the other small runs put them after more than half of it?

# %% tags=["prediction"]
guess = None  # names

# %% jupyter={"outputs_hidden": true} tags=["measurement", "hide-output"]
print(ch06_case.schedules(case, ended=True))

# %% [markdown]
# In these single runs, where the peak comes late, the small policy does not reach white space, whether the peak is high or low;
# where it comes early, it does. But they do not repeat the large run: its policy chose other places, and these small ones with a late
# peak stay near or below the share of white space, one in five, at which they began. And a tiny model, whose settings let its policy
# move further, finds white space under a late peak, too ([appendix](../book/large_runs.md#a-late-peak)). So the schedule is only part of the answer.
# All suspicions together:

# %%
Markdown(suspicions_table(case))

# %% [markdown]
# "Tokens that help too late" was our favourite: in a large model the early head, which sees no tokens, predicts well, so the policy
# might settle elsewhere before tokens help. The numbers contradict it: when small policies went to white
# space, tokens hardly helped them, either. (Below zero, the early head predicts better than the whole model.) "Weights that move too
# little" came last, by counting updates: our run has a tenth of the paper's updates, so its weights can move a tenth as far.
#
# ## How far, and when

# %% mystnb={"figure": {"caption": "Share of white space with a boundary after it, over training text; part of the validation text, a line for each seed. Solid: the models of 147M; dashed: those of 32M.", "name": "fig-case-course"}, "image": {"alt": "Lines over training text on a logarithmic axis. Small policies with a learning rate of their own start high and stay near one; the three of the large model reach one, too, one of them later; those with an early peak rise to nearly one within a hundred megabytes. Small policies with one learning rate start near a quarter and part, one rising, one level, one falling to nothing; the one of the large model falls like that one."}}
plots.show(ch06_case.figure(case))

# %% [markdown]
# A policy with its own learning rate goes to white space early; one of the three of 147M takes its time. With one rate and a late peak,
# policies are undecided for a good part of their run, while the network gets used to boundaries at random places. At 32M, one seed then
# goes to spaces, one to first letters, and one stays undecided; the large run looks like the second. Under an early peak the same small travel is spent in
# the first updates, and all seeds go to spaces; but all networks of that schedule predict worse than under a late peak ([chapter
# 07](07_reading_the_results.ipynb#another-learning-rate)).
#
# Four things remain open: whether a fast policy of 147M predicts better than guidance (three seeds of each do not decide it); whether boundaries
# at first letters cost anything; why H-Net, which has no policy, avoids spaces at 147M, too; and why seeds go different ways when
# travel is small. Everything else that was measured is in [The runs of
# 147M](../book/large_runs.md).
#
# ## What we saw
#
# * Before a run, compare how far its policy can move with how far it could in the run that you want to repeat. `rltok train` prints it.
# * Settle the learning rate of each part before you compare methods.
# * Put an explanation beside numbers that could contradict it.
# * One large run is one seed. Small runs with several seeds showed what its outcome was worth, and only with
#   three large ones did a difference count.
#
# ## Exercises
#
# **1. How many times?** (easy, 5 minutes). By what would you multiply the network's learning rate for the policy in our plan of
# 147M, so that it can move as far as the paper's? And in the plans of 32M?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
for label, sweep, name in case.rows:
    config = ch06_case.settings(sweep, name)
    times = config.train.policy_lr_multiplier / travel_share(config)
    print(f"{label}: {times:.3g} times the network's")

# %% [markdown]
# **2. Spent early** (medium, 10 minutes). What share of the paper's whole travel does each policy have behind it after its first 10 MB
# of text? Which policies found white space?

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
paper = rltok.preset("147m")


def moved(config, updates):
    """Learning rates of the policy's weights, added up."""
    train = config.train
    return train.policy_lr_multiplier * sum(
        learning_rate(step, config.num_updates, train)
        for step in range(updates)
    )


whole = moved(paper, paper.num_updates)
policies = {label: ch06_case.settings(*run) for label, *run in case.rows}
for label, config in (policies | {"the paper": paper}).items():
    early = moved(config, 10_000_000 // config.bytes_per_update)
    print(f"{label:32s}{early / whole:.3%}")
print("Those that found white space moved early. Whether that is needed")
print("where there is much travel, these runs do not show.")

# %% [markdown]
# **3. Which of the differences?** (hard, 20 minutes). Our run and the paper's differ in text, amount of text, gamma and seeds. Suppose
# that the policy's lead over even spacing is half of the paper's. Design the cheapest runs that could tell whether the amount of text is
# the reason, and say what they take.

# %% cellView="form" jupyter={"outputs_hidden": true, "source_hidden": true} tags=["hide-cell", "solution"]
speed = fastest(measured_speeds(), "32m")["bytes_per_second"]
for words, size in (("a tenth", 62_000_000), ("all", 620_000_000)):
    one = rltok.preset("32m_fast_policy", {"train.training_bytes": size})
    lasts = ch06_plan.lasting(ch06_plan.pass_bytes(one) / speed)
    print(f"32m, {words} of our text: learned and even, three seeds,")
    print(f"  6 runs of {lasts} on an H100")
print("With one multiplier, short runs travel a tenth as far, so multiply")
print("their multiplier by ten. If the difference grows with the text at one")
print("size, the amount is a reason; if not, look elsewhere.")
