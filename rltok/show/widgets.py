"""A slider for notebooks that redraws a figure and a caption whenever it moves; pages of the book show its first state."""

import base64
import html
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rltok.errors import RltokError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def slider(
    options: Sequence[float], value: float, description: str, draw: Callable[[float], tuple["Figure", str]], *, alt: str
) -> Any:
    """A box with a slider over the options, the figure that `draw` returns for the chosen one, and its caption as HTML.

    `alt` describes the figure for readers who cannot see it; the caption says what changes.

    Raises:
        RltokError: ipywidgets is not installed.
    """
    try:
        import ipywidgets as widgets
    except ImportError as error:
        raise RltokError(
            "the slider needs ipywidgets. Run: pip install 'rltok[notebook]'. The figure above shows the same."
        ) from error
    import matplotlib.pyplot as plt

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
