"""rltok: token boundaries learned end to end with reinforcement learning, as in arXiv 2602.13940.

>>> import rltok
>>> record = rltok.train(rltok.preset("tiny"), "sample", "runs/tiny")
>>> model = rltok.load("runs/tiny")  # or a model that comes with rltok: rltok.load("demo")
>>> reading = rltok.read(model, "Where do tokens end?")  # boundaries, their probabilities, surprise of each byte
>>> rows = rltok.generate(model, "Once upon a time")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rltok.presets import preset as preset
from rltok.presets import presets as presets  # now: a later import of the module would give its name to the module

if TYPE_CHECKING:
    from rltok.api import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The names of `rltok.api`, and the modules that come with it, when one is first asked for: that takes seconds."""
    api = import_module("rltok.api")
    for each in ("__all__", *api.__all__):
        globals().setdefault(each, getattr(api, each))
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    """What an editor offers: all of them."""
    __getattr__("__all__")
    return [*globals()]
