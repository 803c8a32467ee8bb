"""rltok.ranks: an update that several processes compute together is the update of one, up to rounding."""

import numpy as np
import pytest
import several

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


@pytest.fixture(scope="module")
def one_process():
    return several.alone(dict.fromkeys(several.CASES, 1))


def together(job, count, cases, folder):
    """What each of several processes computed, by case and process."""
    check = {"check": "write_updates", "cases": cases, "folder": str(folder)}
    codes, outputs = job(*({"arguments": check | {"number": number}} for number in range(count)))
    assert codes == [0] * count, outputs
    return {case: [dict(np.load(folder / f"{case} {number}.npz")) for number in range(count)] for case in cases}


@pytest.mark.parametrize("count", [2, 3])
def test_loss_gradients_and_weights_of_an_update_are_those_of_one_process(count, job, one_process, tmp_path):
    for case, all_made in together(job, count, dict.fromkeys(several.CASES, 1), tmp_path).items():
        for made in all_made:
            assert made.keys() == one_process[case].keys()
            for name, expected in one_process[case].items():
                np.testing.assert_allclose(made[name], expected, rtol=1e-6, atol=1e-6, err_msg=f"{case}: {name}")
