"""Three short texts whose boundaries are drawn again and again during training, so that snapshots can be compared."""

FIXED_TEXTS = {
    "prose": (
        "The ferry left late because the tide had turned against it. Nobody on the quay seemed to mind: two children"
        " counted gulls, an old man unwrapped his sandwich, and the ticket seller, whose afternoon was now uninterrupted,"
        " went back to her unfinished crossword. By evening the harbour was quiet again."
    ),
    "code": (
        "def mean(values):\n"
        '    """Average of a non-empty list."""\n'
        "    total = 0.0\n"
        "    for value in values:\n"
        "        total += value\n"
        "    return total / len(values)\n"
        "\n"
        "assert mean([3, 4, 8]) == 5.0  # 15 / 3\n"
        'print(f"{mean(range(1000)):.1f}")  # 499.5\n'
    ),
    "multilingual": (
        "At the café in Zürich the menu read: crème brûlée 7,50 €, Äpfel, piñata 🎈. The sign above the door said"
        " 欢迎光临, the one beside it добро пожаловать, and someone had pencilled மிக்க நன்றி under both."
    ),
}
