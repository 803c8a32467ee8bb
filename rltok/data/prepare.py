"""`rltok prepare` as a function: sources to shards in several processes, then duplicates, statistics and the record."""

import multiprocessing
import re
import shutil
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from rltok.data.duplicates import count_kept, count_parts, mark_kept
from rltok.data.pieces import check_pieces
from rltok.data.prepared import KEPT_FILE, RECORD, REQUEST, SCHEMA, UNSEALED, WHAT, open_prepared, piece_counts
from rltok.data.request import AGAIN, Request, check_finished, claimed, read_request, write_request
from rltok.data.shards import seals_of, sha256_of, sound_seals
from rltok.data.tally import SKIPPED, largest_sources, merged
from rltok.data.unit_writer import Rules, write_unit
from rltok.errors import RltokError
from rltok.system.digest import sealed
from rltok.system.files import room, write_json
from rltok.system.workers import end_with_parent, stopping

TOP_SOURCES = 20
POLL_SECONDS = 0.5


Tell = Callable[[int, str], None]  # bytes read since the last call, and how far one is in words


class Run:
    """One session of work in a folder: what is sealed, what is missing, and who does it."""

    def __init__(
        self, folder: Path, request: Request, force: bool, sleep: Callable[[float], None], note: Callable[[str], None]
    ) -> None:
        self.folder, self.request, self.force, self.sleep = folder, request, force, sleep
        self.units, self.groups = request.units(force)
        self.seals = [sound_seals(folder, number, note) for number in range(len(self.units))]
        pieces = request.pieces(force)
        if (folder / REQUEST).exists():
            before = read_request(folder)["pieces"]
            check_pieces(str(folder), before, pieces, {number for number in range(len(self.units)) if self.done(number)})
        # a source of which something is still to be read may have been mended: it counts as it is now
        write_request(folder, request, pieces)

    @property
    def read_bytes(self) -> int:
        """Of all sealed shards."""
        return sum(seal["tally"]["read_bytes"] for seals in self.seals for seal in seals)

    @property
    def expected_bytes(self) -> int | None:
        """Bytes of text in all sources, roughly, or None where nobody knows."""
        limit = self.request.rules.max_bytes
        sizes = [unit.expected_bytes for unit in self.units]
        total = None if None in sizes else sum(size for size in sizes if size is not None)
        return total if limit is None or self.request.rules.cut == "documents" else min(total or limit, limit)

    def done(self, number: int) -> bool:
        """Whether a unit has its last seal."""
        return bool(self.seals[number]) and self.seals[number][-1]["last"]

    def needed(self) -> list[int]:
        """Units that belong to the result: all, or those before the limit is reached as far as one knows by now."""
        found, stored, full = [], {}, set()
        for number, group in enumerate(self.groups):
            if group in full:
                continue
            found.append(number)
            stored[group] = stored.get(group, 0) + sum(seal["tally"]["stored_bytes"] for seal in self.seals[number])
            limit = self.request.rules.max_bytes
            if self.done(number) and (self.seals[number][-1]["full"] or (limit is not None and stored[group] >= limit)):
                full.add(group)
        return found

    def status(self) -> str:
        """How far one is, in words."""
        needed = self.needed()
        return f"{sum(map(self.done, needed))} of {len(needed)} pieces done"

    def missing(self) -> list[int]:
        """Units that are needed and not done."""
        return [number for number in self.needed() if not self.done(number)]

    def work(self, jobs: int, tell: Tell) -> None:
        """Write what is missing."""
        if min(jobs, len(self.missing())) > 1:
            self._in_processes(jobs, tell)
            return
        while missing := self.missing():
            status = self.status()
            write_unit(
                self.folder, missing[0], self.units[missing[0]], self.request.rules, force=self.force,
                tell=lambda count, status=status: tell(count, status), sleep=self.sleep,
            )  # fmt: skip
            self.seals[missing[0]] = seals_of(self.folder, missing[0])

    def _in_processes(self, jobs: int, tell: Tell) -> None:
        context = multiprocessing.get_context("spawn")
        counter, told = context.Value("q", 0), 0
        setting = (self.folder, self.units, self.request.rules, self.force, counter)
        count = min(jobs, len(self.missing()))
        with (
            suppress(_Enough),
            ProcessPoolExecutor(count, mp_context=context, initializer=_start, initargs=setting) as pool,
            stopping(pool, count, "Go on with the same command and --jobs 1."),
        ):
            running: dict[Future[None], int] = {}
            while missing := self.missing():
                for number in [number for number in missing if number not in running.values()][: count - len(running)]:
                    running[pool.submit(_work, number)] = number
                for future in wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED).done:
                    future.result()
                    number = running.pop(future)
                    self.seals[number] = seals_of(self.folder, number)
                now = counter.value
                tell(now - told, self.status())
                told = now
            if running:
                raise _Enough  # what still runs lies behind the limit


class _Enough(Exception):
    """Ends worker processes whose work is not needed."""


_setting: tuple[Any, ...] = ()  # of a worker process


def _start(*setting: Any) -> None:
    global _setting
    end_with_parent()
    _setting = setting


def _work(number: int) -> None:
    folder, units, rules, force, counter = _setting

    def tell(count: int) -> None:
        with counter.get_lock():
            counter.value += count

    write_unit(folder, number, units[number], rules, force=force, tell=tell)


