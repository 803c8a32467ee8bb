"""The forward pass of one row in numpy and float64, position by position, written from the paper's equations."""

import math

import numpy as np
from helpers import sigmoid

PREDICTED = [*range(256), 257]


def weights(model):
    """Parameters by name as float64 arrays."""
    return {name: value.detach().double().numpy() for name, value in model.named_parameters()}


def rms_norm(x, weight, eps):
    """x / sqrt(mean(x^2) + eps) * (1 + weight)."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * (1 + weight)


def rotate(x, positions, theta):
    """Turn the pair (x_k, x_{k + D/2}) of each head by position * theta^(-2k/D), as complex numbers; x [S, H, D]."""
    half = x.shape[-1] // 2
    angles = np.outer(positions, theta ** (-2 * np.arange(half) / x.shape[-1]))
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)[:, None]
    return np.concatenate([turned.real, turned.imag], -1)


def attention(q, k, v, window, softcap):
    """Position i sees the last `window` positions, itself included; [S, H, D]."""
    mixed = np.zeros_like(v)
    for i in range(len(q)):
        for head in range(q.shape[1]):
            seen = slice(max(0, i - window + 1), i + 1)
            scores = k[seen, head] @ q[i, head] / math.sqrt(q.shape[-1])
            scores = scores if softcap is None else softcap * np.tanh(scores / softcap)
            chances = np.exp(scores - scores.max())
            mixed[i, head] = chances @ v[seen, head] / chances.sum()
    return mixed


def gelu(x):
    """The tanh form."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def block(w, prefix, x, positions, window, config):
    """Attention and feed-forward layer, each with a norm before and after."""

    def normed(name, value):
        return rms_norm(value, w[f"{prefix}.{name}.weight"], config.norm_eps)

    length, d = x.shape
    qkv = (normed("pre_attention", x) @ w[f"{prefix}.qkv.weight"].T).reshape(length, 3, config.num_heads, -1)
    q, k = (rotate(qkv[:, part], positions, config.rope_theta) for part in (0, 1))
    mixed = attention(q, k, qkv[:, 2], window, config.attention_softcap).reshape(length, d)
    x = x + normed("post_attention", mixed @ w[f"{prefix}.out.weight"].T)
    gate, up = np.split(normed("pre_mlp", x) @ w[f"{prefix}.mlp.gate_up.weight"].T, 2, axis=-1)
    return x + normed("post_mlp", (gelu(gate) * up) @ w[f"{prefix}.mlp.down.weight"].T)


def stack(w, name, count, x, positions, window, config):
    """`count` blocks in a row."""
    for number in range(count):
        x = block(w, f"{name}.{number}", x, positions, window, config)
    return x


def head_log_probs(w, norm, head, states, config):
    """Log-probabilities of the 257 ids that can be predicted, in the order of PREDICTED."""
    normed = rms_norm(states, w[f"{norm}.weight"], config.norm_eps) if config.head_norm in ("rms", "heads") else states
    logits = (normed @ w[f"{head}.weight"].T)[:, PREDICTED]
    return logits - np.logaddexp.reduce(logits, -1, keepdims=True)


def logit_of(rate):
    """Its log-odds."""
    return math.log(rate / (1 - rate))


def draw(w, states, uniforms, config, training, rate):
    """Eqs. (19) to (23) from left to right, for a wanted rate; boundaries and logits."""
    rule, decisions, logits = config.rule, [], []
    normed = rms_norm(states, w["rule.norm.weight"], config.norm_eps) if config.head_norm in ("rms", "policy") else states
    for i, x in enumerate(normed):
        raw = w["rule.project.weight"][0] @ x
        raw += (logit_of(rate) - logit_of(rule.target_rate)) * (w["rule.of_rate"] @ x) if "rule.of_rate" in w else 0
        for lag in range(1, rule.lags + 1):
            raw += w["rule.project.weight"][lag] @ x if i >= lag and decisions[i - lag] else 0
        logit = raw / rule.scale + logit_of(rate)
        logit = rule.softcap * math.tanh(logit / rule.softcap) if training and rule.softcap else logit
        logits.append(logit)
        decisions.append(i == 0 or uniforms[i] < sigmoid(logit))
    return np.array(decisions), np.array(logits)


def rounded(position):
    """A whole number to the nearest one with 8 binary digits before its zeros, of two the even one: what bf16 holds of it."""
    step = 1 << max(0, int(position).bit_length() - 8)
    return round(int(position) / step) * step  # Python rounds halves to even


def forward(model, ids, uniforms):
    """byte_states, boundaries, boundary_logits, log_probs and early_log_probs of one row without PAD; ids [N + 1]."""
    w, config = weights(model), model.config
    inputs = ids[:-1]
    near = rounded if config.rotary_positions == "bf16" else int
    places = np.array([near(place) for place in range(len(inputs))])
    x = stack(w, "down_blocks", config.down_layers, w["embedding.weight"][inputs], places, config.window, config)
    boundaries, logits = draw(w, x, uniforms, config, model.training, model.rule.rate)
    starts = np.flatnonzero(boundaries)
    tokens = x[starts]
    positions = places[starts] if config.token_positions == "byte" else places[: len(starts)]
    mixed = stack(w, "mid_blocks", config.mid_layers, tokens, positions, len(starts), config)
    added = mixed - tokens if config.upsample == "deviation" else mixed
    y = np.stack([x[j] + added[boundaries[: j + 1].sum() - 1] for j in range(len(x))])
    decoded = stack(w, "up_blocks", config.up_layers, y, places, config.window, config)
    return {
        "byte_states": x,
        "boundaries": boundaries,
        "boundary_logits": logits,
        "log_probs": head_log_probs(w, "output_norm", "output_head", decoded, config),
        "early_log_probs": head_log_probs(w, "early_norm", "early_head", x, config),
    }
