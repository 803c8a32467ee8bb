"""Commands and options of the command line, and how their values are read."""

import argparse
import json
import os
import re
import shlex
import sys
from fractions import Fraction
from typing import Any, NoReturn

from rltok import __version__, registry
from rltok.benchmarks.sets import TASKS
from rltok.cli.generate_options import add_generate
from rltok.cli.prepare_options import add_prepare
from rltok.errors import RltokError
from rltok.presets import WAYS
from rltok.runs.names import HUB_FILE, NAMES
from rltok.speed.speeds import FULL_UPDATES

MEAN_DRAWS = 4
EPILOG = "Every command explains itself: rltok COMMAND --help"


def parse_value(text: str) -> Any:
    """A setting's value from the command line: a JSON value, a fraction such as 1/5, or plain text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return float(Fraction(text)) if "/" in text else text
    except (ValueError, ZeroDivisionError, OverflowError):
        return text


def parse_rate(text: str) -> float:
    """A rate from the command line, such as 0.125 or 1/8."""
    value = parse_value(text)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of boundaries per byte, such as 0.125 or 1/8")
    return value


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """`["objective.gamma=0.9"]` as a dictionary."""
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise RltokError(f"--set takes SETTING=VALUE, such as objective.gamma=0.9; got {pair!r}.")
        settings[key.strip()] = parse_value(value.strip())
    return settings


def refuse_kernels(options: argparse.Namespace) -> None:
    """Raise `RltokError` where --backend asks for kernels of a command that has none; RLTOK_BACKEND may stay set for training."""
    if options.backend == "triton":
        raise RltokError(
            f"rltok {options.command} computes with plain fp32 weights, for which there are no kernels. Leave --backend out."
        )


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", help="auto (a CUDA card if there is one), cpu or cuda")
    parser.add_argument(
        "--backend", metavar="NAME",
        help="plain (PyTorch), triton (kernels), or auto: kernels where they run (default: RLTOK_BACKEND, else auto)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")


def _add_running(parser: argparse.ArgumentParser) -> None:
    """Options of commands that run a trained model."""
    parser.add_argument(
        "--rate", type=parse_rate, metavar="R",
        help="boundaries per byte, such as 1/8, of a model that was trained for a range of rates (default: its target rate)",
    )  # fmt: skip
    _add_common(parser)


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        default="sample",
        metavar="TEXT",
        help="sample (bundled English), a text file, a folder, also one that rltok prepare wrote, a .jsonl or .parquet with a"
        " text column, python:FOLDER, fineweb, codeparrot or hf:NAME (default: sample)",
    )
    parser.add_argument("--max-bytes", type=int, metavar="N", help="read at most so many bytes of text")
    parser.add_argument("--any-bytes", dest="allow_binary", action="store_true", help="take files that do not look like text")
    parser.add_argument("--force", action="store_true", help="ask the hub without testing first that it answers (slow network)")


def _add_settings(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=f"change settings {what}")


def _add_train(commands: Any) -> None:
    rules = "; ".join(f"{name}: {rule.description}" for name, rule in registry.RULES.items())
    train = commands.add_parser(
        "train",
        help="train a model on your text",
        description="Train a model; everything about the run lands in --out. On several cards of a machine: torchrun --standalone"
        " --nproc-per-node CARDS -m rltok train ...",
        epilog=f"Where tokens end, by model.rule.name: {rules}. A preset such as tiny_hnet names the rule, too.",
    )
    train.add_argument(
        "--preset",
        help="tiny, small, 24m, 32m, 40m, 90m, 147m, or a variant such as 40m_gamma0.9; default: tiny, fitted to the text",
    )
    train.add_argument("--config", metavar="FILE", help="settings from the config.json of another run instead of a preset")
    _add_settings(train, "such as objective.gamma=0.9")
    _add_data(train)
    train.add_argument(
        "--validation", metavar="TEXT", help="held-out text; default: the sample's own, or the last rows of --data"
    )
    train.add_argument("--out", metavar="FOLDER", help="folder of the run (default: runs/NAME)")
    train.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in --out")
    train.add_argument("--tensorboard", action="store_true", help="also write metrics for TensorBoard")
    train.add_argument("--note", default="", help="a remark for the record")
    _add_common(train)


def _add_evaluate(commands: Any) -> None:
    evaluate = commands.add_parser(
        "evaluate",
        help="held-out bits per byte of a trained model, on text or on benchmark sets",
        description="Score a trained model on text or, with --tasks, on benchmark sets.",
    )
    evaluate.add_argument("run", help=NAMES)
    _add_data(evaluate)
    evaluate.set_defaults(data=None)  # to score the sample, which needs no --data
    evaluate.add_argument(
        "--split", choices=("validation", "test", "all"),
        help="of the sample or a prepared folder (default: validation); other text is scored whole",
    )  # fmt: skip
    evaluate.add_argument(
        "--tasks",
        metavar="FOLDER",
        help="score benchmark sets instead of text, from the files of a folder, or hub (Hugging Face)",
    )
    evaluate.add_argument("--task", nargs="+", choices=tuple(TASKS), metavar="NAME", help="only these: " + ", ".join(TASKS))
    evaluate.add_argument("--max-items", type=int, metavar="N", help="the first so many items of each set")
    evaluate.add_argument(
        "--draws", default="sample", metavar="HOW",
        help="of boundaries: sample (one seeded draw, the default), threshold (where p > 1/2), mean (of seeded draws)",
    )  # fmt: skip
    evaluate.add_argument("--num-draws", type=int, metavar="K", help=f"seeded draws of --draws mean (default: {MEAN_DRAWS})")
    evaluate.add_argument("--seed", type=int, default=0, help="of the boundary draws")
    _add_running(evaluate)


def _add_bench(commands: Any) -> None:
    bench = commands.add_parser(
        "bench",
        help="how fast whole updates are on this machine",
        description="Time whole updates, optimizer included, at learning rate 0 so that every update does the same work: bytes/s"
        " against FLOPs, a matrix product and the card's datasheet, memory, where the time goes, and plain PyTorch beside it."
        " Where memory allows, more rows a forward pass are faster (--set train.micro_batch=ROWS); they change the mean of eq."
        " (17), hence what a policy learns from.",
    )
    bench.add_argument("--preset", help="what to time (default: 147m on a CUDA card, tiny elsewhere)")
    _add_settings(bench, "such as train.micro_batch=32")
    _add_data(bench)
    bench.add_argument("--updates", type=int, default=FULL_UPDATES, metavar="N", help="updates timed (default: %(default)s)")
    bench.add_argument(
        "--plain-updates", type=int, metavar="N",
        help="updates of plain PyTorch, timed for comparison; 0: none (default: 5, and 0 where everything is plain)",
    )  # fmt: skip
    bench.add_argument(
        "--plain-micro-batch", type=int, metavar="ROWS",
        help="rows per forward pass of plain PyTorch, whose attention takes more memory (default: as many as fit)",
    )  # fmt: skip
    bench.add_argument(
        "--policy-cost", action="store_true", help="also time learned boundaries against as many given ones, without a policy"
    )
    bench.add_argument("--repeats", type=int, default=8, metavar="N", help="of that, each of 4 pairs (default: 8, at least 5)")
    bench.add_argument("--out", metavar="FILE", help="also write the record as JSON")
    _add_common(bench)


def _add_compare(commands: Any) -> None:
    compare = commands.add_parser(
        "compare",
        help="all ways of drawing boundaries against each other",
        description="Train one network with every way of drawing boundaries, on the same rows in the same order, and score all on"
        " the same held-out rows: a record of each run (JSON), a table and a figure.",
    )
    compare.add_argument(
        "--rules", nargs="+", default=["all"], metavar="NAME",
        help="all (default), or some of: " + ", ".join(WAYS) + "; random_k_as_NAME is NAME's control, with as many boundaries at"
        " random places (whitespace, bpe, bpe_causal)",
    )  # fmt: skip
    compare.add_argument(
        "--budget", default="smoke", help="smoke: eight updates, to see that everything runs (default); full: the preset's own"
    )
    compare.add_argument("--preset", help="tiny, small, 24m, ..., 147m; default: tiny, fitted to the text")
    _add_settings(compare, "for all rules")
    _add_data(compare)
    compare.add_argument(
        "--split", choices=("validation", "test"), default="validation", help="rows scored at the end (default: validation)"
    )
    compare.add_argument("--seeds", type=int, nargs="+", default=[0], help="one run a rule and seed (default: 0)")
    compare.add_argument("--jobs", type=int, metavar="N", help="runs at a time (default: one a thread; one on a card)")
    compare.add_argument("--out", metavar="FOLDER", help="new folder for runs, records and figure (default: runs/compare-N)")
    compare.add_argument("--resume", action="store_true", help="go on with the comparison in --out; what is finished stays")
    _add_common(compare)


def _add_variance(commands: Any) -> None:
    variance = commands.add_parser(
        "variance",
        help="how noisy and how biased each estimator of the policy gradient is",
        description="Measure every rung of the variance ladder on real rows: of a trained RUN, or, without RUN, of a model that"
        " is trained for it, at the start, after a tenth, and at the end of training.",
    )
    variance.add_argument("run", nargs="?", help=f"{NAMES}; default: train --preset")
    variance.add_argument("--preset", help="what to train when there is no RUN (default: tiny)")
    _add_settings(variance, "of the preset")
    _add_data(variance)
    variance.add_argument(
        "--estimators", nargs="+", metavar="NAME", help="such as naive causal+early+gamma0.9+batch (default: the whole ladder)"
    )
    variance.add_argument("--rows", type=int, metavar="B", help="rows in a batch (default: the preset's micro-batch)")
    variance.add_argument("--batches", type=int, default=32, metavar="N", help="batches measured (default: 32)")
    variance.add_argument("--draws", type=int, default=4, metavar="K", help="draws on each batch (default: 4)")
    variance.add_argument(
        "--reference-draws", type=int, metavar="K", help="draws of the reference that bias is measured against (default: --draws)"
    )
    variance.add_argument("--seeds", type=int, nargs="+", default=[0], help="of training, rows and draws (default: 0)")
    variance.add_argument("--out", metavar="FILE", help="also write the record as JSON")
    _add_common(variance)


def _add_models(commands: Any) -> None:
    models = commands.add_parser(
        "models",
        help="the trained models that come with rltok, and the card of one",
        description="List the trained models that come with rltok, with their scores on held-out text, or print the card of one.",
        epilog="Such as: rltok generate small-english 'Once upon a time'; in Python: rltok.load('small-english')",
    )
    models.add_argument("name", nargs="?", help="print the card of this one: where its tokens end, data, licences, limits")
    _add_common(models)
    export = commands.add_parser(
        "export",
        help="write a trained model into one file",
        description="Write a trained model into one safetensors file with its settings inside, which every command takes as RUN,"
        f" and rltok.load. Put on the Hugging Face hub as {HUB_FILE}, it has the name OWNER/NAME.",
    )
    export.add_argument("run", help=NAMES)
    export.add_argument("file", help="a new file, NAME.safetensors")
    export.add_argument("--bf16", action="store_true", help="round the weights to bf16: half the size")
    _add_common(export)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the whole usage in front of it."""

    given: tuple[str, ...] = ()  # the words of the command line

    def error(self, message: str) -> NoReturn:
        dashed = next((shlex.quote(word) for word in self.given if re.match(r"-[^-\d.]", word) and word != "-h"), None)
        if dashed:
            message += f" ({dashed} is no option; a text or a path goes last, after --, a value as in --OPTION={dashed})"
        self.exit(2, f"rltok: {message}. See: {self.prog} --help\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Command and options of a command line; exits with code 2 when they cannot be understood."""
    parser = build_parser()
    _Parser.given = tuple(sys.argv[1:] if arguments is None else arguments)
    options, rest = parser.parse_known_args(arguments)
    # `show RUN --seed 1 TEXT`: before Python 3.13 argparse takes texts that may be left out only right after RUN
    texts = rest[1:] if rest[:1] == ["--"] else rest if not any(word.startswith("-") for word in rest) else []
    if options.command == "show" and options.text is None and len(texts) == 1:
        options.text, rest = texts[0], []
    if options.command == "generate" and texts:
        options.prompt, rest = [*options.prompt, *texts], []
    if rest:
        quotes = options.command == "show" and not any(word.startswith("-") for word in rest)
        spaces = " (a text with spaces needs quotes)" if quotes else ""
        parser.error(f"unknown arguments: {' '.join(rest)}{spaces}")
    return options


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = _Parser(
        prog="rltok", description="Train byte-level models that learn where their tokens end, and look at them.", epilog=EPILOG
    )
    parser.add_argument("--version", action="version", version=f"rltok {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    add_prepare(commands, _add_common)
    _add_train(commands)
    _add_evaluate(commands)

    show = commands.add_parser(
        "show", help="boundaries of a text, coloured", description="Show where a trained model ends its tokens."
    )
    show.add_argument("run", help=NAMES)
    show.add_argument(
        "text", nargs="?", help="the text; default: a sentence of ours or some code, whichever the model expects more"
    )
    show.add_argument("--file", help="show the start of a file instead ('-' reads standard input)")
    show.add_argument("--bytes", type=int, default=2000, help="most bytes shown of a file (default: 2000)")
    show.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="auto follows the terminal and NO_COLOR"
    )
    show.add_argument("--seed", type=int, default=0, help="of the boundary draws")
    _add_running(show)

    add_generate(commands, _add_running)

    _add_models(commands)

    _add_variance(commands)

    demo = commands.add_parser(
        "demo",
        help="train a tiny model and watch its boundaries move",
        description="The whole story in minutes, on bundled text; first, the boundaries of a model that comes with rltok.",
    )
    demo.add_argument("--text", help="also show the boundaries of this text")
    demo.add_argument("--smoke", action="store_true", help="a few updates only, to see that everything runs")
    demo.add_argument("--out", metavar="FOLDER", help="new folder for the two runs (default: runs/demo-N)")
    demo.add_argument("--seed", type=int, default=0)
    _add_common(demo)

    _add_compare(commands)

    _add_bench(commands)

    doctor = commands.add_parser(
        "doctor",
        help="what this machine can run",
        description="Report versions, device, backend and extras, and how fast measured cards train which presets.",
    )
    _add_common(doctor)
    return parser


def say(options: argparse.Namespace, line: str) -> None:
    """A line of progress on stderr, unless a machine reads the output."""
    if not options.json:
        print(line, file=sys.stderr, flush=True)


def use_colour(choice: str) -> bool:
    """Whether to use colour: as chosen, or, for "auto", on a terminal without NO_COLOR."""
    return choice == "always" or (
        choice == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )
