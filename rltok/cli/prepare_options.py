"""The options of `rltok prepare`."""

from collections.abc import Callable
from typing import Any


def add_prepare(commands: Any, add_common: Callable[[Any], None]) -> None:
    """Add the command, with the options that all commands have."""
    parser = commands.add_parser(
        "prepare",
        help="turn much text into files that training reads without loading them",
        description="Read text from any SOURCE once and write an Arrow file each for training, validation and test: documents"
        " filtered, duplicates left out, split by their hash. `rltok train --data FOLDER` maps the files, so that memory does not"
        " grow with the text. After an interruption the same command reads only what it had not read to the end.",
        epilog="Such as: rltok prepare 'texts/*.parquet' --out corpus --cut windows; or rltok prepare"
        " fineweb --out corpora/fineweb --max-bytes 6182000000, enough for a run of the paper",
    )
    parser.add_argument(
        "source", nargs="*", metavar="SOURCE",
        help="text files, folders, .jsonl or .parquet with a text column, a pattern in quotes, python:FOLDER, sample,"
        " fineweb, codeparrot or hf:NAME",
    )  # fmt: skip
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where the files go: a new folder, or one to go on with")
    parser.add_argument("--validation", metavar="TEXT", help="text of its own for validation, instead of a share of the sources")
    parser.add_argument("--test", metavar="TEXT", help="text of its own for the test split, instead of a share of the sources")
    for split in ("validation", "test"):
        parser.add_argument(
            f"--{split}-fraction", type=float, default=0.005, metavar="SHARE",
            help=f"share of documents whose hash puts them into the {split} split (default: %(default)s)",
        )  # fmt: skip
    parser.add_argument(
        "--cut", choices=("documents", "windows", "full_windows"), default="documents",
        help="documents (default): the paper's rule, store the first --sequence-length bytes of documents that have so many;"
        " windows: store documents whole, cut into rows when loaded, with what is left at the end; full_windows: without it",
    )  # fmt: skip
    parser.add_argument(
        "--sequence-length", type=int, default=4096, metavar="N", help="bytes of a row (default: %(default)s)"
    )  # fmt: skip
    parser.add_argument("--max-bytes", type=int, metavar="N", help="store at most so many bytes of the sources")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes that read at a time (default: one a processor)")
    parser.add_argument(
        "--any-bytes", dest="allow_binary", action="store_true",
        help="also take what is no valid UTF-8 or does not look like text",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="ask the hub without testing first that it answers (slow network)")
    parser.add_argument("--check", action="store_true", help="read the files in --out again and name those that are damaged")
    add_common(parser)
