"""How many rows of a preset's forward pass should fit a card, by the memory that was measured where it ran."""

from rltok.config import Config, with_settings
from rltok.flops import parameter_counts
from rltok.presets import size_of
from rltok.speed.speeds import Speed

STATE_BYTES = 16  # of memory for one parameter: weight, gradient and two moments of AdamW, fp32
USABLE = 0.92  # of a card's memory: the rest goes to CUDA itself and to fragments
FP32_FACTOR = 2  # bytes of an activation in fp32 over those in 16 bits
LEAST_ROWS = 4  # of a pass: fewer leave eq. (17) hardly a mean


def that_fits(config: Config, memory_bytes: float, bf16: bool, speeds: list[Speed]) -> Config | None:
    """The configuration with as many rows a pass as should fit a card, up to its own number; None where not even four fit.

    Args:
        config: of a preset.
        memory_bytes: of the card.
        bf16: whether it has bf16; without, passes are in fp16 and plain PyTorch. With `train.precision` fp32 they are plain, too.
        speeds: `rltok.speed.speeds.measured_speeds()`, where the memory of a row is taken from.
    """
    wide = config.train.precision == "fp32"
    kind = (size_of(config.name), "triton" if bf16 and not wide else "plain")
    base = next((speed for speed in speeds if (speed["preset"], speed["backend"]) == kind), None)
    if base is None:
        return None
    fixed = STATE_BYTES * sum(parameter_counts(config.model).values())
    a_row = (base["peak_memory_bytes"] - fixed) / base["micro_batch"] * (FP32_FACTOR if wide else 1)
    counts = range(config.train.micro_batch, LEAST_ROWS - 1, -1)
    sizes = [rows for rows in counts if config.train.sequences_per_update % rows == 0]
    rows = next((rows for rows in sizes if fixed + rows * a_row <= USABLE * memory_bytes), None)
    return with_settings(config, {"train.micro_batch": rows}) if rows else None
