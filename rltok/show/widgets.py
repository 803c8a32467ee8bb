"""Widgets for notebooks: a slider that redraws a figure and a caption; pages of the book show its first state."""

import base64
import html
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rltok.errors import RltokError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def require_widgets(what: str, instead: str) -> Any:
    """The module ipywidgets. Raises `RltokError` without it, which names what needs it and what shows the same."""
    try:
        import ipywidgets
    except ImportError as error:
        raise RltokError(f"{what} needs ipywidgets. Run: pip install 'rltok[notebook]'. {instead}") from error
    return ipywidgets


def slider(
    options: Sequence[float], value: float, description: str, draw: Callable[[float], tuple["Figure", str]], *, alt: str
) -> Any:
    """A box with a slider over the options, the figure that `draw` returns for the chosen one, and its caption as HTML.

    `alt` describes the figure for readers who cannot see it; the caption says what changes.

    Raises:
        RltokError: ipywidgets is not installed.
    """
    import matplotlib.pyplot as plt

    widgets = require_widgets("the slider", "The figure above shows the same.")
    choice = widgets.SelectionSlider(options=list(options), value=value, description=description)
    # No Output widget: it needs messages while a cell runs. No Image widget: it cannot have a text.
    picture, caption = widgets.HTML(), widgets.HTML()

    def show(change: Any = None) -> None:
        (figure, words), buffer = draw(choice.value), io.BytesIO()
        figure.savefig(buffer, format="png")
        plt.close(figure)
        data = base64.b64encode(buffer.getvalue()).decode()
        picture.value = f'<img alt="{html.escape(alt)}" style="max-width: 100%" src="data:image/png;base64,{data}">'
        caption.value = words

    choice.observe(show, names="value")
    show()
    return widgets.VBox([choice, picture, caption])
