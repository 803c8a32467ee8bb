"""What measuring scripts share: the file of a record is checked before anything is measured, and errors are one line."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rltok.config import Config
from rltok.errors import RltokError
from rltok.evidence.record_checks import is_clean
from rltok.evidence.records import Sweep, read_sweeps
from rltok.evidence.tables import by_size
from rltok.runs.results import repository_commit
from rltok.system import signals
from rltok.system.files import check_record_path
from rltok.system.streams import lasting_output

DIGITS = 6  # significant ones that `rounded` keeps; pages show fewer, and rounding twice would show others

Run = dict[str, Any]


def stored_record(path: Path, what: str) -> dict[str, Any] | None:
    """The record that the file holds, None without a file. Raises `RltokError` where the file cannot become this record."""
    check_record_path(str(path), what)
    return json.loads(path.read_bytes()) if path.exists() else None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around what is taken from a stored record: what it lacks becomes an `RltokError` that says that the file stays."""
    try:
        yield
    except RltokError as error:
        raise RltokError(str(error) if "--out" in str(error) else f"--out {path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"{type(error).__name__}: {error}"
        raise RltokError(f"--out {path} holds a damaged record ({what}), so it stays. Name another file.") from error


def stored_runs(
    path: Path, what: str, key_of: Callable[[Run], Any], config_of: Callable[[Run], Config],
    remade: Callable[[list[Run]], dict[str, Any]],
) -> list[Run]:  # fmt: skip
    """The runs of a record of the same settings and text, none if there is no such file.

    Args:
        path, what: see `stored_record`.
        key_of: what tells a run from the others.
        config_of: the configuration with which a run would be made now.
        remade: the record that is made of the runs now; it also shows that no run lacks anything.

    Raises:
        RltokError: other settings, other text, a run that stands there twice or is damaged.
    """
    record = stored_record(path, what)
    if record is None:
        return []
    with reading(path):
        runs = record["runs"]
        if any(config_of(each).digest() != each["config_hash"] for each in runs):
            raise RltokError(f"--out {path} holds runs of other settings, so it stays. Name another file.")
        if len({key_of(each) for each in runs}) < len(runs):
            raise RltokError(f"--out {path} holds a run twice, so it stays. Name another file.")
        again = remade(runs)
        if any(again.get(key) != record.get(key) for key in ("data", "languages")):
            raise RltokError(f"--out {path} holds runs on other text, so it stays. Name another file.")
    return runs


def rounded(value: Any) -> Any:
    """The value with each float in it rounded to DIGITS significant digits."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def clean_commit() -> str:
    """The commit of the code. Raises `RltokError` where it is unknown or the tree has changes."""
    commit = repository_commit()
    if not is_clean(commit):
        raise RltokError(
            f"the code is at {commit}, which nobody could look up again, and records of it are refused. Commit first"
            " (or set RLTOK_COMMIT where the files came without their history)."
        )
    return commit


def stored_sweeps(folder: Path) -> list[Sweep]:
    """The sweeps that `read_sweeps` finds in a folder, smallest model first. Raises `RltokError` where there is none."""
    sweeps = list(read_sweeps(folder).values())
    if not sweeps:
        raise RltokError(
            "--sweeps holds no record of a finished run. Name the folder that holds a folder for each sweep, such as"
            " notebooks/results/sweeps."
        )
    return by_size(sweeps)


def at_least(least: int, **values: int | None) -> None:
    """Raise `RltokError` for an option whose value is below `least`; None stands for one that was not given."""
    for name, value in values.items():
        if value is not None and value < least:
            raise RltokError(f"--{name.replace('_', '-')} must be at least {least}; got {value}.")


def run(main: Callable[[], None]) -> None:
    """Run the `main` of a script: an `RltokError` ends it in one line with code 2; control-C, SIGTERM and SIGHUP in one line with
    128 + the signal's number, together with the processes that it started; a closed log does not."""
    signals.answer()
    with lasting_output() as failure:
        try:
            main()
            if (error := failure()) is not None:
                raise RltokError(f"standard output could not be written ({error.strerror}). Make room, or send it elsewhere.")
        except KeyboardInterrupt as interrupted:
            number = getattr(interrupted, "number", signal.SIGINT)
            what = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
            print(f"{Path(sys.argv[0]).name}: {what}. The same command goes on from what is stored.", file=sys.stderr)
            raise SystemExit(128 + number) from None
        except RltokError as error:
            print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
            raise SystemExit(2) from None
