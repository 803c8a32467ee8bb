"""The panel itself: widgets around `read` and `rltok.show.readings`, which do the work."""

import html
from pathlib import Path
from typing import Any

from rltok.errors import RltokError
from rltok.explore.reading import read
from rltok.runs.loading import load, load_config
from rltok.show.readings import Reading, differing, keys, reading_html, summary
from rltok.show.widgets import require_widgets
from rltok.vocab import to_utf8

MOST_BYTES = 2048  # that are read: more would make a page of megabytes
DRAW, ABOVE = "drawn with the probabilities", "where the probability is above"


def first_bytes(text: str, most: int) -> bytes:
    """The first bytes of a text, at most so many, without half a character at the end."""
    data = to_utf8(text)[: most + 4]
    return data if len(data) <= most else data[:most].decode("utf-8", errors="ignore").encode("utf-8")


def panels(names: list[str], readings: list[Reading], threshold: float | None) -> list[str]:
    """HTML of each model's reading of one text; of two, with only the spans marked that they divide differently."""
    marked = None if len(readings) == 1 else differing(*(reading.boundaries for reading in readings))
    return [
        f"<p><b>{html.escape(name)}</b>: {summary(reading)}</p>"
        + reading_html(reading, f"boundaries of {name}", threshold=threshold, marked=marked)
        for name, reading in zip(names, readings, strict=True)
    ]


def explorer(model: str | Path, other: str | Path | None = None, text: str = "Where do tokens end?", seed: int = 0) -> Any:
    """A box of widgets: a field for a text, how boundaries come about, and what the model says of each byte.

    Args:
        model: a run's folder, a checkpoint, a file of weights, or a name of `rltok models`.
        other: a second model, shown beside the first.
        text: what stands in the field at first.
        seed: of the first draw.

    Raises:
        RltokError: no such model, or ipywidgets is not installed.
    """
    widgets = require_widgets("the explorer", "`rltok show MODEL TEXT` shows boundaries in a terminal.")
    names = [model] if other is None else [model, other]
    models = [(load(name), load_config(name).data.sequence_length) for name in names]
    field = widgets.Textarea(value=text, rows=4, layout={"width": "98%"})
    mode = widgets.Dropdown(
        options=[DRAW, ABOVE],
        description="Boundaries:",
        disabled=not all(each.rule.has_threshold for each, _ in models),
        layout={"width": "24rem"},
    )
    level = widgets.FloatSlider(0.5, min=0.01, max=0.99, step=0.01, disabled=mode.disabled)
    again = widgets.Button(description="Draw again")
    note, views = widgets.HTML(), [widgets.HTML(layout={"width": f"{100 // len(names)}%"}) for _ in names]

    def update(_: Any = None) -> None:
        threshold = level.value if mode.value == ABOVE else None
        note.value = ""
        try:
            data = first_bytes(field.value, MOST_BYTES)
            readings = [read(each, data, row_bytes=row, seed=seed, threshold=threshold) for each, row in models]
        except RltokError as error:
            note.value = html.escape(str(error))
            return
        if len(data) < len(to_utf8(field.value)):
            note.value = f"Only the first {len(data)} bytes are read here; the rest of the text is left out."
        for view, shown in zip(views, panels([str(name) for name in names], readings, threshold), strict=True):
            view.value = shown

    def redraw(_: Any) -> None:
        nonlocal seed
        seed += 1
        if mode.value == DRAW:
            update()
        else:
            mode.value = DRAW  # which updates

    def cut(_: Any) -> None:
        if mode.value == ABOVE:
            update()
        else:
            mode.value = ABOVE

    again.on_click(redraw)
    level.observe(cut, names="value")
    for control in (field, mode):
        control.observe(update, names="value")
    update()
    return widgets.VBox(
        [field, widgets.HBox([mode, level, again]), note, widgets.HBox(views), widgets.HTML(keys(len(names) > 1))]
    )
