"""What NVIDIA's datasheets say of common cards: memory, bandwidth, arithmetic. Nothing here was measured."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """One card. Rates are dense, without sparsity, in operations a second; a multiply-add is two."""

    name: str
    memory_bytes: float
    bandwidth: float  # bytes a second
    bf16_rate: float | None  # None: the card has no bf16
    fp32_rate: float  # outside the tensor cores
    source: str
    device_names: tuple[str, ...]  # what CUDA calls it

    @property
    def rate(self) -> float:
        """Of what rltok runs there: bf16 where there is any, else fp32."""
        return self.fp32_rate if self.bf16_rate is None else self.bf16_rate


CARDS = (
    Card("T4", 16e9, 320e9, None, 8.1e12, "NVIDIA T4 product brief and datasheet", ("Tesla T4", "NVIDIA T4")),
    Card("L4", 24e9, 300e9, 121e12, 30.3e12, "NVIDIA L4 datasheet, its bf16 rate with sparsity halved", ("NVIDIA L4",)),
    Card(
        "A100 40GB", 40e9, 1555e9, 312e12, 19.5e12, "NVIDIA A100 datasheet",
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB", "A100-SXM4-40GB", "A100-PCIE-40GB"),
    ),
    Card(
        "A100 80GB", 80e9, 2039e9, 312e12, 19.5e12, "NVIDIA A100 datasheet, SXM", ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB")
    ),
    Card(
        "H100", 80e9, 3350e9, 989.5e12, 67e12, "NVIDIA H100 datasheet, SXM, its bf16 rate with sparsity halved",
        ("NVIDIA H100 80GB HBM3",),
    ),
    Card(
        "H200", 141e9, 4800e9, 989.5e12, 67e12, "NVIDIA H200 datasheet, SXM, its bf16 rate with sparsity halved", ("NVIDIA H200",)
    ),
)  # fmt: skip


def card_of(device_name: str) -> Card | None:
    """The card that CUDA calls so, or None: another variant of a card has other numbers."""
    return next((card for card in CARDS if device_name in card.device_names), None)
