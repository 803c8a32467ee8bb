"""`rltok prepare`: read units to Arrow files in several processes, drop duplicates, write a file for each split, count.

    units --write_unit--> .unfinished/UNIT.arrow --choose, write_splits--> train.arrow, validation.arrow, test.arrow

A unit's file is named by a digest of the settings and of the text it was read from, so that after an interruption the same
command reads only the units that have none yet. The record comes last: a folder without it is not finished.
"""

import multiprocessing
import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rltok.data.documents import SPLITS
from rltok.data.prepared import (
    NOT_IN_DIGEST,
    OLD_REQUEST,
    PREPARED,
    PREPARED_SCHEMA,
    RECORD,
    SKIPPED,
    UNFINISHED,
    arrow_batches,
    file_facts,
    open_prepared,
    piece_counts,
)  # fmt: skip
from rltok.data.units import BEYOND, COLUMNS, NAMED, STORED, Request, Unit, new_arrow, write_unit
from rltok.errors import RltokError
from rltok.system.digest import with_digest
from rltok.system.files import cannot_write, locked, quoted, require_own, room, write_json
from rltok.system.workers import end_with_parent, stopping

TOP_SOURCES = 20  # named in the record
OTHER = "(other sources)"
ROLES = ("sources", "validation", "test")  # of texts; the limit of max_bytes is that of each
POLL_SECONDS = 0.5

Tell = Callable[[int, str], None]  # bytes read since the last call, and how far one is in words
Bar = Callable[[int | None], Tell]  # given the bytes expected


class _Enough(Exception):
    """Raised to end worker processes whose work is no longer needed."""


_setting: tuple[Any, ...] = ()  # of a worker process


def _start(*setting: Any) -> None:
    global _setting
    end_with_parent()
    _setting = setting


def _work(unit: Unit, path: Path) -> None:
    request, force, sleep, counter = _setting

    def tell(count: int) -> None:
        with counter.get_lock():
            counter.value += count

    write_unit(unit, path, request, force, tell, sleep)


@contextmanager
def _reader(
    missing: dict[Path, Unit], request: Request, jobs: int, force: bool, sleep: Callable[[float], None]
) -> Iterator[Callable[[Path, Callable[[int], None]], None]]:
    """A function that waits until the file of a unit is written; processes read ahead, and stop when they are no longer needed.

    Args:
        missing: units without a file, in order.
        jobs: processes that read at the same time.
    """
    if min(jobs, len(missing)) <= 1:
        yield lambda path, tell: write_unit(missing[path], path, request, force, tell, sleep)
        return
    context = multiprocessing.get_context("spawn")
    counter, before = context.Value("q", 0), 0
    setting, count = (request, force, sleep, counter), min(jobs, len(missing))
    with (
        suppress(_Enough),
        ProcessPoolExecutor(count, mp_context=context, initializer=_start, initargs=setting) as pool,
        stopping(pool, count, "Go on with the same command and --jobs 1."),
    ):
        futures = {path: pool.submit(_work, unit, path) for path, unit in missing.items()}

        def read(path: Path, tell: Callable[[int], None]) -> None:
            nonlocal before
            done = False
            while not done:
                done = bool(wait([futures[path]], timeout=POLL_SECONDS).done)
                now = counter.value
                tell(now - before)
                before = now
            futures[path].result()

        yield read
        if not all(future.done() for future in futures.values()):
            raise _Enough


def _total(numbers: pa.ChunkedArray) -> int:
    return pc.sum(numbers).as_py() or 0


def _columns(unit: Unit, path: Path) -> pa.Table:
    """The columns of a unit's file without its text, and its role."""
    schema = pa.schema([each for each in COLUMNS if each.name != "text"])
    batches = (batch.select(schema.names) for batch, _ in arrow_batches(path))
    copies = [batch.take(pa.array(np.arange(len(batch)))) for batch in batches]  # without a copy they would hold the text, too
    role = pa.array(np.full(sum(map(len, copies)), ROLES.index(unit.role), dtype=np.int8))
    return pa.Table.from_batches(copies, schema).append_column("role", role)


