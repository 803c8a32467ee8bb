"""Small models and ragged rows that many tests share."""

from dataclasses import fields

import numpy as np
import torch

from rltok.config import ModelConfig, RuleConfig
from rltok.unet import AutoregressiveUNet
from rltok.vocab import BOS, PAD

STRAIGHT_THROUGH = [("dynamic_pooling", "faithful"), ("dynamic_pooling", "authors"), ("hnet", "faithful"), ("hnet", "port")]
RULES = ("learned", "even", "random_k", "dynamic_pooling", "hnet")


RULE_FIELDS = {field.name for field in fields(RuleConfig)}


def tiny_config(rule="learned", **settings) -> ModelConfig:
    """Two heads of width 8, a window of 5; scale 1 makes the policy's logits differ enough between positions to matter.

    Settings are those of `RuleConfig` or of `ModelConfig`, by their names.
    """
    sizes = {"embedding_dim": 16, "num_heads": 2, "down_layers": 1, "mid_layers": 2, "up_layers": 1, "window": 5}
    of_rule = {"lags": 3, "target_rate": 0.3, "scale": 1.0} | {k: v for k, v in settings.items() if k in RULE_FIELDS}
    model = {k: v for k, v in settings.items() if k not in RULE_FIELDS}
    return ModelConfig(**{**sizes, **model}, rule=RuleConfig(name=rule, **of_rule))


def tiny_model(rule="learned", *, seed=0, dtype=torch.float32, network=AutoregressiveUNet, **settings) -> AutoregressiveUNet:
    """A model in training mode whose norm weights and early head have left their initial values, as after some training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network(tiny_config(rule, **settings))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter.normal_(std=0.3)
            model.early_head.weight.add_(torch.randn_like(model.early_head.weight), alpha=0.1)
            if rule == "dynamic_pooling":  # else all its gates would depend on the noise alone
                model.rule.gate.weight.mul_(10)
            if rule == "hnet" and model.rule.faithful:  # at 0, bytes without a boundary reach nothing
                model.rule.residual.normal_(std=0.3)
    return model.to(dtype)


def ranged_model(rate, **settings) -> AutoregressiveUNet:
    """`tiny_model` with a policy for target rates from 0.1 to 0.6, at one of them; its middle is 0.3."""
    model = tiny_model(lowest_rate=0.1, highest_rate=0.6, **settings)
    model.rule.use_rate(rate)
    return model


def ragged_ids(lengths, width=None, *, seed=0) -> torch.Tensor:
    """int64 [B, width + 1]: BOS, `lengths[b]` random bytes, PAD up to the width (default: the longest row's)."""
    width = max(lengths) if width is None else width
    generator = np.random.default_rng(seed)
    ids = torch.full((len(lengths), width + 1), PAD)
    ids[:, 0] = BOS
    for row, length in enumerate(lengths):
        ids[row, 1 : length + 1] = torch.from_numpy(generator.integers(0, 256, length))
    return ids


def random_uniforms(rows, length, *, seed=0) -> torch.Tensor:
    """fp32 [B, N] in [0, 1)."""
    return torch.from_numpy(np.random.default_rng(seed).random((rows, length), np.float32))


def random_boundaries(rows, length, *, rate=0.4, seed=0) -> torch.Tensor:
    """bool [B, N], True at position 0."""
    boundaries = random_uniforms(rows, length, seed=seed) < rate
    boundaries[:, 0] = True
    return boundaries


def sigmoid(x):
    """The logistic function of a numpy array, in float64."""
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


def random(*shape, seed=0):
    """Normal numbers in float64."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))
