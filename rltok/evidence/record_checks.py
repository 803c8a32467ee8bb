"""Files that carry their digest, as they are read, and where a run came from.

file --read_with_digest(check)--> record     each check takes `demand(ok, what is wrong)`, which raises with file and remedy
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rltok.config import from_dict
from rltok.errors import RltokError
from rltok.system.digest import digest_matches
from rltok.system.files import MISSING, read_file

# By the start of a method's name: what every difference is of.
RULE_OF = {"ours": "learned", "policy": "learned", "even": "even"}
CLEAN = re.compile(r"[0-9a-f]{40}")

Demand = Callable[[bool, str], None]


def demanding(where: str, remedy: str) -> Demand:
    """What raises `RltokError` for all that is not as it should be, with the place and a sentence that says what to do."""

    def demand(ok: bool, what: str) -> None:
        if not ok:
            raise RltokError(f"{where}: {what}. {remedy}")

    return demand


def read_with_digest(path: Path, where: str, remedy: str, check: Callable[[Any, Demand], None]) -> dict[str, Any]:
    """The content of a file that `check` finds nothing wrong with.

    Args:
        path: of the file.
        where, remedy: of errors, see `demanding`.
        check: takes what was read and a `Demand`, and calls `check_digest` first.

    Raises:
        RltokError: no such file, no JSON (nor are NaN and Infinity), or what `check` found.
    """
    try:
        record = json.loads(read_file(path), parse_constant=_no_number)
    except RltokError as error:
        raise RltokError(f"{where}: {error} {remedy}") from error
    except (*MISSING, ValueError, RecursionError) as error:
        raise RltokError(f"{where} is missing or no JSON ({error}). {remedy}") from error
    try:
        check(record, demanding(where, remedy))
    except RltokError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise RltokError(f"{where}: an entry is missing or of another kind ({error!r}). {remedy}") from error
    return record


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def check_digest(record: Any, demand: Demand, what: str, schema: int) -> None:
    """A record of this kind and schema, as it was when it was made."""
    demand(isinstance(record, dict) and record.get("what") == what, f"this is no record of {what}")
    demand(record.get("schema") == schema, f"schema {record.get('schema')!r} is unknown; this version reads {schema}")
    demand(digest_matches(record), "it was changed after it was made: its digest differs")


def check_origin(record: Mapping[str, Any], demand: Demand, *, any_commit: bool = False) -> None:
    """Settings of its hash and seed, the rule that its name says, and, unless `any_commit`, a commit that can be looked up."""
    config, stated = record["config"], record.get("config_hash")
    try:
        digest = from_dict(config).digest()
    except (RltokError, KeyError, TypeError) as error:
        demand(False, f"its configuration cannot be read ({error})")
    demand(digest == stated, f"config_hash is {stated!r}, its configuration has {digest}")
    demand(config["train"]["seed"] == record["seed"], f"seed is {record['seed']}, its configuration has another")
    if not any_commit:
        check_commit(record["commit"], demand)
    rule, named = config["model"]["rule"]["name"], record["name"].split("_")[0]
    demand(RULE_OF.get(named, rule) == rule, f"it is called {record['name']}, its boundaries are those of the rule {rule}")


def check_commit(commit: Any, demand: Demand) -> None:
    """A state of the code that can be looked up."""
    demand(
        isinstance(commit, str) and is_clean(commit),
        f"commit {str(commit)!r} is none that can be looked up, or its tree was not clean when the run began: commit, then train"
        " again in an empty folder",
    )


def is_clean(commit: str | None) -> bool:
    """Whether a commit names a state of the code that can be looked up."""
    return CLEAN.fullmatch(commit or "") is not None
