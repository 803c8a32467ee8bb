"""The options of `rltok generate`."""

from collections.abc import Callable
from typing import Any

from rltok.generation.sampling import Sampling
from rltok.runs.names import NAMES


def add_generate(commands: Any, add_running: Callable[[Any], None]) -> None:
    """Add the command, with the options of commands that run a model."""
    usual = Sampling()
    parser = commands.add_parser(
        "generate",
        help="let a trained model go on with your text",
        description="Let a trained model write: it goes on with each PROMPT byte by byte and decides after every byte whether a"
        " token ends there. The same seed gives the same text.",
        epilog="Such as: rltok generate runs/mine 'Once upon a time' --bytes 500 --temperature 0.7; or, until the end of the"
        " line: rltok generate runs/mine 'Dear' --stop $'\\n' --boundaries",
    )
    parser.add_argument("run", help=NAMES)
    parser.add_argument(
        "prompt", nargs="*", default=[], help="texts to go on with, each in quotes; default: the model starts from nothing"
    )
    parser.add_argument("--file", help="go on with the text of a file instead ('-' reads standard input)")
    parser.add_argument(
        "--bytes", type=int, default=usual.max_bytes, metavar="N", help="bytes to write at most (default: %(default)s)"
    )
    parser.add_argument(
        "--temperature", type=float, default=usual.temperature, metavar="T",
        help="below 1 the probable becomes more probable, above 1 less; 0 always takes the most probable byte (default: 1)",
    )  # fmt: skip
    parser.add_argument("--top-k", type=int, metavar="K", help="draw among the K most probable bytes (default: all)")
    parser.add_argument(
        "--top-p", type=float, default=usual.top_p, metavar="P",
        help="draw among the most probable bytes that together have probability P (default: 1, all)",
    )  # fmt: skip
    parser.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end before this text; may be given several times"
    )
    parser.add_argument(
        "--seed", type=int, default=usual.seed, help="of the draws of bytes and boundaries (default: %(default)s)"
    )
    parser.add_argument(
        "--num-samples", type=int, default=1, metavar="N", help="continuations of each prompt, all at once (default: 1)"
    )
    parser.add_argument("--boundaries", action="store_true", help="show where tokens end, once the text is complete")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="of --boundaries; auto follows the terminal"
    )
    add_running(parser)
