"""What `import rltok` offers; it imports torch, so `rltok` itself asks here only when one of the names is first used."""

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