def _read_units(
    units: list[Unit], place: Path, request: Request, jobs: int, force: bool, bar: Bar, sleep: Callable[[float], None]
) -> tuple[pa.Table, list[Path], int]:
    """Columns and files of the units that the result needs (all, or those up to the limit), and the bytes that this call read."""
    place.mkdir(exist_ok=True)
    for left in place.glob("*.tmp"):
        left.unlink()
    paths = [place / unit.file_name(request) for unit in units]
    missing = {path: unit for path, unit in zip(paths, units, strict=True) if not path.exists()}
    tell, tables, files, stored, session = bar(_expected_bytes(missing, request)), [], [], {}, 0
    with _reader(missing, request, jobs, force, sleep) as read:
        for unit, path in zip(units, paths, strict=True):
            if request.max_bytes is not None and stored.get(unit.role, 0) >= request.max_bytes:
                continue
            is_new = path in missing and path not in files
            if is_new:
                read(path, lambda count: tell(count, f"part {len(files) + 1} of {len(units)}"))
            table = _columns(unit, path)
            is_full = pc.any(pc.equal(table["reason"], BEYOND)).as_py()
            stored[unit.role] = np.inf if is_full else stored.get(unit.role, 0) + _total(table["length"])
            session += is_new * _total(table["size"])
            tables.append(table)
            files.append(path)
    return pa.concat_tables(tables), files, session


def _expected_bytes(missing: dict[Path, Unit], request: Request) -> int | None:
    """Approximate bytes of text that are still to be read, or None if unknown."""
    limit, sizes = request.max_bytes, [unit.expected_bytes for unit in missing.values()]
    total = None if None in sizes else sum(sizes)
    return total if limit is None or request.cut == "documents" else min(total or limit, limit)


