"""A panel for notebooks: any text through any model, its boundaries, probabilities and surprise, byte by byte.

text --read--> Reading --rltok.show.readings--> HTML --explorer--> widgets
"""

from rltok.explore.panel import explorer
from rltok.explore.reading import read

__all__ = ["explorer", "read"]
