"""Text in: documents from many kinds of sources, cut into rows, in a seeded order from which training can resume."""

from rltok.data.corpus import Corpus, load_corpus, load_test
from rltok.data.documents import Document
from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.data.order import rank_rows, row_indices
from rltok.data.rows import Rows, cut_documents
from rltok.data.sources import documents

__all__ = [
    "FIXED_TEXTS",
    "Corpus",
    "Document",
    "Rows",
    "cut_documents",
    "documents",
    "load_corpus",
    "load_test",
    "rank_rows",
    "row_indices",
]