def choose(documents: pa.Table, max_bytes: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Which documents are kept, and which lie beyond the limit of their role, both bool [documents].

    From the first document on that goes past `max_bytes` all are beyond it. Of the others with the same bytes the first is kept,
    test before validation before training.
    """
    beyond = np.zeros(len(documents), dtype=bool)
    length, role, split, high, low = (documents[name].to_numpy() for name in ("length", "role", "split", "high", "low"))
    for code in range(len(ROLES)):
        mine = np.flatnonzero(role == code)
        beyond[mine] = max_bytes is not None and np.cumsum(length[mine]) > max_bytes
    here = np.flatnonzero(~beyond)
    order = here[np.lexsort((-split[here], low[here], high[here]))]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (high[order][1:] != high[order][:-1]) | (low[order][1:] != low[order][:-1])
    kept = np.zeros(len(documents), dtype=bool)
    kept[order[is_first]] = True
    return kept, beyond


def _write_splits(files: list[Path], kept: np.ndarray, place: Path) -> None:
    """Write the documents that are kept to the file of their split, batch by batch."""
    start = 0
    with ExitStack() as stack:
        writers = [stack.enter_context(new_arrow(place / f"{split}.arrow", STORED)) for split in SPLITS]
        for batch, _ in (each for path in files for each in arrow_batches(path)):
            is_kept = pc.is_null(batch["reason"]).to_numpy(zero_copy_only=False)
            stop = start + np.count_nonzero(is_kept)
            is_kept[is_kept] = kept[start:stop]
            start = stop
            for code, writer in enumerate(writers):
                mask = is_kept & (batch["split"].to_numpy() == code)
                if mask.any():  # to filter means to copy
                    chosen = batch.select(STORED.names)
                    writer.write_batch(chosen if mask.all() else chosen.filter(pa.array(mask)))


def _statistics(table: pa.Table, documents: pa.Table) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was read and why some of it is not stored, and the largest sources."""
    others = table.filter(pc.is_valid(table["reason"])).select(["reason", "count", "names"]).to_pylist()
    counts = {reason: sum(row["count"] for row in others if row["reason"] == reason) for reason in SKIPPED}
    names = {reason: [name for row in others if row["reason"] == reason for name in row["names"]] for reason in NAMED}
    read = {
        "read": len(documents) + sum(counts.values()), "read_bytes": _total(table["size"]),
        "stored": len(documents), "stored_bytes": _total(documents["length"]),
        "longest": pc.max(documents["length"]).as_py() or 0, **counts,
        "named": {reason: names[reason][:most] for reason, most in NAMED.items()},
    }  # fmt: skip
    totals = documents.group_by("source").aggregate([("length", "count"), ("length", "sum")])
    totals = totals.sort_by([("length_sum", "descending"), ("source", "ascending")])
    largest = {
        row["source"]: {"documents": row["length_count"], "bytes": row["length_sum"]} for row in totals[:TOP_SOURCES].to_pylist()
    }
    if rest := totals[TOP_SOURCES:]:
        largest[OTHER] = {"documents": _total(rest["length_count"]), "bytes": _total(rest["length_sum"])}
    return read, largest


def _count_splits(documents: pa.Table, kept: np.ndarray, beyond: np.ndarray, request: Request) -> dict[str, dict[str, int]]:
    """Documents, bytes and rows kept in each split, and what was dropped."""
    counts, lengths, split = {}, documents["length"].to_numpy(), documents["split"].to_numpy()
    for code, name in enumerate(SPLITS):
        mine = split == code
        sizes = lengths[mine & kept]
        counts[name] = {
            "documents": len(sizes), "bytes": int(sizes.sum()),
            "rows": int(piece_counts(sizes, request.sequence_length, request.cut).sum()),
            "duplicates": int(np.count_nonzero(mine & ~kept & ~beyond)),
            BEYOND: int(np.count_nonzero(mine & beyond)),
        }  # fmt: skip
    return counts


def _limits(table: pa.Table, documents: pa.Table, beyond: np.ndarray) -> dict[str, dict[str, Any]]:
    """Bytes within --max-bytes by role, and whether a document was too long for the rest."""
    ended = set(table.filter(pc.equal(table["reason"], BEYOND))["role"].to_pylist())
    lengths, role = documents["length"].to_numpy(), documents["role"].to_numpy()
    return {
        ROLES[code]: {
            "bytes": int(lengths[(role == code) & ~beyond].sum()),
            "ended": code in ended or bool(beyond[role == code].any()),
        }
        for code in sorted(set(table["role"].unique().to_pylist()))
    }


def _why_none(read: dict[str, Any], request: Request, is_limited: bool) -> RltokError:
    """The error when nothing is stored: how many documents were left out for which reason, and a remedy for the most frequent."""
    if is_limited:
        return RltokError(
            f"nothing is stored: the first document is longer than --max-bytes {request.max_bytes}. Raise it, into a new --out."
        )
    counts = {reason: read[reason] for reason in SKIPPED if read[reason]}
    named = {reason: f" (first: {names[0]})" for reason, names in read["named"].items() if names}
    why = ", ".join(f"{count} {reason.replace('_', ' ')}{named.get(reason, '')}" for reason, count in counts.items())
    shorter = "--cut windows" if request.cut == "documents" else "a smaller --sequence-length"
    remedies = {"too_short": f"Give longer texts, or {shorter}"}
    remedies |= dict.fromkeys(("invalid_utf8", "no_text"), "Convert the text to UTF-8, or let any bytes through with --any-bytes")
    remedy = remedies.get(max(counts, key=counts.get, default=""), "Give other text")
    return RltokError(f"no document of {read['read']} is left: {why or 'there was none'}. {remedy}, into a new --out.")


def _finish(
    units: list[Unit], table: pa.Table, files: list[Path], place: Path, request: Request
) -> dict[str, Any]:  # fmt: skip
    """Write the files of the splits; return the record without its timing."""
    documents = table.filter(pc.is_null(table["reason"]))
    read, largest = _statistics(table, documents)
    if not len(documents):
        raise _why_none(read, request, BEYOND in table["reason"].to_pylist())
    kept, beyond = choose(documents, request.max_bytes)
    _write_splits(files, kept, place)
    parts = documents["part_of"].to_numpy()[kept]
    _, each = np.unique(parts[parts != 0], return_counts=True)
    return {
        "schema": PREPARED_SCHEMA, "what": PREPARED, "settings": request.record(),
        "splits": _count_splits(documents, kept, beyond, request), "read": read,
        "limits": {} if request.max_bytes is None else _limits(table, documents, beyond),
        "parts": {"documents": int(each.sum()), "wholes": len(each), "most": int(each.max(initial=0))},
        "mean_bytes": read["stored_bytes"] / read["stored"], "largest_sources": largest,
        "files": {f"{split}.arrow": file_facts(place / f"{split}.arrow") for split in SPLITS},
        "units": [{"name": unit.name, "files": len(unit.paths), "fingerprint": unit.fingerprint} for unit in units],
    }  # fmt: skip


def _check_same(folder: Path, record: dict[str, Any], request: Request) -> None:
    """Raise `RltokError` if a finished folder was made by another command or from other text; the hub is not read."""
    before, now = record["settings"], request.record()
    if differing := [f"{name} was {before.get(name)!r}, now {now[name]!r}" for name in now if before.get(name) != now[name]]:
        words = "; ".join(differing[:3])[:400]
        raise RltokError(f"{folder} was begun by another command: {words}. Give the same command, or choose another --out.")
    try:
        units = [(unit.name, len(unit.paths), unit.fingerprint) for unit in request.units(False, with_hub=False)]
    except RltokError as error:
        raise RltokError(f"{error} {folder} itself is finished: rltok train --data {quoted(folder)} needs no source.") from error
    _check_units(folder, [unit for unit in record["units"] if not unit["name"].startswith("hf:")], units)


def _check_units(folder: Path, before: list[dict[str, Any]], now: list[tuple[str, int, str | None]]) -> None:
    """Raise `RltokError` if source files were added, removed or changed."""
    remedy = "Put back the old text, or choose a new --out."
    names = [unit["name"] for unit in before], [name for name, *_ in now]
    if names[0] != names[1]:
        counts = sum(unit["files"] for unit in before), sum(count for _, count, _ in now)
        words = [f"it began with {counts[0]} in all, now there are {counts[1]}"]
        first, second = ([re.sub(r" and \d+ more$", "", name) for name in each] for each in names)
        for word, has, others in (("gone", first, second), ("new", second, first)):
            differing = [name for name in has if name not in others][:3]
            words += [f"{word}: {', '.join(differing)[:120]}"] if differing else []
        raise RltokError(f"files were added to or removed from the sources of {folder}: {'; '.join(words)}. {remedy}")
    for unit, (name, _, fingerprint) in zip(before, now, strict=True):
        if unit["fingerprint"] != fingerprint:
            raise RltokError(f"{name} is not the text that {folder} was made of: it has changed. {remedy}")


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Create the folder and lock it while the body runs; yields whether the folder is finished.

    Raises:
        RltokError: the folder is in use, cannot be written to, or has other files in it.
    """
    try:
        with room(folder, "the same command"):
            folder.mkdir(parents=True, exist_ok=True)
            require_own(folder / ".lock")
            in_use = f"another rltok prepare works in {folder}. Wait for it, or choose another --out."
            lock = locked(folder / ".lock", in_use)
    except OSError as error:
        raise cannot_write(folder, error) from error
    try:
        place = folder / UNFINISHED
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise RltokError(f"{place} is a file or a link, where rltok prepare keeps a folder. Remove it, and try again.")
        names = {path.name for path in folder.iterdir()} - {".lock"}
        if names and not names & {RECORD, OLD_REQUEST, UNFINISHED}:
            raise RltokError(f"{folder} is not empty ({min(names)} is there). Choose another --out.")
        yield bool(names & {RECORD, OLD_REQUEST})
    finally:
        lock.release()


def prepare_folder(
    request: Request, folder: Path, *, jobs: int = 1, force: bool = False, bar: Bar = lambda total: lambda *_: None,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:  # fmt: skip
    """Write a file of documents for each split; return the record of the folder.

    Args:
        request: what is wanted.
        jobs: processes that read at the same time.
        force: ask the hub without first testing that it answers.
        bar: given the expected bytes, returns the function that is called with the bytes read since its last call.
        sleep: waits before another try to reach the hub.

    Raises:
        RltokError: bad text, a folder of something else, a full disk; another call reads only what has not been read yet.
    """
    with _claimed(folder) as is_finished:
        place = folder / UNFINISHED
        if is_finished:
            prepared = open_prepared(folder)
            record = prepared.record
            _check_same(folder, record, request)
            if damaged := prepared.damaged(hashed=False):
                raise RltokError(" ".join(damaged))
        else:
            with room(folder, "the same command"):
                start, units = time.perf_counter(), request.units(force)
                table, files, size = _read_units(units, place, request, jobs, force, bar, sleep)
                record = _finish(units, table, files, place, request)
                seconds = time.perf_counter() - start
                timing = {"seconds": seconds, "bytes": size, "bytes_per_second": size / max(1e-9, seconds)}
                record = with_digest(record | {"timing": timing}, NOT_IN_DIGEST)
                for name in record["files"]:
                    (place / name).replace(folder / name)
                write_json(folder / RECORD, record)
        shutil.rmtree(place, ignore_errors=True)
        return record
