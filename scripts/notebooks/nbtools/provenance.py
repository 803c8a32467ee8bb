"""Provenance of stored GPU outputs: what ran, on what, and whether notebook or package have changed since.

The runner records facts when the cells run. `stamp` adds the commit once the tree is clean. `check` needs no GPU.
"""

import ast
import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from nbtools.execute import Facts
from nbtools.rules import NotebookError, mend, tags, where

SCHEMA = 1
BLOCK = "rltok_provenance"
FIELDS = {
    "schema": int,
    "full": bool,  # False: a smoke run
    "commit": str | None,  # None until stamped
    "device": str,
    "python": str,
    "torch": str | None,
    "seconds": float | int,
    "peak_memory": int,
    "gpu_memory": int | None,
    "seeds": list | None,
    "config_hash": str | None,
    "cells": list,
    "modules": dict,
}


def digest(value: Any) -> str:
    """Short SHA-256 of a text or of anything JSON can hold."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def repository(path: Path) -> Path:
    """Root of the project that a notebook is part of; the package lies beside the folder of notebooks."""
    return path.resolve().parents[1]


def has_gpu_cells(nb) -> bool:
    """Whether the notebook stores outputs that need provenance."""
    return any("gpu" in tags(cell) for cell in nb.cells)


def gpu_and_before(nb) -> list[tuple[int, Any]]:
    """Code cells up to the last one for the GPU, with index: what the stored outputs can depend on."""
    last = max((i for i, cell in enumerate(nb.cells) if "gpu" in tags(cell)), default=-1)
    cells = [(i, cell) for i, cell in enumerate(nb.cells[: last + 1]) if cell.cell_type == "code"]
    return [(i, cell) for i, cell in cells if "first-cell" not in tags(cell)]


def describe_cells(nb) -> list[dict[str, str]]:
    """Digests of sources, and for GPU cells of outputs, in order."""
    described = []
    for _, cell in gpu_and_before(nb):
        entry = {"source": digest(cell.source)}
        if "gpu" in tags(cell):
            entry["outputs"] = digest(cell.outputs)
        described.append(entry)
    return described


def module_file(name: str, root: Path) -> Path | None:
    """File of a module of this repository, or None for any other name."""
    base = root.joinpath(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def imported_names(source: str, package: str) -> set[str]:
    """Dotted names that could be modules of rltok: imports, and chains of attributes such as rltok.policy."""
    code = "\n".join("" if re.match(r"\s*[%!]", line) else line for line in source.splitlines())
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            names.add(ast.unparse(node))
    return {name for name in names if name.split(".")[0] == "rltok"}


def module_digests(nb, root: Path) -> dict[str, str]:
    """Digest of every module of rltok that the notebook imports, directly or through others."""
    digests: dict[str, str] = {}
    waiting = set().union(*(imported_names(cell.source, "") for cell in nb.cells if cell.cell_type == "code"))
    while waiting:
        name = waiting.pop()
        parents = [".".join(name.split(".")[:n]) for n in range(1, name.count(".") + 1)]
        waiting |= {parent for parent in parents if parent not in digests}
        path = module_file(name, root)
        if path is None or name in digests:
            continue
        text = path.read_text(encoding="utf-8")
        digests[name] = digest(text)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        waiting |= imported_names(text, package) - set(digests)
    return dict(sorted(digests.items()))


def record(nb, path: Path, facts: Facts, *, full: bool) -> dict[str, Any]:
    """The block for a notebook whose GPU cells have just run."""
    declared = nb.metadata.get("rltok", {})
    return {
        "schema": SCHEMA,
        "full": full,
        "commit": None,
        "device": facts.device,
        "python": facts.python,
        "torch": facts.torch,
        "seconds": facts.seconds,
        "peak_memory": facts.peak_memory,
        "gpu_memory": facts.gpu_memory,
        "seeds": declared.get("seeds"),
        "config_hash": declared.get("config_hash"),
        "cells": describe_cells(nb),
        "modules": module_digests(nb, repository(path)),
    }


def schema_problems(block: dict[str, Any]) -> list[str]:
    """Fields that are missing, unknown or of the wrong type."""
    wrong = [f"lacks {name}" for name in FIELDS if name not in block]
    wrong += [f"has the unknown field {name}" for name in block if name not in FIELDS]
    typed = [name for name, kind in FIELDS.items() if name in block and not isinstance(block[name], kind)]
    return wrong + [f"has {name} = {block[name]!r}" for name in typed]


def problems(nb, path: Path) -> list[str]:
    """What makes stored GPU outputs untrustworthy; empty for notebooks without GPU cells and for sound ones."""
    again = f"Run `{mend(path)}` on a machine with a GPU, then `python scripts/notebooks/provenance.py stamp {path.stem}`."
    block = nb.metadata.get(BLOCK)
    if not has_gpu_cells(nb):
        return [f"{path.stem} has provenance but no cell tagged gpu. Run `{mend(path)}`."] if block else []
    if block is None:
        return [f"{path.stem} has cells tagged gpu and no provenance. {again}"]
    wrong = schema_problems(block)
    if wrong:
        return [f"{path.stem}: the provenance {', '.join(wrong)}. {again}"]
    lines = []
    if not block["full"]:
        lines.append(f"{path.stem} holds the outputs of a smoke run. Unset RLTOK_SMOKE. {again}")
    if block["commit"] is None:
        lines.append(f"{path.stem} is not stamped. Commit, then `python scripts/notebooks/provenance.py stamp {path.stem}`.")
    elif not re.fullmatch(r"[0-9a-f]{40}", block["commit"]):
        lines.append(f"{path.stem} is stamped with {block['commit']!r}, which is no commit of a clean tree. {again}")
    return lines + cell_problems(nb, path, block["cells"], again)


def cell_problems(nb, path: Path, stored: list[dict[str, str]], again: str) -> list[str]:
    """Cells whose source or outputs are not those of the run."""
    cells, now = gpu_and_before(nb), describe_cells(nb)
    if len(now) != len(stored):
        return [f"{path.stem}: {len(now)} code cells up to the last gpu cell, the run had {len(stored)}. {again}"]
    wrong = []
    for (index, _), ours, theirs in zip(cells, now, stored, strict=True):
        if ours["source"] != theirs.get("source"):
            wrong.append(f"{where(path, index)} was edited after the GPU run that its stored outputs come from. {again}")
        elif ours.get("outputs") != theirs.get("outputs"):
            wrong.append(f"{where(path, index)}: the stored outputs are not those of the recorded run. {again}")
    return wrong


def drift(nb, path: Path) -> list[str]:
    """Modules of rltok that have changed since the GPU cells ran. Not a mistake, but to be seen."""
    block = nb.metadata.get(BLOCK)
    if not block:
        return []
    now, then = module_digests(nb, repository(path)), block["modules"]
    return sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))


def git(root: Path, *arguments: str) -> str:
    """Output of a git command, or NotebookError."""
    from rltok.runs.results import git_environment  # here, as torch comes with it, and few of those who check notebooks stamp one

    run = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, env=git_environment())
    if run.returncode:
        raise NotebookError(f"git {arguments[0]} failed: {run.stderr.strip().splitlines()[-1]}. Stamp inside a repository.")
    return run.stdout


def stamp(nb, path: Path) -> None:
    """Write the commit into the block, if what ran is what is committed: clean tree, same modules, same cells."""
    root, block = repository(path), nb.metadata.get(BLOCK)
    if block is None:
        raise NotebookError(f"{path.stem} has no run to stamp. Run `{mend(path)}` on a machine with a GPU.")
    # What the run itself writes may still be uncommitted.
    outputs = re.compile(r"notebooks/[^/]+\.ipynb$|notebooks/results/")
    changed = [line[3:] for line in git(root, "status", "--porcelain", "--untracked-files=all").splitlines()]
    changed = [name for name in changed if not outputs.match(name)]
    if changed:
        raise NotebookError(f"{path.stem}: not stamped, the tree is not clean ({', '.join(changed[:3])}). Commit, then stamp.")
    moved = drift(nb, path)
    if moved:
        raise NotebookError(f"{path.stem}: not stamped, {', '.join(moved)} changed since the run. Run `{mend(path)}` again.")
    block["commit"] = git(root, "rev-parse", "HEAD").strip()
    rest = problems(nb, path)
    if rest:
        raise NotebookError(rest[0])
