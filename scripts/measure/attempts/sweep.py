"""Launch shapes of the kernels between products, each timed alone at the sizes of a preset, with all attempts on.

`best(config, until, shared, log)` gives (all times, the settings that won). A setting must compute what the present one does.
Winners of attention, whose sizes do not depend on the preset but for the number of heads, are kept in `shared` (a JSON file),
and are not looked for twice.
"""

import json
import time
import traceback

import torch


def relative(actual, expected):
    pairs = [(a.double(), b.double()) for a, b in zip(actual, expected, strict=True) if b is not None]
    return max(float((a - b).norm() / b.norm().clamp(min=1e-12)) for a, b in pairs)


def with_grads(function, inputs, slopes):
    """Results and gradients, and a call that runs the backward pass again."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    made = [x for x in function(*leaves) if x is not None]

    def back():
        return torch.autograd.grad(made, leaves, slopes, retain_graph=True)

    return [x.detach() for x in made], back


def operations(config):
    """name -> (module, table of settings, "forward" or "backward", function, inputs, slopes, candidates)."""
    from rltok.kernels import geglu, norm, row_causal, window

    g = torch.Generator("cuda").manual_seed(0)

    def randn(*shape, dtype=torch.bfloat16):
        return torch.randn(*shape, generator=g, device="cuda").to(dtype)

    d, heads = config.model.embedding_dim, config.model.num_heads
    rows, length = config.train.micro_batch, config.data.sequence_length
    x, h = randn(rows, length, d), randn(rows, length, d)
    post, pre = (0.1 * randn(d, dtype=torch.float32) for _ in range(2))
    kind = torch.bfloat16
    norms = [x, h, post, pre]
    of_norm = lambda x, h, post, pre: norm.residual_norm(x, h, post, pre, 1e-6, kind)  # noqa: E731
    block = 1 << (d - 1).bit_length()
    forward = [{"numbers": n * block, "num_warps": w} for n, w in ((1, 1), (1, 2), (1, 4), (2, 4), (4, 4), (4, 8), (8, 8))]
    backward = [
        {"numbers": n * block, "num_warps": w, "programs": 132 * p}
        for n, w, p in ((2, 4, 3), (2, 4, 6), (1, 2, 5), (1, 2, 10), (1, 4, 6), (4, 8, 2), (4, 8, 4), (2, 2, 4), (2, 8, 4), (1, 1, 8))
    ]
    chosen = [
        ("norm:FORWARD", "forward", of_norm, norms, [randn(rows, length, d), randn(rows, length, d)], forward),
        ("norm:BACKWARD", "backward", of_norm, norms, [randn(rows, length, d), randn(rows, length, d)], backward),
    ]
    hidden = d * config.model.byte_mlp_ratio
    shapes = [{"most": n, "num_warps": w} for n, w in ((256, 1), (256, 2), (512, 2), (1024, 2), (2048, 4), (4096, 8))]
    chosen.append(("geglu:LAUNCH", "backward", lambda x: (geglu.geglu(x),), [randn(rows, length, 2 * hidden)],
                   [randn(rows, length, hidden)], shapes))  # fmt: skip
    qkv = randn(rows, length, 3, heads, d // heads)
    slope = [randn(rows, length, heads, d // heads)]
    model = config.model
    of_window = lambda q: (window.window_attention(q, window=model.window, softcap=model.attention_softcap, theta=1e4),)  # noqa: E731
    launches = [{"num_warps": w} | ({"maxnreg": m} if m else {}) for w, m in ((4, 0), (4, 168), (4, 128), (4, 112), (8, 0), (8, 128))]
    window_back = [{"PAIRS": p, **each} for p in (False, True) for each in (launches[0], launches[1], launches[4], launches[5])]
    chosen += [
        ("window:PAIRED", "forward", of_window, [qkv], slope, [{"PAIRS": p, **each} for p in (True, False) for each in launches]),
        ("window:BACKWARD", "backward", of_window, [qkv], slope, window_back),
    ]
    boundaries = torch.rand(rows, length, generator=g, device="cuda") < model.rule.target_rate
    boundaries[:, 0] = True
    per_row = boundaries.sum(1)
    offsets = torch.nn.functional.pad(per_row.cumsum(0), (1, 0))
    row = torch.repeat_interleave(torch.arange(rows, device="cuda"), per_row)
    start, end = offsets[row].int(), offsets[row + 1].int()
    angle = torch.rand(len(row), d // heads // 2, generator=g, device="cuda") * 6
    tokens = randn(len(row), 3, heads, d // heads)
    of_tokens = lambda q: (  # noqa: E731
        row_causal.row_causal_attention(q, start, end, (angle.cos(), angle.sin()), softcap=model.attention_softcap),
    )
    tiles = [
        {"QUERIES": q, "KEYS": k, "num_warps": w, "num_stages": s} | ({"maxnreg": m} if m else {})
        for q, k, w, s, m in ((64, 64, 4, 2, 0), (64, 64, 4, 4, 0), (64, 64, 4, 3, 168), (64, 64, 4, 2, 128), (128, 64, 8, 3, 0),
                              (128, 64, 8, 2, 0), (64, 128, 4, 2, 0), (128, 64, 4, 2, 0))
    ]  # fmt: skip
    keys = [
        {"QUERIES": q, "KEYS": k, "num_warps": w, "num_stages": s} | ({"maxnreg": m} if m else {})
        for q, k, w, s, m in ((64, 64, 4, 2, 0), (64, 64, 4, 2, 168), (64, 64, 4, 3, 168), (64, 128, 8, 2, 0), (64, 128, 8, 3, 0),
                              (128, 64, 8, 2, 0), (32, 64, 4, 3, 168))
    ]  # fmt: skip
    of_rows = [randn(len(row), heads, d // heads)]
    chosen += [
        ("row_causal:FORWARD", "forward", of_tokens, [tokens], of_rows, tiles),
        ("row_causal:BACK_QUERIES", "backward", of_tokens, [tokens], of_rows, tiles),
        ("row_causal:BACK_KEYS", "backward", of_tokens, [tokens], of_rows, keys),
    ]
    return chosen


def best(config, until, shared, log):
    import importlib

    from triton.testing import do_bench

    from rltok.kernels import attempts

    known = json.loads(shared.read_text()) if shared.exists() else {}
    times, won = {}, {}
    with attempts.trying(*attempts.NAMES):
        for where, way, function, inputs, slopes, candidates in operations(config):
            module, attribute = where.split(":")
            if module not in ("norm", "geglu") and where in known:
                won[where] = known[where]
                continue
            table = getattr(importlib.import_module(f"rltok.kernels.{module}"), attribute)
            present, tried, expected = dict(table), [], None
            for settings in [present, *candidates]:
                if time.monotonic() > until:
                    break
                table.clear()
                table.update(settings)
                try:
                    made, back = with_grads(function, inputs, slopes)
                    got = made + list(back()) if way == "backward" else made
                    expected = got if expected is None else expected
                    error = relative(got, expected)
                    with torch.no_grad():
                        spent = do_bench(lambda: function(*inputs), warmup=10, rep=60, return_mode="median") if way == "forward" else 0
                    if way == "backward":
                        spent = do_bench(back, warmup=10, rep=60, return_mode="median")
                    tried.append({"settings": settings, "ms": round(spent, 4), "error": error, "ok": error < 1e-2})
                except Exception:
                    tried.append({"settings": settings, "ok": False, "failed": traceback.format_exc()[-300:]})
            table.clear()
            table.update(present)
            good = [each for each in tried if each["ok"]]
            if good:
                first = good[0]["ms"]
                fastest = min(good, key=lambda each: each["ms"])
                if fastest["ms"] < 0.98 * first:  # else the present one stays
                    won[where] = fastest["settings"]
                elif where == "window:PAIRED":
                    won[where] = present
            times[where] = tried
            log.write_text(json.dumps({"times": times, "won": won}, indent=1))
            print(where, [(each["ms"] if "ms" in each else "-") for each in tried], "->", won.get(where), flush=True)
            shared.write_text(json.dumps(known | {k: v for k, v in won.items() if not k.startswith(("norm", "geglu"))}, indent=1))
    return times, won
