"""A toy language in which the worth of a boundary is known: what was made, by which rule it is cut, and nothing of training."""

from rltok.evidence.toy.language import Language, independent, second_order
from rltok.evidence.toy.lexicon import Lexicon
from rltok.evidence.toy.rule import OracleRule

__all__ = ["Language", "Lexicon", "OracleRule", "independent", "second_order"]
