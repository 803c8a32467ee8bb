"""rltok.ranks: an update that several processes compute together is the update of one, up to rounding."""

import numpy as np
import pytest
import several

EACH = dict.fromkeys(several.CASES, 1)  # updates


def computed(job, count, cases, folder):
    """What each of several processes computed, by case and process."""
    check = {"check": "write_updates", "cases": cases, "folder": str(folder)}
    codes, outputs = job(*({"arguments": check | {"number": number}} for number in range(count)))
    assert codes == [0] * count, outputs
    return {case: [dict(np.load(folder / f"{case} {number}.npz")) for number in range(count)] for case in cases}


@pytest.fixture
def one(job, tmp_path):
    return lambda cases: {case: made for case, (made,) in computed(job, 1, cases, tmp_path).items()}


def test_loss_and_gradients_of_an_update_are_those_of_one_process(job, one, tmp_path):
    """Metrics hold the losses, rates and norms of the update; gradients are those of eq. (27)."""
    expected = one(EACH)
    for count in (2, 3):
        for case, all_made in computed(job, count, EACH, tmp_path).items():
            for made in all_made:
                assert made.keys() == expected[case].keys()
                for name in (name for name in made if name.startswith(("gradient", "metrics"))):
                    np.testing.assert_allclose(made[name], expected[case][name], 0, 1e-6, err_msg=f"{count}, {case}: {name}")


def test_after_fifty_updates_both_processes_have_the_same_weights_and_up_to_rounding_those_of_one(job, one, tmp_path):
    case = "policy, 6 rows"
    expected = one({case: 50})[case]
    made, other = computed(job, 2, {case: 50}, tmp_path)[case]
    for name, values in made.items():
        assert np.array_equal(other[name], values)
        np.testing.assert_allclose(values, expected[name], 0, 1e-5, err_msg=name)
