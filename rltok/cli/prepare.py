"""`rltok prepare`: options to a request, the request to a folder, and its record as a table."""

import argparse
import json
import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from rltok.cli.options import say
from rltok.config import DataConfig
from rltok.data.documents import SPLITS
from rltok.data.prepare import Tell, prepare_folder
from rltok.data.prepared import RECORD, SKIPPED, open_prepared
from rltok.data.sources import summary
from rltok.data.units import Request
from rltok.errors import RltokError
from rltok.runs.progress import Progress
from rltok.system.files import check_name, quoted

WORDS = {
    "too_short": "too short for a row",
    "empty": "empty",
    "null": "without text (null)",
    "invalid_utf8": "no valid UTF-8",
    "no_text": "NUL or control bytes, no text",
}


def prepare(options: argparse.Namespace) -> None:
    """`rltok prepare`."""
    check_name(options.out, "folder")
    folder = Path(options.out)
    for place in (folder, *folder.parents):
        if os.path.lexists(place) and not place.is_dir():
            raise RltokError(f"{place} is a file; --out needs a folder.")
    if options.check:
        _check(folder, options)
        return
    request = _request(options)
    jobs = options.jobs if options.jobs is not None else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if jobs < 1:
        raise RltokError(f"--jobs must be at least 1; got {jobs}.")
    finished = (folder / RECORD).exists()
    texts = [*((name, "source") for name in request.sources), (request.validation, "validation"), (request.test, "test")]
    for line in [f"{role}: {summary(name)}" for name, role in texts if name is not None and not finished]:
        say(options, line)
    with ExitStack() as stack:

        def bar(total: int | None) -> Tell:
            return stack.enter_context(closing(Progress(total, 0, not options.json))).update

        record = prepare_folder(request, folder, jobs=jobs, force=options.force, bar=bar)
    if finished:
        say(options, f"{folder}: finished already, and its files have their sizes; --check reads them and compares hashes")
    print(json.dumps(record, indent=1, allow_nan=False) if options.json else "\n".join(table(record)))
    if not record["splits"]["train"]["documents"]:
        raise RltokError(
            "the training split is empty: every document is in another split or a duplicate of one there. Give more text or"
            " smaller --validation-fraction and --test-fraction, into a new --out."
        )
    if not options.json:
        _how_to_go_on(folder, record)


def _how_to_go_on(folder: Path, record: dict[str, Any]) -> None:
    """Print which splits are empty, and how to train."""
    for split in ("validation", "test"):
        if not record["splits"][split]["documents"]:
            share = "training then holds out its last rows" if split == "validation" else "there is nothing to score in the end"
            print(f"the {split} split is empty: {share}. Give --{split} TEXT or a larger --{split}-fraction, into a new --out")
    print(f"\ntrain on it: rltok train --data {quoted(folder)}" + _settings(record))


def _settings(record: dict[str, Any]) -> str:
    """The settings of `rltok train` for this folder; windows may be of any length, which it then fits to little text."""
    cut, length = (record["settings"][key] for key in ("cut", "sequence_length"))
    needs_length = cut != "windows" or length != DataConfig().sequence_length
    return f" --set data.cut={cut}" + (f" data.sequence_length={length}" if needs_length else "")


def _request(options: argparse.Namespace) -> Request:
    return Request(
        sources=tuple(options.source),
        cut=options.cut,
        sequence_length=options.sequence_length,
        validation_fraction=0.0 if options.validation is not None else options.validation_fraction,
        test_fraction=0.0 if options.test is not None else options.test_fraction,
        max_bytes=options.max_bytes,
        any_bytes=options.allow_binary,
        validation=options.validation,
        test=options.test,
    )


def _check(folder: Path, options: argparse.Namespace) -> None:
    if not folder.is_dir():
        raise RltokError(f"there is no folder {folder}. Name one that rltok prepare wrote.")
    prepared = open_prepared(folder)
    damaged, count = prepared.damaged(), len(prepared.record["files"])
    if options.json:
        print(json.dumps({"files": count, "damaged": damaged}, indent=1))
    if damaged:
        raise RltokError(f"{len(damaged)} of {count} files are damaged: " + " ".join(damaged))
    if not options.json:
        print(f"{folder}: all {count} files are as they were written")


def table(record: dict[str, Any]) -> list[str]:
    """Lines for a terminal: what was read, left out and kept."""
    read, timing = record["read"], record["timing"]
    lines = [f"{'split':<12}{'documents':>12}{'bytes':>16}{'rows':>12}{'duplicates':>12}"]
    for split in SPLITS:
        counts = record["splits"][split]
        lines.append(f"{split:<12}" + "".join(f"{counts[key]:>{n}}" for key, n in _COLUMNS))
    sizes = f"the longest has {read['longest']} bytes, the mean {record['mean_bytes']:.0f}"
    lines += ["", f"{read['read']} documents read, {read['stored']} stored (duplicates too), of which {sizes}"]
    for reason in SKIPPED:
        if read[reason]:
            named = ", ".join(read["named"].get(reason, []))
            lines.append(f"{read[reason]} left out: {WORDS[reason]}" + (f" (first: {named})" if named else ""))
    beyond = sum(counts["beyond_max_bytes"] for counts in record["splits"].values())
    lines += [f"{beyond} left out: past --max-bytes"] if beyond else []
    lines += [*_limit_lines(record), *_part_lines(record)]
    lines += ["", f"{'largest sources':<40}{'documents':>12}{'bytes':>16}"]
    lines += [f"{name[:39]:<40}{each['documents']:>12}{each['bytes']:>16}" for name, each in record["largest_sources"].items()]
    rate = f"{timing['bytes_per_second'] / 1e6:.1f} MB/s"
    return [*lines, "", f"{timing['seconds']:.1f} s for {timing['bytes'] / 1e6:.1f} MB, {rate}"]


def _limit_lines(record: dict[str, Any]) -> list[str]:
    """The texts that --max-bytes ended."""
    limit = record["settings"]["max_bytes"]
    return [
        f"--max-bytes {limit} ended the {name}: {reached['bytes']} bytes stored, and the next document is longer than the"
        f" {limit - reached['bytes']} bytes left"
        for name, reached in record["limits"].items()
        if reached["ended"]
    ]


def _part_lines(record: dict[str, Any]) -> list[str]:
    """How many documents are parts of longer ones, and whether one of these holds most of them."""
    parts, kept = record["parts"], sum(counts["documents"] for counts in record["splits"].values())
    if not parts["documents"]:
        return []
    lines = [
        f"{parts['documents']} documents are parts of {parts['wholes']} longer ones (ids such as x#3); parts of one go to the"
        " same split"
    ]
    if parts["most"] > kept / 2:
        lines.append(
            f"warning: {parts['most']} of all {kept} documents are parts of one and the same; if they are not, rename the ids"
        )
    return lines


_COLUMNS = (("documents", 12), ("bytes", 16), ("rows", 12), ("duplicates", 12))
