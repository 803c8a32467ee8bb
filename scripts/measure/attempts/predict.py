"""Bytes that the elementwise kernels of an update move, the least they could, and what that is worth at 4.3 TB/s.

    python predict.py

U: positions (or tokens) times width. Bytes are per number of a row of that width; both are for bf16 products and an fp32 stream.
"""

COPY = 4.3e12  # bytes a second, read and written, of a device-to-device copy on an H200
PRESETS = {
    # positions and micro-batches of an update, width, byte layers, token layers, tokens per byte, MLP ratios, weights of matrices
    "147m": (32 * 4096, 4, 768, 8, 12, 0.207, 1, 4, 147e6, 509.0),
    "32m": (32 * 4096, 2, 512, 8, 4, 0.25, 1, 4, 31.9e6, 115.0),
}
# kernel -> (bytes now, bytes with everything that is tried, calls a layer, scaled by MLP ratio, attempt)
KERNELS = {
    "residual sum, norm after, norm before: forward": (12, 8, 2, False, "stream"),
    "residual sum, norm after, norm before: backward": (18, 12, 2, False, "stream"),
    "gated activation: forward": (6, 6, 1, True, "- (2 where a product wrote it)"),
    "gated activation: backward": (10, 10, 1, True, "- (6 where a product wrote it)"),
}
TOKENS = {
    "rotation of queries and keys of tokens: forward": (8, 8, 1, False, "- (q and k are read again and again)"),
    "rotation of gradients of tokens: backward": (8, 0, 1, False, "turn"),
}


def rows(name):
    positions, micro, width, byte_layers, token_layers, rate, byte_ratio, token_ratio, weights, _ = PRESETS[name]
    numbers = positions * width * micro
    for kernel, (now, least, calls, scaled, attempt) in (KERNELS | TOKENS).items():
        layers = token_layers * rate * (token_ratio if scaled else 1)
        layers += 0 if kernel in TOKENS else byte_layers * (byte_ratio if scaled else 1)
        ms = [1e3 * each * calls * layers * numbers / COPY for each in (now, least)]
        yield kernel, now, least, *ms, attempt
    ends = [("sum after the token level: forward", 12, 8, 1, "stream"), ("the same, and select: backward", 16, 9, 1, "stream"),
            ("zeros for a sum that has no reader", 8, 0, 1, "zeros")]  # fmt: skip
    for kernel, now, least, calls, attempt in ends:
        yield kernel, now, least, *(1e3 * each * calls * numbers / COPY for each in (now, least)), attempt
    # casts: 6 forward a micro-batch; 6 for the gradient, and 12 to add it to what is there (all but the first)
    now, least = (6 + 6) * micro + 12 * (micro - 1), 6 + 0 * micro + 4 * 0 + 12 * (micro - 1)
    yield "weights narrowed, gradients widened", now, least, 1e3 * now * weights / COPY, 1e3 * least * weights / COPY, "weights"


def main():
    for name, (*_, update) in PRESETS.items():
        print(f"\n### {name}: an update takes {update:g} ms\n")
        print("| kernel | bytes a number now | with the attempt | ms at 4.3 TB/s now | with it | gain, ms | attempt |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        total = [0.0, 0.0]
        for kernel, now, least, ms, after, attempt in rows(name):
            total[0], total[1] = total[0] + ms, total[1] + after
            print(f"| {kernel} | {now} | {least} | {ms:.1f} | {after:.1f} | {ms - after:.1f} | {attempt} |")
        print(f"| sum | | | {total[0]:.1f} | {total[1]:.1f} | {total[0] - total[1]:.1f} ({100 * (total[0] - total[1]) / update:.1f} %) | |")


if __name__ == "__main__":
    main()
