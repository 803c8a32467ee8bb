"""A toy language in which the worth of a boundary is known: what was made, by which rule it is cut, and nothing of training."""

from rltok.toy.language import Language, independent, second_order
from rltok.toy.lexicon import Lexicon
from rltok.toy.rule import OracleRule

__all__ = ["Language", "Lexicon", "OracleRule", "independent", "second_order"]
