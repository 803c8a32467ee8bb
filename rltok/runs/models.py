"""New models: sized by the settings, refused if they cannot fit into memory, with weights that depend on the seed."""

import torch

from rltok.config import Config
from rltok.device import memory_bytes
from rltok.errors import RltokError
from rltok.fast.unet import FastUNet
from rltok.flops import parameter_counts
from rltok.rules import Rule
from rltok.unet import AutoregressiveUNet

TRAINING_BYTES = 16  # a parameter in fp32 takes so many: itself, its gradient, and AdamW's two moments


def new_model(config: Config, device: torch.device, rule: Rule | None = None) -> AutoregressiveUNet:
    """A freshly initialised model; the weights depend on the seed alone, and the global random state is left as it was.

    Args:
        rule: takes the place of the one that the configuration names.

    Raises:
        RltokError: the model does not fit into memory.
    """
    # Counted first: a system that promises more memory than it has ends the process without a word.
    if 0 < memory_bytes(device) < TRAINING_BYTES * sum(parameter_counts(config.model).values()):
        raise _too_large(config)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(config.train.seed)
        try:
            model = FastUNet(config.model, rule).to(device)
        except (RuntimeError, MemoryError) as error:  # from torch's allocator, which has no exception of its own on the CPU
            raise _too_large(config) from error
    model.row_bytes = config.data.sequence_length
    return model


def _too_large(config: Config) -> RltokError:
    model, rule, beside, remedy = config.model, config.model.rule, "", ""
    if rule.name == "entropy":
        beside = f", and a byte model with entropy_dim={rule.entropy_dim} and {rule.entropy_layers} layers,"
        remedy = ", or a smaller model.rule.entropy_dim"
    return RltokError(
        f"a model with embedding_dim={model.embedding_dim}, {model.down_layers} + {model.mid_layers} + {model.up_layers} layers"
        f" and MLP ratios of {model.byte_mlp_ratio} and {model.token_mlp_ratio}{beside} does not fit into memory. Choose a"
        f" smaller model.embedding_dim, fewer layers or smaller ratios{remedy}."
    )
