"""Makes an executed notebook the same to the byte whenever the same things came out."""

import re

import nbformat

from nbtools.rules import JUPYTEXT, KERNELSPEC, METADATA, SPACING, folds

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"


def normalise(nb) -> nbformat.NotebookNode:
    """A copy without time stamps, process numbers and random ids, its cells counted from the top."""
    nb = nbformat.from_dict(nb)
    kept = {key: nb.metadata[key] for key in METADATA if key in nb.metadata}
    nb.metadata = nbformat.from_dict(kept | {"jupytext": JUPYTEXT, "kernelspec": KERNELSPEC})
    nb.nbformat, nb.nbformat_minor = 4, 5
    count = 0
    for i, cell in enumerate(nb.cells):
        cell.id = f"cell-{i:03d}"
        own = {key: cell.metadata[key] for key in ("mystnb", "tags", SPACING) if cell.metadata.get(key) is not None}
        cell.metadata = nbformat.from_dict(dict(sorted((own | folds(cell)).items())))  # in the order of a JSON file
        if cell.cell_type == "code":
            count += 1
            # A cell that has not run keeps no count: an empty one, or a GPU cell without stored outputs.
            cell.execution_count = count if cell.get("execution_count") is not None else None
            cell.outputs = merged([output(o, cell.execution_count) for o in cell.outputs])
    return renumber_widgets(nb)


def output(original, count: int | None):
    """One output without what differs from run to run."""
    made = nbformat.from_dict(original)
    if "metadata" in made:
        made.metadata.pop("execution", None)
    if made.output_type == "execute_result":
        made.execution_count = count
    if made.output_type == "error":  # the frames name files of this machine; name and message are what a reader needs
        made.traceback = [f"{made.ename}: {made.evalue}"]
    if made.output_type == "stream":
        made.text = clean(made.text)
    return made


def clean(text: str) -> str:
    """Text without what a carriage return has overwritten, and with one name for the kernel's temporary file."""
    text = re.sub(r"[^\n]*\r(?!\n)", "", text)
    return re.sub(r"\S*ipykernel_\d+/\d+\.py", "ipykernel_0/0.py", text)


def merged(outputs: list) -> list:
    """Neighbouring pieces of one stream joined: how a print is cut into pieces depends on timing."""
    result = []
    for item in outputs:
        before = result[-1] if result else None
        if item.output_type == "stream" and before and before.output_type == "stream" and before.name == item.name:
            before.text += item.text
        else:
            result.append(item)
    return result


def renumber_widgets(nb):
    """Widget models numbered in order of use in the cells, then of creation, instead of by random ids."""
    state = nb.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    if not state:
        nb.metadata.pop("widgets", None)
        return nb
    outputs = [o for cell in nb.cells for o in cell.get("outputs", [])]
    used = [o.data[VIEW]["model_id"] for o in outputs if VIEW in o.get("data", {})]
    text = nbformat.writes(nb)
    for number, model in enumerate(dict.fromkeys([*used, *state])):
        text = text.replace(model, f"{number:032x}")
    nb = nbformat.reads(text, as_version=4)
    widgets = nb.metadata["widgets"][STATE]
    widgets["state"] = nbformat.from_dict({key: widgets["state"][key] for key in sorted(widgets["state"])})
    return nb
