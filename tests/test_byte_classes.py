"""rltok.byte_classes: six kinds of bytes that cover all ids."""

import string

import torch

from rltok import vocab
from rltok.byte_classes import CLASSES, byte_classes


def classes_of(text, *, first=vocab.BOS):
    ids = torch.tensor([[first, *text]])
    return [CLASSES[kind] for kind in byte_classes(ids)[0].tolist()]


def test_a_short_text_by_hand():
    classes = classes_of(b"Hi, you\n2x")
    assert classes == [
        "other", "word start", "letter", "punctuation", "space", "word start", "letter", "letter", "space", "digit", "letter",
    ]  # fmt: skip


def test_a_letter_starts_a_word_after_white_space_or_bos_and_nowhere_else():
    for before, kind in (
        (" ", "word start"),
        ("\n", "word start"),
        ("\t", "word start"),
        ("(", "letter"),
        ("a", "letter"),
        ("7", "letter"),
    ):
        assert classes_of(f"{before}z".encode())[2] == kind, before
    assert classes_of(b"z")[1] == "word start"
    assert classes_of(b"z", first=vocab.EOS)[1] == "letter"
    assert classes_of("é z".encode())[1:] == ["other", "other", "space", "word start"]


def test_every_ascii_byte_has_the_class_that_the_string_module_gives_it():
    kinds = {**dict.fromkeys(string.ascii_letters, "letter"), **dict.fromkeys(string.digits, "digit")}
    kinds |= dict.fromkeys(string.punctuation, "punctuation") | dict.fromkeys(string.whitespace, "space")
    for byte in range(256):
        expected = kinds.get(chr(byte), "other") if byte < 128 else "other"
        if byte in (0x1C, 0x1D, 0x1E, 0x1F):  # Unicode counts these separators as white space
            expected = "space"
        assert classes_of(bytes([ord("x"), byte]))[2] == expected, byte


def test_bos_eos_and_pad_are_other_and_rows_do_not_touch():
    ids = torch.tensor([[vocab.BOS, vocab.EOS, vocab.PAD], [vocab.BOS, 32, 65]])
    assert [[CLASSES[k] for k in row] for row in byte_classes(ids).tolist()] == [["other"] * 3, ["other", "space", "word start"]]
    # the first id of a row has nothing before it, whatever the row above ends with
    assert byte_classes(torch.tensor([[65, 32], [65, 65]]))[:, 0].tolist() == [CLASSES.index("letter")] * 2
