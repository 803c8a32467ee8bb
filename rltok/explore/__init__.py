"""A panel for notebooks: any text through any model, its boundaries, probabilities and surprise, byte by byte.

text --read--> Reading --rltok.show.readings--> HTML --explorer--> widgets; Reading --places--> boundaries by kind of byte
"""

from rltok.explore.kinds import places
from rltok.explore.panel import explorer
from rltok.explore.reading import read

__all__ = ["explorer", "places", "read"]