def record_of(run: Run, seconds: float, session_bytes: int) -> dict[str, Any]:
    """The record of finished work: settings, statistics, and every file with its hash. Drops duplicates on the way."""
    numbers = run.needed()
    shards = [(number, seal) for number in numbers for seal in run.seals[number]]
    seals = [seal for _, seal in shards]
    read = merged(seal["tally"] for seal in seals)
    rules, path = run.request.rules, run.folder / KEPT_FILE
    full = {run.groups[number] for number, seal in shards if seal["full"]}
    if not read["stored"] and full:
        raise RltokError(
            f"nothing is stored: the first document is longer than --max-bytes {rules.max_bytes}. Raise it, into a new --out."
        )
    if not read["stored"]:
        raise RltokError(f"no document of {read['read']} is left: {_why_none(read, rules)}, into a new --out.")
    within = mark_kept(run.folder, seals, [run.groups[number] for number, _ in shards], rules.max_bytes, path)
    counts = count_kept(run.folder, seals, path, lambda sizes: piece_counts(sizes, rules.sequence_length, rules.cut))
    first, documents = {}, 0
    for number in numbers:
        first[number] = documents
        documents += run.seals[number][-1]["to"]
    sources = largest_sources(read, TOP_SOURCES)
    del read["sources"]
    return sealed({
        "schema": SCHEMA, "what": WHAT, "finished": True, "settings": run.request.record(), "splits": counts, "read": read,
        "limits": {} if rules.max_bytes is None else _limits(run, within, full),
        "parts": count_parts(run.folder, seals, path),
        "mean_bytes": read["stored_bytes"] / read["stored"], "largest_sources": sources,
        "kept": {"shard": "kept", "files": {".npy": {"bytes": path.stat().st_size, "sha256": sha256_of(path)}}},
        "units": [run.units[number].name for number in numbers],
        "shards": [
            {key: seal[key] for key in ("shard", "documents", "files")} | {"first_document": first[number]}
            for number, seal in shards
        ],
        "timing": {"seconds": seconds, "bytes": session_bytes, "bytes_per_second": session_bytes / max(1e-9, seconds)},
    }, UNSEALED)  # fmt: skip


def _why_none(read: dict[str, Any], rules: Rules) -> str:
    """How many documents were left out for which reason, the first of them by name, and a remedy for the most frequent."""
    counts = {reason: read[reason] for reason in SKIPPED if read[reason]}
    named = {reason: f" (first: {names[0]})" for reason, names in read["named"].items() if names}
    why = ", ".join(f"{count} {reason.replace('_', ' ')}{named.get(reason, '')}" for reason, count in counts.items())
    reason = max(counts, key=lambda reason: counts[reason], default="")
    shorter = "--cut windows" if rules.cut == "documents" else "a smaller --sequence-length"
    remedies = {"too_short": f"Give longer texts, or {shorter}"}
    remedies |= dict.fromkeys(("invalid_utf8", "no_text"), "Convert the text to UTF-8, or let any bytes through with --any-bytes")
    return f"{why or 'there was none'}. {remedies.get(reason, 'Give other text')}"


def _limits(run: Run, within: dict[int, int], full: set[int]) -> dict[str, dict[str, Any]]:
    """Of the sources and of texts of their own: bytes within --max-bytes, and whether a document was too long for the rest."""
    stored = dict.fromkeys(within, 0)
    for number in run.needed():
        stored[run.groups[number]] = stored.get(run.groups[number], 0) + sum(
            seal["tally"]["stored_bytes"] for seal in run.seals[number]
        )
    return {
        ("sources", "validation", "test")[group]: {
            "bytes": within.get(group, 0), "ended": group in full or count > within.get(group, 0)
        }
        for group, count in sorted(stored.items())
    }  # fmt: skip


_SHARD = re.compile(r"\d{5,}-\d{3,}\.(bin|idx|json)")
_UNFINISHED = re.compile(rf"({_SHARD.pattern}\.\d+|kept\.npy\.\d+|\.buckets-\w+|\.rltok-[0-9a-f]+)\.tmp")


def _remove_leftovers(folder: Path, keep: set[str] | None) -> None:
    """Remove files that a killed process left unfinished; with `keep`, also shards of other names. What is not ours stays."""
    for path in folder.iterdir():
        is_other = keep is not None and _SHARD.fullmatch(path.name) and path.stem not in keep
        if is_other or _UNFINISHED.fullmatch(path.name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def prepare_folder(
    request: Request, folder: Path, *,
    jobs: int = 1, force: bool = False, bar: Callable[[int | None, int], Tell] = lambda total, done: lambda *_: None,
    sleep: Callable[[float], None] = time.sleep, note: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:  # fmt: skip
    """Write a folder of shards, or go on with one; its record.

    Args:
        request: what is wanted; it must be the same whenever one goes on.
        jobs: processes that read at the same time.
        force: ask the hub without first testing that it answers.
        bar: given the bytes expected and those already read, makes what is told about further ones.
        sleep: waits before another try to reach the hub (with one job).
        note: told of shards that are damaged and made again, a line each.

    Raises:
        RltokError: bad text, a folder of something else, a full disk; another call goes on.
    """
    with claimed(folder, request):
        if (folder / RECORD).exists():
            record = open_prepared(folder).record
            check_finished(folder, request, {int(shard["shard"].partition("-")[0]) for shard in record["shards"]})
            return record
        with room(folder, AGAIN):
            start, run = time.perf_counter(), Run(folder, request, force, sleep, note)
            _remove_leftovers(folder, None)
            before = run.read_bytes
            run.work(jobs, bar(run.expected_bytes, before))
            record = record_of(run, time.perf_counter() - start, run.read_bytes - before)
            _remove_leftovers(folder, {shard["shard"] for shard in record["shards"]})
            write_json(folder / RECORD, record)
        return record
