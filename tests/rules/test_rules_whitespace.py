"""rltok.rules.whitespace: a boundary after each word, found from two bytes."""

import string

import torch
from helpers import random_uniforms, tiny_config
from hypothesis import given
from hypothesis import strategies as st

from rltok.rules import make_rule
from rltok.rules.whitespace import WhitespaceRule
from rltok.vocab import BOS, EOS, PAD

WORDS = st.lists(st.sampled_from(["a", "Z9", " ", "  ", "\n", ", ", "é", "欢", "🎈", "_", "\x00"]), max_size=8).map("".join)


def marks(data):
    """Boundaries after each byte, as 0 and 1."""
    ids = torch.tensor([[BOS, *data]])
    boundaries = WhitespaceRule().decide(torch.zeros(*ids.shape, 2), ids, random_uniforms(*ids.shape))
    assert boundaries.boundaries[0, 0] and boundaries.logits is None and boundaries.aux_loss is None
    return "".join(str(int(bit)) for bit in boundaries.boundaries[0, 1:])


def marks_by_hand(data):
    words = set((string.ascii_letters + string.digits).encode())
    spacelike = [True] + [byte not in words and not 0x80 <= byte < 0xC0 for byte in data]  # the first is BOS
    return "".join(str(int(now and not before)) for before, now in zip(spacelike, spacelike[1:], strict=False))


def test_the_first_space_or_punctuation_after_a_word_and_the_first_byte_of_a_character_beyond_ascii():
    assert marks(b"the cat,  sat\n\nx") == "0001000100000100"
    assert marks("né 欢迎".encode()) == "0" + "10" + "1" + "000" + "100"  # the space hides what follows it
    assert marks(b"  a") == "000"  # BOS counts as a space


@given(st.one_of(WORDS.map(str.encode), st.binary(max_size=12)))
def test_any_bytes_are_judged_as_written_down(data):
    assert marks(data) == marks_by_hand(data)


def test_neither_the_target_rate_nor_later_bytes_nor_other_rows_matter():
    rule, other = (make_rule(tiny_config("whitespace", target_rate=rate)) for rate in (0.1, 0.9))
    ids = torch.tensor([[BOS, *b"a b, c d"], [BOS, *b"xy", EOS, *b" z", PAD, PAD, PAD]])
    states, uniforms = torch.zeros(*ids.shape, 2), random_uniforms(*ids.shape)
    before = rule.decide(states, ids, uniforms).boundaries
    assert torch.equal(before, other.decide(states, ids, uniforms).boundaries)
    assert before[1, :6].int().tolist() == [1, 0, 0, 1, 0, 0]  # the end mark, as a space
    for j in range(1, 9):
        changed = ids.clone()
        changed[:, j:] = torch.where(ids[:, j:] < 256, ids[:, j:] ^ 0x41, ids[:, j:])
        assert torch.equal(rule.decide(states, changed, uniforms).boundaries[:, :j], before[:, :j])
    assert not list(rule.parameters()) and not rule.state_dict()


def test_a_text_without_any_word_end_has_one_token_and_one_of_spaces_too():
    assert marks(b"a" * 20) == "0" * 20 and marks(b" " * 20) == "0" * 20
