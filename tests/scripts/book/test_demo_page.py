"""The model in the book's first page: its weights are the shipped model's, and its expectations what Python computes."""

import base64
import hashlib
import json
from dataclasses import replace

import make_demo_expected
import make_demo_weights
import numpy as np
import numpy_unet
import pytest
import torch

import rltok
from rltok.config import Config
from rltok.errors import RltokError
from rltok.presets import preset
from rltok.unet import AutoregressiveUNet
from rltok.vocab import BOS

STATIC = make_demo_weights.ASSET.parent
MOST_BYTES = 1_500_000  # of model and weights together, as a phone loads them
EXPECTED = json.loads(make_demo_expected.EXPECTED.read_text(encoding="utf-8"))
ASSET = make_demo_weights.read()


def unpacked(asset):
    """Weights by name as float32 arrays, with nothing but numpy."""
    data = base64.b64decode(asset["data"])
    assert hashlib.sha256(data).hexdigest() == asset["sha256"]
    if asset["dtype"] == "bfloat16":  # the upper half of a float32
        flat = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        flat = np.frombuffer(data, "<f4")
    ends = np.cumsum([np.prod(shape) for _, shape in asset["tensors"]])
    assert ends[-1] == len(flat)
    parts = np.split(flat, ends[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(asset["tensors"], parts, strict=True)}


def test_the_weights_in_the_page_are_those_of_the_model_that_it_names():
    model, stored = rltok.load(ASSET["model"]), unpacked(ASSET)
    wanted = {name: value for name, value in model.named_parameters() if not name.startswith("early")}
    assert stored.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(stored[name], value.detach().numpy(), err_msg=f"{name}: run {make_demo_weights.__doc__}")
    assert make_demo_weights.ASSET.read_text(encoding="utf-8") == make_demo_weights.render(ASSET["model"])


def test_scripts_and_weights_are_small():
    sizes = [path.stat().st_size for path in STATIC.glob("demo_*.js")]
    assert len(sizes) == 3 and sum(sizes) < MOST_BYTES


def test_what_the_page_is_held_to_is_what_rltok_computes():
    assert EXPECTED["sha256"] == ASSET["sha256"], "run scripts/book/make_demo_expected.py"
    assert {case["name"]: case["text"] for case in EXPECTED["texts"]} == make_demo_expected.TEXTS
    model, row_bytes = rltok.load(EXPECTED["model"]), ASSET["settings"]["row_bytes"]
    for case in EXPECTED["texts"]:
        data = case["text"].encode()
        for wanted, uniforms in ((case, case["uniforms"]), (case["above"], [EXPECTED["threshold"]] * len(data))):
            found = make_demo_expected.computed(model, data, uniforms, row_bytes)
            assert "".join(map(str, found["boundaries"])) == wanted["boundaries"], case["name"]
            for what in ("probabilities", "bits"):
                np.testing.assert_allclose(found[what], wanted[what], atol=1e-4, rtol=0, err_msg=case["name"])


def test_numpy_computes_the_same_of_the_weights_in_the_page():
    model, stored = rltok.load(ASSET["model"]), unpacked(ASSET)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(torch.tensor(stored[name])) if name in stored else value.zero_()
    case = next(case for case in EXPECTED["texts"] if case["name"] == "right to left")
    data = case["text"].encode()
    found = numpy_unet.forward(model, np.array([BOS, *data, 0]), [0, *case["uniforms"]])
    assert "".join(str(int(each)) for each in found["boundaries"][1:]) == case["boundaries"]
    np.testing.assert_allclose(1 / (1 + np.exp(-found["boundary_logits"][1:])), case["probabilities"], atol=1e-5)
    bits = -found["log_probs"][np.arange(len(data)), list(data)] / np.log(2)
    np.testing.assert_allclose(bits, case["bits"], atol=1e-5)


def test_the_fixed_texts_hold_what_pages_get_wrong():
    texts = make_demo_expected.TEXTS
    assert [len(texts[name].encode()) for name in ("empty", "one byte", "5,000 bytes")] == [0, 1, 5000]
    assert "\r\n" in texts["line ends"] and "\u200d" in texts["emoji"] and "ספר" in texts["right to left"]


@pytest.mark.parametrize(("dtype", "exact"), [("bfloat16", True), ("float32", False)])
def test_weights_are_stored_in_half_the_size_where_that_loses_nothing(dtype, exact):
    model = AutoregressiveUNet(preset("tiny").model)
    weights = make_demo_weights.tensors(model.bfloat16() if exact else model)
    stored, data = make_demo_weights.packed(weights)
    asset = {
        "data": base64.b64encode(data).decode(), "sha256": hashlib.sha256(data).hexdigest(), "dtype": stored,
        "tensors": [[name, list(value.shape)] for name, value in weights.items()],
    }  # fmt: skip
    assert stored == dtype
    for name, value in unpacked(asset).items():
        np.testing.assert_array_equal(value, weights[name].numpy())


@pytest.mark.parametrize(
    "config",
    [preset("small"), preset("tiny_hnet"), *(replace(preset("tiny"), model=replace(preset("tiny").model, **change))
     for change in ({"head_norm": "none"}, {"token_positions": "index"}, {"upsample": "deviation"}))],
    ids=["softcap", "hnet", "no norm", "positions", "upsample"],
)  # fmt: skip
def test_a_model_that_the_page_cannot_compute_is_refused(config: Config):
    make_demo_weights.settings(preset("tiny"))
    with pytest.raises(RltokError, match="the page computes models with") as error:
        make_demo_weights.settings(config)
    assert "\n" not in str(error.value)


def test_a_text_whose_decision_hangs_on_rounding_is_noticed():
    found = {"probabilities": [0.5, 0.25]}
    assert make_demo_expected.is_clear(found, [0.1, 0.9])
    assert not make_demo_expected.is_clear(found, [0.1, 0.25 + make_demo_expected.MARGIN / 2])
