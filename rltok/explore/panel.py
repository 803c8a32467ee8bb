"""The panel itself: widgets around `read` and `rltok.show.readings`, which do the work."""

import html
from pathlib import Path
from typing import Any

from rltok.errors import RltokError
from rltok.explore.reading import read
from rltok.runs.loading import load
from rltok.show.readings import Reading, differing, keys, reading_html, summary
from rltok.unet import AutoregressiveUNet
from rltok.vocab import to_utf8

MOST_BYTES = 2048  # that are read: more would make a page of megabytes
Named = str | Path | AutoregressiveUNet
DRAW, ABOVE = "drawn with the probabilities", "where the probability is above"


def first_bytes(text: str, most: int) -> bytes:
    """The first bytes of a text, at most so many, without half a character at the end."""
    data = to_utf8(text)[: most + 4]
    return data if len(data) <= most else data[:most].decode("utf-8", errors="ignore").encode("utf-8")


def pictures(names: list[str], readings: list[Reading], threshold: float | None) -> list[str]:
    """HTML of each model's reading of one text; of two, with only the spans marked that they divide differently."""
    marked = None if len(readings) == 1 else differing(*(reading.boundaries for reading in readings))
    return [
        f"<p><b>{html.escape(name)}</b>: {summary(reading)}</p>"
        + reading_html(reading, f"boundaries of {name}", threshold=threshold, marked=marked)
        for name, reading in zip(names, readings, strict=True)
    ]


class Panel:
    """The widgets and what they do; `box` is what a notebook shows."""

    def __init__(self, widgets: Any, names: list[str], models: list[AutoregressiveUNet], text: str, seed: int) -> None:
        self.names, self.models, self.seed = names, models, seed
        fixed = not all(model.rule.has_threshold for model in models)
        self.field = widgets.Textarea(value=text, rows=4, layout={"width": "98%"})
        self.mode = widgets.Dropdown(options=[DRAW, ABOVE], description="Boundaries:", disabled=fixed, layout={"width": "24rem"})
        self.level = widgets.FloatSlider(0.5, min=0.01, max=0.99, step=0.01, disabled=fixed)
        self.again = widgets.Button(description="Draw again")
        self.ranged = [model.rule for model in models if model.rule.rates is not None]
        rate = {"step": 0.005, "description": "Rate:", "readout_format": ".3f"}
        self.rate = [
            widgets.FloatSlider(rule.rate, min=rule.rates[0], max=rule.rates[1], **rate) for rule in self.ranged[:1]
        ]  # none where no model was trained for a range of rates
        self.note = widgets.HTML()
        self.views = [widgets.HTML(layout={"flex": "1 1 18rem"}) for _ in names]  # beside each other where there is room
        self.again.on_click(self.redraw)
        self.level.observe(self.cut, names="value")
        for control in (self.field, self.mode, *self.rate):
            control.observe(self.update, names="value")
        wrapped = {"flex_flow": "row wrap"}
        controls = widgets.HBox([self.mode, self.level, self.again, *self.rate], layout=wrapped)
        self.keys, views = widgets.HTML(), widgets.HBox(self.views, layout=wrapped)
        self.box = widgets.VBox([self.field, controls, self.note, views, self.keys])
        self.update()

    def update(self, _: Any = None) -> None:
        """Read the text anew; a text that cannot be read leaves what is shown, with a note."""
        threshold, self.note.value = self.level.value if self.mode.value == ABOVE else None, ""
        try:
            data = first_bytes(self.field.value, MOST_BYTES)
            for rule in self.ranged:
                rule.use_rate(self.rate[0].value)
            readings = [read(model, data, seed=self.seed, threshold=threshold) for model in self.models]
        except RltokError as error:
            self.note.value = html.escape(str(error))
            return
        if len(data) < len(to_utf8(self.field.value)):
            self.note.value = f"Only the first {len(data)} bytes are read here; the rest of the text is left out."
        for view, shown in zip(self.views, pictures(self.names, readings, threshold), strict=True):
            view.value = shown
        self.keys.value = keys(data, len(self.names) > 1)

    def _change_to(self, mode: str) -> None:
        if self.mode.value == mode:
            self.update()
        else:
            self.mode.value = mode  # which updates

    def redraw(self, _: Any) -> None:
        """Draw boundaries with the next seed."""
        self.seed += 1
        self._change_to(DRAW)

    def cut(self, _: Any) -> None:
        """Boundaries by the threshold that was chosen."""
        self._change_to(ABOVE)


def explorer(model: Named, other: Named | None = None, text: str = "Where do tokens end?", seed: int = 0) -> Any:
    """A box of widgets: a field for a text, how boundaries come about, and what the model says of each byte.

    A model that was trained for a range of rates has a slider for the rate, too.

    Args:
        model: a run's folder, a checkpoint, a file of weights, a name of `rltok models`, or a model that is loaded already.
        other: a second model, shown beside the first.
        text: what stands in the field at first.
        seed: of the first draw.

    Raises:
        RltokError: no such model, or ipywidgets is not installed.
    """
    try:
        import ipywidgets
    except ImportError as error:
        instead = "`rltok show MODEL TEXT` shows boundaries in a terminal."
        raise RltokError(f"the explorer needs ipywidgets. Run: pip install 'rltok[notebook]'. {instead}") from error
    given = {"the model": model} if other is None else {"the first model": model, "the second model": other}
    names = [name if isinstance(each, AutoregressiveUNet) else str(each) for name, each in given.items()]
    models = [each if isinstance(each, AutoregressiveUNet) else load(each) for each in given.values()]
    return Panel(ipywidgets, names, models, text, seed).box
