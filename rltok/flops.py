"""Parameter and FLOP counts by the paper's rule (section 4.2): 6 per matrix parameter, embeddings free, tokens as processed."""

from rltok.config import Config, ModelConfig
from rltok.registry import RULES
from rltok.vocab import PREDICTED


def parameter_counts(model: ModelConfig) -> dict[str, int]:
    """Matrix parameters by part; heads and embedding with the 257 ids that are predicted (bytes and EOS).

    The tables themselves are padded to 264 rows for the hardware: 7 rows more in each of the embedding and the two heads.
    Norm weights (vectors) are left out.
    """
    d = model.embedding_dim

    def block(mlp_ratio: int) -> int:
        return 4 * d * d + 3 * mlp_ratio * d * d  # q, k, v, out; gate, up, down

    return {
        "byte_layers": (model.down_layers + model.up_layers) * block(model.byte_mlp_ratio),
        "token_layers": model.mid_layers * block(model.token_mlp_ratio),
        "embedding": len(PREDICTED) * d,
        "output_head": len(PREDICTED) * d,
        "early_head": len(PREDICTED) * d,
        "policy": RULES[model.rule.name].matrices(model),
    }


def frozen_parameters(model: ModelConfig) -> int:
    """Matrix parameters that a rule was fitted with before the first update; they only run forward."""
    return RULES[model.rule.name].fitted_matrices(model)


def flops_per_byte(model: ModelConfig, tokens_per_byte: float) -> float:
    """Training FLOPs per byte, attention left out: 6 (byte-level + tokens_per_byte * token-level), 2 of what is frozen."""
    counts = parameter_counts(model)
    bytewise = counts["byte_layers"] + counts["output_head"] + counts["early_head"] + counts["policy"]
    return 6 * (bytewise + tokens_per_byte * counts["token_layers"]) + 2 * frozen_parameters(model)


def extra_draw_flops_per_byte(model: ModelConfig, tokens_per_byte: float, trains: bool) -> float:
    """FLOPs per byte of one more draw of the same rows: forward through policy, token level, and what comes after it.

    Where it trains the policy, back through its matrix, too; the encoder's backward pass is that of all draws together.
    """
    counts = parameter_counts(model)
    after = counts["byte_layers"] * model.up_layers / (model.down_layers + model.up_layers) + counts["output_head"]
    return 2 * ((3 if trains else 1) * counts["policy"] + tokens_per_byte * counts["token_layers"] + after)


def fit_flops(model: ModelConfig) -> float:
    """FLOPs of fitting a rule's matrices before the first update; 0 for rules that have none to fit."""
    return 6 * frozen_parameters(model) * model.rule.fit_bytes


def training_flops(config: Config, scored_bytes: int, tokens: int) -> tuple[float, float]:
    """FLOPs of training so far, from counted bytes and tokens: by the paper's rule, and what attention adds to it.

        6 (bytes * byte-level + tokens * token-level parameters) + fitting;    attention at the mean tokens per byte

    Draws of a row beyond the first count as having as many tokens. Tokens are those that were processed, so that a rate which
    anneals is charged as it was; attention, which grows with its square, at its mean. Both are 0 before the first byte, but for
    the fitting.
    """
    model, length, more = config.model, config.data.sequence_length, config.objective.draws - 1
    trains = config.objective.further_draws != "baseline"
    if scored_bytes == 0:
        return fit_flops(model), 0.0
    rate = tokens / scored_bytes
    matrices = flops_per_byte(model, rate) + more * extra_draw_flops_per_byte(model, rate, trains)
    again = 4 * model.embedding_dim * _attention_pairs(model, model.up_layers, rate, length)
    attention = attention_flops_per_byte(model, rate, length) + more * again
    return scored_bytes * matrices + fit_flops(model), scored_bytes * attention


def attention_flops_per_byte(model: ModelConfig, tokens_per_byte: float, sequence_length: int) -> float:
    """FLOPs of attention, which the paper's rule leaves out: scores and mixing, 12 d per pair of positions, both passes."""
    layers = model.down_layers + model.up_layers
    return 12 * model.embedding_dim * _attention_pairs(model, layers, tokens_per_byte, sequence_length)


def _attention_pairs(model: ModelConfig, byte_layers: int, tokens_per_byte: float, sequence_length: int) -> float:
    """Pairs of positions per byte, in so many byte layers and all token layers."""
    byte_pairs = byte_layers * min(model.window, sequence_length)
    return byte_pairs + model.mid_layers * tokens_per_byte * (tokens_per_byte * sequence_length / 2)
