"""Short rows at every boundary string, from numpy and from training's own losses: what exact, score and variance must equal.

Nothing here uses `rltok.variance.exact`, `rltok.variance.gradients` or `rltok.variance.ladder`.
"""

import itertools
import re
from dataclasses import dataclass

import numpy as np
import torch
from helpers import sigmoid
from numpy_unet import PREDICTED, forward

from rltok.step import losses_of
from rltok.vocab import PAD

NAMES = (
    "naive", "causal", "early", "batch", "loo", "causal+early", "causal+gamma0.99", "causal+gamma0.9", "causal+early+gamma0.9",
    "causal+early+gamma0.99", "causal+early+gamma0.99+batch", "causal+early+gamma0.9+batch", "causal+early+gamma0.9+loo",
    "causal+early+loo", "causal+early+gamma0+loo", "causal+early+gamma0.5+loo", "causal+early+gamma0.8+loo",
    "causal+early+gamma0.95+loo", "causal+early+gamma0.98+loo", "causal+early+gamma0.99+loo", "causal+early+gamma0.995+loo",
)  # fmt: skip


def lengths_of(ids):
    """Scored bytes of each row."""
    return (ids[:, 1:] != PAD).sum(1).tolist()


def all_strings(ids):
    """bool [S, B, N]: every combination of the rows' strings, position 0 forced, False on padding."""
    width = ids.shape[1] - 1
    rows = [
        [[True, *tail, *[False] * (width - n)] for tail in itertools.product([False, True], repeat=n - 1)]
        for n in lengths_of(ids)
    ]
    return torch.tensor(list(itertools.product(*rows)))


@dataclass
class NumpyRow:
    """One row at every string of its own, from tests/numpy_unet.py."""

    strings: np.ndarray  # S n
    log_pi: np.ndarray  # S n, 0 at the forced position
    nll: np.ndarray  # S n
    early_nll: np.ndarray  # n

    @property
    def chances(self):
        return np.exp(self.log_pi.sum(1))


def numpy_row(model, row):
    """Enumerate one row of ids [N + 1], padding left out."""
    ids = row[row != PAD].numpy()
    strings = np.array(list(itertools.product([True], *[[False, True]] * (len(ids) - 2))))
    target = [PREDICTED.index(i) for i in ids[1:]]
    places, log_pi, nll = np.arange(len(target)), [], []
    for string in strings:
        out = forward(model, ids, np.where(string, -1.0, 2.0))  # uniforms that leave no choice
        assert (out["boundaries"] == string).all()
        each = np.log(sigmoid(np.where(string, out["boundary_logits"], -out["boundary_logits"])))
        log_pi.append(np.where(places == 0, 0, each))
        nll.append(-out["log_probs"][places, target])
    return NumpyRow(strings, np.array(log_pi), np.array(nll), -out["early_log_probs"][places, target])


def numpy_rows(model, ids):
    return [numpy_row(model, row) for row in ids]


def joint_chances(rows):
    """Chance of each combination, in the order of `all_strings`."""
    return np.array([np.prod(chosen) for chosen in itertools.product(*(row.chances for row in rows))])


def gamma_of(name):
    match = re.search(r"gamma([\d.]+)", name)
    return float(match[1]) if match else 1.0


def returns_by_hand(nll, early_nll, name):
    """Eqs. (15) and (16) of one row [N], position by position."""
    rewards = early_nll - nll if "early" in name else -nll
    size = len(rewards)
    if "causal" not in name:
        return np.full(size, rewards.sum())
    return np.array([sum(gamma_of(name) ** (j - i) * rewards[j] for j in range(i, size)) for i in range(size)])


def advantages_by_hand(nll, early_nll, lengths, name):
    """Eq. (17), one position and row after the other; [B, N]."""
    returns = [returns_by_hand(*pair, name) for pair in zip(nll, early_nll, strict=True)]
    paid = np.zeros_like(nll)
    for b, i in itertools.product(*map(range, nll.shape)):
        if i >= lengths[b]:
            continue
        others = [returns[c][i] for c in range(len(nll)) if lengths[c] > i and c != b]
        if "loo" in name:
            paid[b, i] = returns[b][i] - np.mean(others) if others else 0
        elif "batch" in name:
            paid[b, i] = returns[b][i] - np.mean([*others, returns[b][i]])
        else:
            paid[b, i] = returns[b][i]
    return paid


def reached(model):
    """Parameters that come before the boundaries: the rule's, then the encoder's."""
    return [
        p for start in ("rule.", "embedding.", "down_blocks.") for name, p in model.named_parameters() if name.startswith(start)
    ]


def flat_gradient(loss, parameters):
    grads = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
    return torch.cat([grad.flatten() for grad in grads])


def training_gradients(model, ids, strings, names):
    """{name: [S, P]}: gradient of the policy loss that training minimises, string by string."""
    gradients, lengths = [], lengths_of(ids)
    for string in strings:
        out = model(ids, boundaries=string)
        nll, early = out.nll.detach().numpy(), out.early_nll.detach().numpy()
        paid = [torch.from_numpy(advantages_by_hand(nll, early, lengths, name)).to(out.nll) for name in names]
        losses = torch.stack([losses_of(out, each, 0.3).policy for each in paid])
        grads = torch.autograd.grad(losses, reached(model), torch.eye(len(names)).to(losses), is_grads_batched=True)
        gradients.append(torch.cat([grad.flatten(1) for grad in grads], dim=1))
    return dict(zip(names, torch.stack(gradients, dim=1), strict=True))


def scores(model, row, strings):
    """[S, n, P]: gradient of log pi(a_i) at each string of one row, 0 at the forced position."""
    rows = []
    for string in torch.from_numpy(strings):
        logits = model(row[row != PAD][None], boundaries=string[None]).boundary_logits[0]
        each = torch.where(string, logits, -logits).sigmoid().log()
        grads = [flat_gradient(value, reached(model)) for value in each]
        rows.append(torch.stack([torch.zeros_like(grads[0]), *grads[1:]]))
    return torch.stack(rows).numpy()


def close(actual, expected, *, atol, what=""):
    """Equal to within `atol`, and not because both are nothing."""
    actual, expected = (np.asarray(x.detach() if isinstance(x, torch.Tensor) else x) for x in (actual, expected))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol, err_msg=str(what))
