"""rltok: token boundaries learned end to end with reinforcement learning, as in arXiv 2602.13940.

>>> import rltok
>>> record = rltok.train(rltok.preset("tiny"), "sample", "runs/tiny")
>>> model = rltok.load("runs/tiny")  # or a model that comes with rltok: rltok.load("demo")
>>> reading = rltok.read(model, "Where do tokens end?")  # boundaries, their probabilities, surprise of each byte
>>> rows = rltok.generate(model, "Once upon a time")
"""

from rltok import estimator, losses, policy, vocab
from rltok.config import Config
from rltok.errors import RltokError
from rltok.explore.reading import read
from rltok.generation.batch import generate, stream
from rltok.presets import preset, presets
from rltok.runs.export import export
from rltok.runs.loading import load
from rltok.runs.snapshots import boundary_view
from rltok.runs.training import train
from rltok.show.terminal import paint_view as paint
from rltok.unet import AutoregressiveUNet, UNetOutput

__version__ = "0.1.0"

__all__ = [
    "AutoregressiveUNet",
    "Config",
    "RltokError",
    "UNetOutput",
    "boundary_view",
    "estimator",
    "export",
    "generate",
    "load",
    "losses",
    "paint",
    "policy",
    "preset",
    "presets",
    "read",
    "stream",
    "train",
    "vocab",
]
