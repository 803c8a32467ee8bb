"""What the first cell of every chapter calls, and how an answer is set beside the reader's guess."""

import os
from pathlib import Path

import torch

from rltok.config import Config
from rltok.device import memory_bytes, precision_of

CLONE = Path("rltok_clone")  # made by the first cell of a chapter that was opened alone


def machine() -> str:
    """One line about this machine: card or processor, memory, and the precision in which it trains."""
    if torch.cuda.is_available():
        card, dtype = torch.cuda.get_device_properties(0), precision_of(Config(), torch.device("cuda", 0))
        precision = "bfloat16" if dtype == torch.bfloat16 else "fp16 with a gradient scaler, plain PyTorch"  # as a T4 does
        return f"{card.name}, {card.total_memory / 1e9:.0f} GB; trains in {precision}"
    return f"CPU with {os.cpu_count()} cores, {memory_bytes(torch.device('cpu')) / 1e9:.0f} GB; trains in float32"


def begin() -> None:
    """Change to the folder with the stored results, or print that there is none; describe the machine."""
    if not Path("results").is_dir() and (CLONE / "notebooks" / "results").is_dir():
        os.chdir(CLONE / "notebooks")
    if not (Path("results").is_dir() or Path("notebooks/results").is_dir()):
        print("No folder of stored results here, which some chapters read: open the notebook in a clone of the repository.")
    print(machine())


def judge(guess: object, answer: object) -> str:
    """The answer, and how the guess compares; `None` is a guess that nobody made.

    Example:
        >>> judge(None, "less"), judge("less", "less"), judge(64, 8)
        ('answer: less (no guess yet)', 'answer: less, as guessed', 'answer: 8; your guess: 64')
    """
    if guess is None:
        return f"answer: {answer} (no guess yet)"
    return f"answer: {answer}, as guessed" if guess == answer else f"answer: {answer}; your guess: {guess}"
