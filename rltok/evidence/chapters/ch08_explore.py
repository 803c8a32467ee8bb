"""Chapter 08: what caches save, how fast generation was, code and other scripts through models."""

import json
import unicodedata
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rltok.evidence import words
from rltok.explore import places, read
from rltok.explore.kinds import counted
from rltok.generation import Generated
from rltok.show.tables import markdown
from rltok.unet import AutoregressiveUNet
from rltok.vocab import character_spans

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Positions(NamedTuple):
    """How many positions the networks compute for one row of generated text."""

    bytes_full: int  # byte layers, a full pass for each byte
    bytes_cached: int
    tokens_full: int  # token layers
    tokens_cached: int


def positions(row: Generated) -> Positions:
    """Positions that each way of generating a row computes: each byte needs a pass over all before it, or over itself alone."""
    start, end = len(row.prompt), len(row.prompt) + len(row.data)
    tokens = [1]  # after each position, BOS with its forced token among them
    for drawn in row.boundaries:
        tokens.append(tokens[-1] + drawn)
    passes = range(start, end)  # bytes before the one that a pass predicts; BOS stands before them all
    full = sum(n + 1 for n in passes), sum(tokens[n] for n in passes)
    return Positions(full[0], passes[-1] + 1, full[1], tokens[passes[-1]])


def speeds(path: Path) -> str:
    """A table of the stored record of generation, in Markdown; a sentence where there is none."""
    if not path.exists():
        return "No record of speeds is stored yet: `scripts/measure/measure_generation.py` makes one on a quiet machine."
    record = json.loads(path.read_text(encoding="utf-8"))
    sizes = [batch["rows"] for batch in record["runs"][0]["batches"]]
    head = [
        "preset",
        "device",
        "full passes",
        *(f"cached, {rows} row{'s' * (rows > 1)}" for rows in sizes),
        "one row: times as fast",
    ]
    rows = [
        [f"`{one['preset']}`", one["device"], f"{one['full_pass_bytes_per_second']:.1f}",
         *(f"{batch['bytes_per_second']:.0f}" for batch in one["batches"]), f"{one['times_as_fast']:.0f}"]
        for one in record["runs"]
    ]  # fmt: skip
    same = "the same bytes both ways" if all(one["same_bytes"] for one in record["runs"]) else "not the same bytes both ways"
    lines = [markdown(head, rows), f"Bytes a second after a prompt of {record['prompt_bytes']} bytes; {same}.", steps(record)]
    return "\n\n".join(lines)


def steps(record: dict[str, Any]) -> str:
    """In words, a sentence a device: what caches gain for a single row, and what a step costs for many rows at once."""
    lines = []
    for device in dict.fromkeys(one["device"] for one in record["runs"]):
        runs = [one for one in record["runs"] if one["device"] == device]
        gains = words.ends([one["times_as_fast"] for one in runs], ".1f")
        costs = words.ends(map(cost_of_rows, runs), ".1f")
        most = runs[0]["batches"][-1]["rows"]
        lines.append(
            f"{device}: caches make a single row {gains} times as fast; a step for {most} rows takes {costs} times as long as"
            " for one."
        )
    return "\n\n".join(lines)


def cost_of_rows(run: dict[str, Any]) -> float:
    """How many times as long a step for the largest batch takes as one for a single row, the first batch."""
    one, most = run["batches"][0], run["batches"][-1]
    return most["rows"] / most["bytes_per_second"] * one["bytes_per_second"] / one["rows"]


def script(character: str) -> str:
    """The script of a character: the first word of its name in Unicode for letters and marks, ASCII, or "other"."""
    if character.isascii():
        return "ASCII"
    return unicodedata.name(character, "other").split()[0] if unicodedata.category(character)[0] in "LM" else "other"


class Language(NamedTuple):
    """What a model makes of one text."""

    name: str
    script: str | None  # most frequent one beside ASCII; None without any
    bytes_per_character: float
    bits: float  # per byte
    bytes_per_token: float
    after_space: float  # share of boundaries that stand after ASCII white space
    inside: float  # share of boundaries that divide a character


def language(model: AutoregressiveUNet, name: str, text: str, row_bytes: int) -> Language:
    """One text through a model, with one draw of boundaries."""
    reading = read(model, text, row_bytes=row_bytes, seed=0)
    data, ends = reading.data, {stop - 1 for _, stop in character_spans(reading.data)}
    scripts = Counter(map(script, text))
    beside = [each for each, _ in scripts.most_common() if each not in ("ASCII", "other")]
    drawn = [i for i, boundary in enumerate(reading.boundaries) if boundary]
    tokens = max(1, len(drawn))
    return Language(
        name, beside[0] if beside else None, len(data) / len(text), sum(reading.bits) / len(data), len(data) / tokens,
        sum(bytes([data[i]]).isspace() for i in drawn) / tokens, sum(i not in ends for i in drawn) / tokens,
    )  # fmt: skip


def languages_table(found: list[Language], training: dict[str, Any]) -> str:
    """Languages in Markdown, one a row, in the order given.

    Args:
        found: what a model made of each.
        training: bytes of its training text, and of each script in it.
    """
    head = [
        "text", "bytes per character", "bits per byte", "bytes per token",
        "of its boundaries: after white space", "inside a character",
        "its script in training, bytes per million",
    ]  # fmt: skip
    rows = [
        [one.name, f"{one.bytes_per_character:.1f}", f"{one.bits:.1f}", f"{one.bytes_per_token:.1f}", f"{one.after_space:.0%}",
         f"{one.inside:.0%}", f"{1e6 * training['scripts'].get(one.script, 0) / training['bytes']:.1f}" if one.script else "-"]
        for one in found
    ]  # fmt: skip
    return markdown(head, rows)


def scripts_figure(found: list[Language], training: dict[str, Any]) -> "Figure":
    """Share of boundaries inside a character, over how much of its script the training text held; of languages with a script."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.5, 3.6))
    for one in found:
        if one.script is not None:
            place = 1e6 * training["scripts"].get(one.script, 0) / training["bytes"], 100 * one.inside
            axes.plot(*place, "o", color="C0")
            axes.annotate(one.name, place, xytext=(4, 3), textcoords="offset points", fontsize="small")
    axes.margins(x=0.12)  # room for the names
    axes.set(xscale="log", ylim=(0, 100), ylabel="boundaries inside a character (%)")
    axes.set_xlabel("bytes of its script beyond ASCII, per million of training text")
    return figure


def byte_kinds(text: str, boundaries: list[bool]) -> dict[str, tuple[int, int]]:
    """Boundaries and positions by the byte before them: white space, other ASCII, last or earlier byte of a longer character."""
    data = text.encode()
    ends = {stop - 1 for _, stop in character_spans(data)}
    kinds = []
    for i, byte in enumerate(data):
        inside = "last byte" if i in ends else "earlier byte"
        kinds.append(inside if byte > 127 else "white space" if bytes([byte]).isspace() else "other ASCII")
    return dict(sorted(counted(kinds, boundaries).items()))


def kinds_table(data: bytes, boundaries: dict[str, list[bool]]) -> str:
    """Markdown: of each kind of byte, how many there are, and after which share of them each model draws a boundary."""
    found = {name: places(data, drawn) for name, drawn in boundaries.items()}
    there = {kind: count for kind, (_, count) in next(iter(found.values())).items()}
    rows = [[kind, str(count), *(f"{kinds[kind][0] / count:.0%}" for kinds in found.values())] for kind, count in there.items()]
    return markdown(["byte", "how many", *(f"boundary after it, {name}" for name in found)], rows)
