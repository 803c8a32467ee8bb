"""rltok.evaluation against a direct computation in numpy from the model's log-probabilities."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import STRAIGHT_THROUGH, tiny_model

from rltok.byte_classes import CLASSES, boundary_counts
from rltok.data import cut_documents
from rltok.data.documents import Document
from rltok.errors import RltokError
from rltok.evaluation import Evaluation, evaluate, paired_difference
from rltok.rng import row_uniforms
from rltok.runs.snapshots import boundary_view
from rltok.statistics import Difference
from rltok.vocab import BOS, EOS, PAD

TEXTS = (b"A small boat, 3 gulls.\nNo wind at all today", b"x" * 17 + b" y " * 9, b"Twenty bytes of text")


def ragged_rows(length=24):
    documents = [Document(text, "s", str(i)) for i, text in enumerate(TEXTS)]
    return cut_documents(documents, length, "windows", name="t")


def by_hand(model, rows, seed):
    """Bits of every scored id of every row, one row at a time, and the boundaries of its draw."""
    bits, boundaries = [], []
    for number in range(len(rows)):
        ids = rows.ids([number])
        uniforms = row_uniforms(seed, 0, [number], ids.shape[1] - 1)
        logp = model.log_probs(ids, uniforms=uniforms)[0].double().detach().numpy()
        targets = ids[0, 1:].numpy()
        there = targets != PAD
        bits.append(-logp[np.arange(len(targets)), np.where(there, targets, 0)][there] / math.log(2))
        boundaries.append(model(ids, uniforms=uniforms).boundaries[0].numpy()[there])
    return bits, boundaries


def test_bits_per_byte_and_its_standard_error_equal_a_direct_computation():
    model, rows = tiny_model().eval(), ragged_rows()
    score = evaluate(model, rows, seed=5, batch=2)
    bits, boundaries = by_hand(model, rows, 5)
    per_row = [float(np.mean(row)) for row in bits]
    assert {len(row) for row in bits} != {24}  # else no row is ragged
    assert score.bits_per_byte == pytest.approx(np.concatenate(bits).mean(), rel=1e-5)
    assert score.standard_error == pytest.approx(np.std(per_row, ddof=1) / math.sqrt(len(per_row)), rel=1e-4)
    assert score.row_bits_per_byte == pytest.approx(per_row, rel=1e-5)
    assert (score.rows, score.scored_bytes) == (len(rows), sum(map(len, bits)))
    assert score.tokens_per_byte == pytest.approx(np.concatenate(boundaries).mean())
    assert score.rate == pytest.approx(np.concatenate([row[1:] for row in boundaries]).mean())


def test_the_early_head_and_the_entropy_are_means_over_the_same_bytes():
    model, rows = tiny_model().eval(), ragged_rows()
    score = evaluate(model, rows, seed=5, batch=64)
    ids = rows.ids(range(len(rows)))
    with torch.no_grad():
        out = model(ids, uniforms=row_uniforms(5, 0, range(len(rows)), 24))
    assert score.early_bits_per_byte == pytest.approx(float(out.early_nll[out.scored].mean()) / math.log(2), rel=1e-5)
    p = out.boundary_logits.double().sigmoid()[out.drawn]
    assert score.policy_entropy == pytest.approx(float(-(p * p.log() + (1 - p) * (1 - p).log()).mean()), rel=1e-5)


@pytest.mark.parametrize("rule", ["learned", "random_k"])
def test_the_result_does_not_depend_on_the_batch_size(rule):
    model, rows = tiny_model(rule), ragged_rows()
    one, many = (evaluate(model, rows, seed=1, batch=batch) for batch in (1, 100))
    assert one.row_bits_per_byte == pytest.approx(many.row_bits_per_byte, rel=1e-5)
    assert one.class_rates == many.class_rates
    assert one.tokens_per_byte == many.tokens_per_byte


def test_the_draw_depends_on_the_seed_and_the_same_seed_gives_the_same_digits():
    model, rows = tiny_model(), ragged_rows()
    assert evaluate(model, rows, seed=1, batch=4) == evaluate(model, rows, seed=1, batch=4)
    assert evaluate(model, rows, seed=1, batch=4).bits_per_byte != evaluate(model, rows, seed=2, batch=4).bits_per_byte


@pytest.mark.parametrize("training", [True, False])
def test_scoring_happens_in_evaluation_mode_and_leaves_the_model_in_the_mode_it_was_in(training):
    model, rows = tiny_model(softcap=2.0).train(training), ragged_rows()
    score = evaluate(model, rows, seed=1, batch=4)
    assert model.training == training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert score == evaluate(model.eval(), rows, seed=1, batch=4)


def test_max_rows_scores_the_first_rows_only():
    model, rows = tiny_model(), ragged_rows()
    whole, part = evaluate(model, rows, seed=1, batch=2), evaluate(model, rows, seed=1, batch=2, max_rows=3)
    assert part.row_bits_per_byte == pytest.approx(whole.row_bits_per_byte[:3], rel=1e-5)
    assert evaluate(model, rows, seed=1, batch=2, max_rows=10**6).rows == len(rows)


def test_one_row_has_no_standard_error_and_no_rows_are_an_error():
    model, rows = tiny_model(), ragged_rows()
    assert evaluate(model, rows, seed=1, batch=2, max_rows=1).standard_error is None
    with pytest.raises(RltokError, match="no rows to evaluate. Give text"):
        evaluate(model, rows.subset(slice(0, 0)), seed=1, batch=2)


@pytest.mark.parametrize(("batch", "max_rows"), [(0, None), (-1, None), (2, 0), (2, -3)])
def test_sizes_below_one_are_refused(batch, max_rows):
    name, value = ("batch", batch) if batch < 1 else ("max_rows", max_rows)
    with pytest.raises(RltokError, match=f"^{name} must be at least 1; got {value}"):
        evaluate(tiny_model(), ragged_rows(), seed=1, batch=batch, max_rows=max_rows)


def test_an_error_on_the_way_leaves_the_model_in_the_mode_it_was_in(monkeypatch):
    model = tiny_model().train()

    def broken(*args, **kwargs):
        assert not model.training
        raise RuntimeError("out of memory")

    monkeypatch.setattr(model, "forward", broken)
    for look in (lambda: evaluate(model, ragged_rows(), seed=1, batch=2), lambda: boundary_view(model, "text", 0)):
        with pytest.raises(RuntimeError, match="out of memory"):
            look()
        assert model.training and all(part.training for part in model.modules())


def test_a_rule_without_a_policy_has_no_entropy():
    assert evaluate(tiny_model("even"), ragged_rows(), seed=1, batch=2).policy_entropy is None


def test_boundaries_are_counted_by_the_class_of_the_byte_before_them():
    ids = torch.tensor([[BOS, *b"ab c", EOS], [BOS, *b". ", EOS, PAD, PAD]])  # inputs: BOS a b space c | BOS . space EOS PAD
    marks = torch.tensor([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    scored = ids[:, 1:] != PAD
    drawn = scored.clone()
    drawn[:, 0] = False
    counts = boundary_counts(ids, marks, drawn)
    by_name = dict(zip(CLASSES, counts.tolist(), strict=True))
    assert by_name == {
        "space": [2, 2], "word start": [2, 0], "letter": [1, 1], "punctuation": [1, 1], "digit": [0, 0], "other": [0, 0],
    }  # fmt: skip


def test_classes_that_do_not_occur_have_no_rate():
    rows = cut_documents([Document(b"abc def " * 4, "s", "0")], 16, "windows", name="t")
    score = evaluate(tiny_model(), rows, seed=1, batch=2)
    assert score.class_rates["digit"] is None and score.class_rates["punctuation"] is None
    assert score.whitespace_share == score.class_rates["space"] is not None


def made(*row_bits) -> Evaluation:
    """An evaluation that scored these rows."""
    return Evaluation(
        bits_per_byte=float(np.mean(row_bits)), standard_error=None, early_bits_per_byte=3.0, rate=0.2, tokens_per_byte=0.2,
        policy_entropy=None, whitespace_share=None, class_rates={}, rows=len(row_bits), scored_bytes=10, seed=0,
        row_bits_per_byte=row_bits,
    )  # fmt: skip


def test_a_paired_difference_is_the_mean_gap_with_the_error_of_the_gaps():
    gap = paired_difference(made(5.0, 2.0, 8.0), made(4.0, 2.5, 6.0))  # gaps 1, -0.5, 2
    assert gap.bits == pytest.approx(2.5 / 3)
    assert gap.error_units == pytest.approx(np.std([1, -0.5, 2], ddof=1) / math.sqrt(3))


def test_a_paired_difference_of_one_row_has_no_error_and_of_different_rows_is_refused():
    assert paired_difference(made(5.0), made(4.0)) == Difference(1.0, None, None, 1)
    with pytest.raises(RltokError, match="same rows on both sides; got 2 and 1"):
        paired_difference(made(5.0, 1.0), made(4.0))


def test_what_is_stored_is_all_but_the_single_rows_and_documents():
    stored = made(5.0, 3.0).to_dict()
    assert stored == {key: getattr(made(5.0, 3.0), key) for key in stored}
    assert set(made(1.0).__dict__) - set(stored) == {"row_bits_per_byte", "document_bits", "document_bytes"}


# Documents


def many_documents(seed=0):
    """Rows of 12 documents of 17 to 150 bytes."""
    generator = np.random.default_rng(seed)
    texts = [bytes(generator.integers(97, 123, size).astype(np.uint8)) for size in generator.integers(17, 150, 12)]
    return cut_documents([Document(text, "s", str(i)) for i, text in enumerate(texts)], 24, "windows", name="t")


def test_the_error_over_documents_is_that_of_a_ratio_of_sums_near_the_jackknife():
    model, rows = tiny_model().eval(), many_documents()
    score = evaluate(model, rows, seed=5, batch=7)
    bits, sizes = np.zeros(12), np.zeros(12)
    for number, row in enumerate(by_hand(model, rows, 5)[0]):
        bits[rows.document[number]] += row.sum()
        sizes[rows.document[number]] += len(row)
    assert score.document_bytes == tuple(sizes) and score.document_bits == pytest.approx(bits, rel=1e-5)
    ratio = bits.sum() / sizes.sum()
    assert score.bits_per_byte == pytest.approx(ratio, rel=1e-5)
    error = math.sqrt(12 / 11 * sum((b - ratio * size) ** 2 for b, size in zip(bits, sizes, strict=True))) / sizes.sum()
    assert (score.documents, score.standard_error_documents) == (12, pytest.approx(error, rel=1e-3))
    without = np.array([(bits.sum() - b) / (sizes.sum() - size) for b, size in zip(bits, sizes, strict=True)])
    jackknife = math.sqrt(11 / 12 * ((without - without.mean()) ** 2).sum())
    assert score.standard_error_documents == pytest.approx(jackknife, rel=0.15)


def test_documents_are_those_of_the_rows_scored_and_one_has_no_error():
    model, rows = tiny_model(), ragged_rows()
    part = evaluate(model, rows, seed=1, batch=2, max_rows=1)
    assert (part.documents, part.standard_error_documents, part.document_bytes) == (1, None, (24,))
    assert part.document_bits[0] == pytest.approx(24 * part.bits_per_byte)
    later = evaluate(model, rows.subset(slice(3, None)), seed=1, batch=2)  # numbers of documents need not begin at 0
    assert later.documents == len(set(rows.document[3:]))
    assert sum(later.document_bytes) == later.scored_bytes


def of_documents(bits, sizes=(10, 20, 40)) -> Evaluation:
    """An evaluation of these documents."""
    return replace(made(1.0), document_bits=tuple(bits), document_bytes=tuple(sizes), documents=len(sizes))


def test_a_paired_difference_over_documents_clusters_their_gaps():
    gap = paired_difference(of_documents([30.0, 50.0, 90.0]), of_documents([25.0, 51.0, 80.0]), "documents")
    gaps, sizes = np.array([5.0, -1.0, 10.0]), np.array([10, 20, 40])
    assert gap.bits == pytest.approx(14 / 70)
    assert gap.error_units == pytest.approx(math.sqrt(3 / 2 * ((gaps - 0.2 * sizes) ** 2).sum()) / 70)
    one = paired_difference(of_documents([30.0], [10]), of_documents([25.0], [10]), "documents")
    assert one == Difference(0.5, None, None, 1)


@pytest.mark.parametrize("others", [of_documents([1.0, 2.0, 3.0], (10, 20, 41)), of_documents([1.0], (70,)), made(1.0)])
def test_other_documents_are_refused(others):
    for pair in ((of_documents([1.0, 2.0, 3.0]), others), (others, of_documents([1.0, 2.0, 3.0]))):
        with pytest.raises(RltokError, match="needs the same documents on both sides; got .*3 documents of 70 bytes"):
            paired_difference(*pair, "documents")
    with pytest.raises(RltokError, match="got 0 documents of 0 bytes and 0 documents"):
        paired_difference(made(1.0), made(1.0), "documents")


# Draws


DRAWN = [("learned", "faithful"), *STRAIGHT_THROUGH]


@pytest.mark.parametrize(("rule", "variant"), [*DRAWN, ("even", "faithful")])
def test_a_threshold_keeps_the_boundaries_that_are_more_likely_than_not(rule, variant):
    model, rows = tiny_model(rule, variant=variant).eval(), ragged_rows()
    score = evaluate(model, rows, seed=1, batch=3, draws="threshold")
    again = evaluate(model, rows, seed=2, batch=3, draws="threshold")
    assert (score.draws, score.row_bits_per_byte) == ("threshold", again.row_bits_per_byte)
    ids = rows.ids(range(len(rows)))
    out = model(ids, uniforms=torch.full((len(rows), 24), 0.5))
    if rule != "even":
        chances = out.soft if out.boundary_logits is None else out.boundary_logits.sigmoid()
        assert torch.equal(out.boundaries[out.drawn], (chances > 0.5)[out.drawn])
        assert 0 < score.rate < 1
    assert score.rate == pytest.approx(float(out.boundaries[out.drawn].float().mean()))
    assert score.tokens_per_byte == pytest.approx(float(out.boundaries[out.scored].float().mean()))
    if rule in ("hnet", "even"):
        assert score.row_bits_per_byte == evaluate(model, rows, seed=1, batch=3).row_bits_per_byte


def test_the_mean_of_draws_is_that_of_their_nats_and_counts_each_byte_once():
    model, rows = tiny_model().eval(), many_documents()
    score = evaluate(model, rows, seed=5, batch=7, draws="mean", num_draws=3)
    ids = rows.ids(range(len(rows)))
    with torch.no_grad():
        outs = [model(ids, uniforms=row_uniforms(5, draw, range(len(rows)), 24)) for draw in range(3)]
    scored, drawn = outs[0].scored, outs[0].drawn
    bits = torch.stack([out.nll.double() for out in outs]).mean(dim=0) / math.log(2)
    per_row = (bits.sum(dim=1) / scored.sum(dim=1)).numpy()
    assert score.row_bits_per_byte == pytest.approx(per_row, rel=1e-5)
    assert score.standard_error == pytest.approx(np.std(per_row, ddof=1) / math.sqrt(len(rows)), rel=1e-4)
    assert score.bits_per_byte == pytest.approx(float(bits.sum() / scored.sum()), rel=1e-5)
    assert (score.scored_bytes, sum(score.document_bytes)) == (int(scored.sum()), int(scored.sum()))
    assert (sum(score.class_counts.values()), score.draws) == (int(drawn.sum()), "mean of 3")
    assert score.rate == pytest.approx(np.mean([float(out.boundaries[drawn].float().mean()) for out in outs]))
    assert score.tokens_per_byte == pytest.approx(np.mean([float(out.boundaries[scored].float().mean()) for out in outs]))
    entropies = [torch.distributions.Bernoulli(logits=out.boundary_logits[drawn]).entropy().mean() for out in outs]
    assert score.policy_entropy == pytest.approx(float(torch.stack(entropies).mean()), rel=1e-4)
    sample = evaluate(model, rows, seed=5, batch=7)
    assert (score.early_bits_per_byte, score.class_counts) == (pytest.approx(sample.early_bits_per_byte), sample.class_counts)
    first = (outs[0].nll.double().sum(dim=1) / scored.sum(dim=1) / math.log(2)).tolist()
    assert sample.row_bits_per_byte == pytest.approx(first, rel=1e-5)


def test_class_counts_pool_the_rates():
    score = evaluate(tiny_model(), ragged_rows(), seed=5, batch=2)
    rates = [score.class_rates[name] or 0.0 for name in CLASSES]
    counts = [score.class_counts[name] for name in CLASSES]
    assert score.rate == pytest.approx(np.dot(rates, counts) / sum(counts))
    assert score.class_counts["digit"] > 0


@pytest.mark.parametrize(
    ("rule", "draws", "count", "message"),
    [
        ("learned", "best", 1, "draws must be one of sample, threshold, mean; got 'best'"),
        ("learned", "mean", 1, "draws='mean' needs num_draws of at least 2; got 1"),
        ("learned", "sample", 2, "draws='sample' is one draw; got num_draws=2"),
        ("even", "threshold", 0, "draws='threshold' is one draw; got num_draws=0"),
        ("random_k", "threshold", 1, "RandomKRule draws without a probability of each"),
    ],
)
def test_draws_that_do_not_go_together_are_refused(rule, draws, count, message):
    with pytest.raises(RltokError, match=message):
        evaluate(tiny_model(rule), ragged_rows(), seed=1, batch=2, draws=draws, num_draws=count)
