"""rltok.speed.fitting: how many rows of a forward pass should fit a card."""

import pytest

from rltok.evidence.chapters.ch06_plan import changes
from rltok.flops import parameter_counts
from rltok.presets import preset
from rltok.speed.fitting import that_fits
from rltok.speed.speeds import measured_speeds


@pytest.mark.parametrize(
    ("bf16", "precision", "backend", "wider"),
    [(True, "auto", "triton", 1), (False, "auto", "plain", 1), (True, "fp32", "plain", 2), (False, "fp32", "plain", 2)],
)
def test_the_rows_that_fit_are_the_largest_divisor_whose_activations_have_room(bf16, precision, backend, wider):
    config = preset("147m", {"train.precision": precision})
    weights = sum(parameter_counts(config.model).values())
    state = 4 * 4 * weights  # weight, gradient and two moments, fp32
    base = {"preset": "147m", "backend": backend, "micro_batch": 10, "peak_memory_bytes": state + 10e9}  # 1 GB a row
    for rows in (32, 16, 8, 4):
        enough = (state + rows * wider * 1e9) / 0.92
        assert that_fits(config, enough * 1.001, bf16, [base]).train.micro_batch == rows
        less = that_fits(config, enough * 0.999, bf16, [base])
        assert (None if less is None else less.train.micro_batch) == (rows // 2 if rows > 4 else None)
        assert less is None or changes(less, config).keys() == {"train.micro_batch"}


def test_a_preset_that_was_never_measured_fits_nowhere_for_sure():
    assert that_fits(preset("90m"), 1e15, True, measured_speeds()) is None
