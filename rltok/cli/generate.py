"""`rltok generate`: options to rows that go on, shown as they come or when they are complete."""

import argparse
import sys
import time
from dataclasses import asdict

from rltok.cli.evaluate import loaded, print_json
from rltok.cli.options import say, use_colour
from rltok.cli.reading import MOST_TEXT, file_bytes, located
from rltok.errors import RltokError
from rltok.generation import Generated, Generation, Sampling
from rltok.show.characters import harmless
from rltok.show.terminal import legend, paint
from rltok.show.words import many
from rltok.vocab import to_utf8

MOST_SAMPLES = 10_000  # of a prompt: all are generated at once
ENDS = {"end": "the model ended the text", "stop": "a stop text came", "length": "as many bytes as were allowed"}


def _prompts(options: argparse.Namespace) -> list[bytes]:
    """The texts to go on with, each as often as it is wanted."""
    if not 1 <= options.num_samples <= MOST_SAMPLES:
        raise RltokError(f"--num-samples must lie between 1 and {MOST_SAMPLES}; got {options.num_samples}.")
    if options.prompt and options.file is not None:
        raise RltokError("give prompts or --file, not both.")
    texts = [to_utf8(text) for text in options.prompt or [""]]
    if options.file is not None:
        texts = [file_bytes(options.file, MOST_TEXT + 1)]
    longest = max(map(len, texts)) + options.bytes
    if longest > MOST_TEXT:
        raise RltokError(
            f"prompt and --bytes make a text of {'at least ' * (options.file is not None)}{longest} bytes; at most {MOST_TEXT}"
            " can be generated. Give the last part of the prompt, or fewer --bytes."
        )
    return [text for text in texts for _ in range(options.num_samples)]


def generate(options: argparse.Namespace) -> None:
    """`rltok generate`."""
    sampling = Sampling(
        max_bytes=options.bytes, temperature=options.temperature, top_k=options.top_k, top_p=options.top_p, seed=options.seed,
        stop=tuple(options.stop),
    )  # fmt: skip
    prompts = _prompts(options)
    model = loaded(options, located(options, options.prompt or options.file is not None))
    generation = Generation(model, prompts, sampling)
    longest = max(map(len, prompts)) + options.bytes
    if longest > model.row_bytes:
        say(options, f"in training rows had {model.row_bytes} bytes; of up to {longest} bytes here, those beyond may be worse.")
    start = time.perf_counter()
    if options.json:
        print_json({"sampling": asdict(sampling), "samples": [_plain(row) for row in generation.results()]})
    elif len(prompts) == 1 and not options.boundaries:
        _stream(generation, prompts[0])
    else:
        _show(generation.results(), options)
    say(options, _closing(generation.results(), time.perf_counter() - start))


def _closing(rows: list[Generated], seconds: float) -> str:
    """How much was written in what time, and why it ended where there is one text."""
    written = sum(len(row.data) for row in rows)
    end = f": {ENDS[rows[0].ended]}" if len(rows) == 1 else f" in {len(rows)} texts"
    return f"{many(written, 'byte')} written in {seconds:.1f} s ({written / seconds:.0f} bytes/s){end}."


def _plain(row: Generated) -> dict[str, object]:
    return {
        "prompt": list(row.prompt), "bytes": list(row.data), "text": row.text, "boundaries": list(map(int, row.boundaries)),
        "ended": row.ended,
    }  # fmt: skip


def _printable(text: str) -> str:
    """The text as it is for a file or a pipe; on a terminal without what could steer it."""
    return harmless(text) if sys.stdout.isatty() else text


def _stream(generation: Generation, prompt: bytes) -> None:
    """Prompt, then each piece as soon as it is certain."""
    print(_printable(prompt.decode("utf-8", errors="replace")), end="", flush=True)
    for (piece,) in generation:
        print(_printable(piece), end="", flush=True)
    print()


def _show(rows: list[Generated], options: argparse.Namespace) -> None:
    """Complete rows one after the other, under a line that says which and how each ended where there are several."""
    colour = use_colour(options.color)
    for number, row in enumerate(rows):
        if len(rows) > 1:
            place = f"prompt {number // options.num_samples + 1}, sample {number % options.num_samples + 1}"
            print(f"--- {place}: {many(len(row.data), 'byte')}, {ENDS[row.ended]}")
        if options.boundaries:
            print(paint(row.prompt + row.data, list(map(int, row.boundaries)), None, colour))
        else:
            print(_printable((row.prompt + row.data).decode("utf-8", errors="replace")))
    if options.boundaries:
        print(f"\n{legend(colour, *((row.prompt + row.data, row.boundaries) for row in rows), drawn=True)}")
