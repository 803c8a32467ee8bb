"""Names of estimators: what each means, what it pays, and what is said to a name that means nothing."""

import numpy as np
import pytest
import torch
from brute import NAMES, advantages_by_hand, close, gamma_of

from rltok.config import ObjectiveConfig
from rltok.errors import RltokError
from rltok.estimator import advantages
from rltok.variance.ladder import CUMULATIVE, REFERENCE, estimator, gamma_sweep, ladder

FULL = "causal+early+gamma0.9+batch"


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_ladder_means_the_settings_that_it_spells(name):
    parts = name.split("+")
    centring = {"batch": "batch", "loo": "leave_one_out"}
    assert estimator(name) == ObjectiveConfig(
        gamma=gamma_of(name),
        relative_rewards="early" in parts,
        credit="causal" if "causal" in parts else "total",
        centring=next((centring[part] for part in parts if part in centring), "none"),
    )


def test_the_rungs_start_at_naive_end_with_everything_and_stand_there_once():
    assert ladder()[0] == CUMULATIVE[0] == "naive"
    assert {FULL, REFERENCE, "early", "loo"} <= set(ladder())
    assert len(ladder()) == len(set(ladder())) and len({estimator(name) for name in ladder()}) == len(ladder())


def test_each_cumulative_rung_adds_something_to_one_before_it():
    for number, name in enumerate(CUMULATIVE[1:], 1):
        parts, before = set(name.split("+")), [set(other.split("+")) - {"naive"} for other in CUMULATIVE[:number]]
        assert any(len(parts ^ other) in (1, 2) and len(parts) >= len(other) for other in before), name


def test_the_sweep_is_the_full_estimator_at_every_discount_from_0_to_1():
    swept = [estimator(name) for name in gamma_sweep()]
    assert [objective.gamma for objective in swept] == [0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0]
    assert {(o.credit, o.relative_rewards, o.centring) for o in swept} == {("causal", True, "leave_one_out")}
    assert gamma_sweep()[-1] == REFERENCE


def test_the_order_of_the_parts_does_not_matter_and_any_discount_will_do():
    assert estimator("batch+gamma0.9+early+causal") == estimator(FULL)
    assert estimator("causal+gamma0.123").gamma == 0.123 and estimator("causal+gamma1") == estimator("causal")


def test_the_papers_estimator_is_what_training_takes_by_default():
    assert estimator("causal+early+gamma0.99+batch") == ObjectiveConfig()


@pytest.mark.parametrize("name", NAMES)
def test_the_advantages_equal_those_worked_out_position_by_position(name):
    generator, lengths = np.random.default_rng(0), (6, 6, 4, 1)
    scored = np.arange(6) < np.array(lengths)[:, None]
    nll, early = (np.where(scored, generator.normal(2, 1, (4, 6)), 0.0) for _ in range(2))
    leaf = torch.from_numpy(nll).requires_grad_()
    paid = advantages(leaf, torch.from_numpy(early), torch.from_numpy(scored), **estimator(name).reductions)
    assert not paid.requires_grad
    wanted = advantages_by_hand(nll, early, lengths, name)
    close(np.where(scored, paid.numpy(), 0), wanted, atol=1e-12)
    assert np.abs(wanted).max() > 0.1


UNKNOWN = {
    "naiv": "there is no estimator 'naiv': 'naiv' is no part of one.*Did you mean 'naive'",
    "causal+erly": "'erly' is no part of one.*Did you mean 'causal",
    "naive+causal": "'naive' is no part of one. A name is naive, or parts joined by",
    "causal+": "'' is no part of one",
    "": "there is no estimator ''",
    "gamma": "'gamma' is no part",
    "causal+gamma-1": "'gamma-1' is no part",
    "causal+gamma0.9.1": "'gamma0.9.1' is no part",
    "Causal": "'Causal' is no part",
    "causal early": "'causal early' is no part",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_name_that_means_nothing_is_told_all_that_do(name):
    with pytest.raises(RltokError, match=UNKNOWN[name]) as refused:
        estimator(name)
    text = str(refused.value)
    assert all(known in text for known in (*ladder(), "causal, early, batch, loo, gamma0.9 (any discount)"))


CONTRADICTIONS = {
    "batch+loo": "estimator 'batch.loo' sets centring twice. Leave one of the parts out",
    "causal+causal": "sets credit twice",
    "causal+gamma0.9+gamma0.99": "sets gamma twice",
    "gamma0.9": "estimator 'gamma0.9' discounts, but pays .* the whole row's reward.*Write causal.gamma0.9, or leave gamma out",
    "early+gamma0+loo": "estimator 'early.gamma0.loo' discounts.*Write causal.early.gamma0.loo",
    "causal+gamma2": "estimator 'causal.gamma2':.*gamma.*between 0 and 1.*2",
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_parts_that_contradict_each_other_are_refused(name):
    with pytest.raises(RltokError, match=CONTRADICTIONS[name]):
        estimator(name)
