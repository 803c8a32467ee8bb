"""Diagrams drawn from lists of nodes and edges. A test holds the lists against each other, a notebook against autograd."""

from typing import TYPE_CHECKING

from rltok.show.plots import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]

# The stochastic computation graph of one forward pass (the paper's figure 1, right): place, kind, words.
NODES: dict[str, tuple[float, float, str, str]] = {
    "x": (0.0, 0.0, "given", "$x$\nbytes"),
    "y": (8.3, 1.4, "given", "$y$\nnext bytes"),
    "theta_encoder": (1.9, -1.5, "weights", r"$\theta$ encoder"),
    "theta_policy": (0.0, 2.0, "weights", r"$\theta$ policy"),
    "theta_token": (4.8, -1.5, "weights", r"$\theta$ token level"),
    "theta_decoder": (7.2, -1.5, "weights", r"$\theta$ decoder"),
    "X": (1.9, 0.0, "computed", "$X$\nencoder (1)"),
    "l": (1.9, 2.0, "computed", "$l$\nlogits (21)"),
    "a": (4.8, 2.0, "drawn", "$a$\ndrawn (2)"),
    "tokens": (4.8, 0.0, "computed", "$X', Y'$\ntokens (3, 4)"),
    "nll": (7.2, 0.0, "computed", r"$-\log p(y|a,x)$" + "\nadd, decode (5, 6)"),
    "loss": (9.6, 0.0, "computed", "loss"),
}
# From, to, and points on the way where the straight line would cross a node.
Edge = tuple[str, str, tuple[Point, ...]]
COMPUTED: list[Edge] = [
    ("x", "X", ()), ("theta_encoder", "X", ()), ("X", "l", ()), ("theta_policy", "l", ()), ("a", "tokens", ()),
    ("a", "nll", ()), ("X", "tokens", ()), ("theta_token", "tokens", ()), ("tokens", "nll", ()),
    ("X", "nll", ((2.6, -0.85), (6.5, -0.85))),
    ("theta_decoder", "nll", ()), ("y", "nll", ()), ("nll", "loss", ()),
]  # fmt: skip
DRAWN: list[Edge] = [("l", "a", ())]
BACKPROP: list[Edge] = [
    ("loss", "nll", ()), ("nll", "theta_decoder", ()), ("nll", "tokens", ()), ("tokens", "theta_token", ()),
    ("tokens", "X", ()), ("nll", "X", ((6.5, -0.85), (2.6, -0.85))), ("X", "theta_encoder", ()),
]  # fmt: skip
SCORE: list[Edge] = [
    ("loss", "l", ((9.6, 3.0), (1.9, 3.0))), ("l", "theta_policy", ()), ("l", "X", ()), ("X", "theta_encoder", ()),
]  # fmt: skip
LOOKS = {"given": "square,pad=0.2", "weights": "round,pad=0.25", "computed": "square,pad=0.35", "drawn": "circle,pad=0.25"}
FILLS = {"given": "white", "weights": "0.92", "computed": "#d7e8f5", "drawn": "#fbe3b5"}


def _path(axes: "Axes", edge: Edge, shift: float, look: dict[str, object]) -> None:
    """A line from node to node with an arrow head in the middle of its longest piece, `shift` to its right-hand side."""
    start, stop, between = edge
    points = [NODES[start][:2], *between, NODES[stop][:2]]
    pieces = list(zip(points, points[1:], strict=False))
    lengths = [((u - x) ** 2 + (v - y) ** 2) ** 0.5 for (x, y), (u, v) in pieces]
    (x, y), (u, v) = pieces[lengths.index(max(lengths))]
    right = (shift * (v - y) / max(lengths), -shift * (u - x) / max(lengths))
    axes.plot([p[0] + right[0] for p in points], [p[1] + right[1] for p in points], zorder=1, **look)
    middle, before = ((x + share * (u - x) + right[0], y + share * (v - y) + right[1]) for share in (0.56, 0.5))
    axes.annotate("", middle, before, arrowprops={"arrowstyle": "-|>", "color": look["color"], "lw": 0, "mutation_scale": 13})


def computation_graph() -> "Figure":
    """The stochastic computation graph of one forward pass, and the two ways on which the gradient comes back."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.4, 4.2))
    kinds: list[tuple[str, list[Edge], float, dict[str, object]]] = [
        ("computed", COMPUTED, 0.0, {"color": "0.35", "linewidth": 0.9}),
        ("drawn at random", DRAWN, 0.0, {"color": "0.35", "linewidth": 1.4, "linestyle": ":"}),
        ("gradient by backpropagation (12)", BACKPROP, 0.17, {"color": PALETTE[0], "linewidth": 1.4}),
        ("gradient by the score function (13)", SCORE, -0.17, {"color": PALETTE[3], "linewidth": 1.4, "linestyle": "--"}),
    ]
    for label, edges, shift, look in kinds:
        for number, edge in enumerate(edges):
            _path(axes, edge, shift, look | ({"label": label} if number == 0 else {}))
    for x, y, kind, words in NODES.values():
        box = {"boxstyle": LOOKS[kind], "fc": FILLS[kind], "ec": "none" if kind == "given" else "k", "lw": 0.7}
        axes.text(x, y, words, ha="center", va="center", fontsize=8, bbox=box, zorder=3)
    axes.text(7.2, 2.7, r"loss $\times\ \nabla \log \pi(a|x)$", ha="center", va="top", fontsize=8, color=PALETTE[3])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=2, fontsize=8)
    axes.set(xlim=(-0.8, 10.2), ylim=(-1.9, 3.4))
    axes.axis("off")
    return figure
