"""Rules that look at text alone, inside a small model, that several tests share."""

from helpers import tiny_model
from runs import TEXT

from rltok.data import Document, cut_documents

SMALL = {"vocabulary": 300, "fit_bytes": 4000, "entropy_dim": 32, "entropy_layers": 1, "entropy_window": 6}
FITTED = {
    "whitespace": {"name": "whitespace"},
    "entropy": {"name": "entropy"} | SMALL,
    "bpe_causal": {"name": "bpe", "bpe_boundary": "causal"} | SMALL,
    "bpe": {"name": "bpe"} | SMALL,
}
ROWS = cut_documents([Document(TEXT + bytes(range(256)) * 2, "t", "t")], 64, "windows", name="t")


def fitted_model(rule, **settings):
    """A small model whose rule, one of FITTED, was fitted to a little text."""
    named = dict(FITTED[rule])
    model = tiny_model(named.pop("name"), **named, **settings)
    model.rule.fit(ROWS, seed=0)
    return model
