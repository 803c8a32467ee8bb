"""Write the weights of the demo model for the book's first page.

python scripts/book/make_demo_weights.py     # of the model that comes with rltok, or of another that rltok.load takes

writes book/_static/demo_weights.js, which book/_static/demo_model.js reads: a script and no data file, because browsers let no
page that lies on a disk read a file beside it. tests/scripts/book/test_demo_page.py holds it to the model that it names.
"""

import argparse
import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import torch

import rltok
from rltok.config import Config
from rltok.errors import RltokError
from rltok.runs.loading import load_config

ASSET = Path(__file__).resolve().parents[2] / "book" / "_static" / "demo_weights.js"
BEGIN = "// Written by scripts/book/make_demo_weights.py.\nconst rltokDemo = "
# The readings that demo_model.js computes.
READ = {"attention_softcap": None, "head_norm": "rms", "token_positions": "byte", "upsample": "value"}
LEFT_OUT = ("early_head.weight", "early_norm.weight")  # what only training needs


def settings(config: Config) -> dict[str, Any]:
    """What demo_model.js must know beside the weights.

    Raises:
        RltokError: a model that it does not compute.
    """
    model = config.model
    found = {name: getattr(model, name) for name in READ} | {"rule": model.rule.name}
    if found != READ | {"rule": "learned"}:
        raise RltokError(f"the page computes models with {READ} and the learned rule alone; got {found}. Take another model.")
    return {
        "heads": model.num_heads, "theta": model.rope_theta, "eps": model.norm_eps, "window": model.window,
        "layers": {"down": model.down_layers, "mid": model.mid_layers, "up": model.up_layers},
        "scale": model.rule.scale, "bias": torch.logit(torch.tensor(model.rule.target_rate, dtype=torch.float64)).item(),
        "row_bytes": config.data.sequence_length,
    }  # fmt: skip


def tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The weights that a forward pass without the early head reads, by name, fp32."""
    return {name: value.detach().float() for name, value in model.named_parameters() if name not in LEFT_OUT}


def packed(weights: dict[str, torch.Tensor]) -> tuple[str, bytes]:
    """(dtype, bytes) of all weights one after the other, little-endian; bfloat16 where that loses nothing."""
    flat = torch.cat([value.flatten() for value in weights.values()])
    if torch.equal(flat.bfloat16().float(), flat):
        return "bfloat16", flat.bfloat16().view(torch.int16).numpy().astype("<i2").tobytes()
    return "float32", flat.numpy().astype("<f4").tobytes()


def render(name: str) -> str:
    """The script: one object, whose last entry is the weights in base64."""
    weights = tensors(rltok.load(name))
    dtype, data = packed(weights)
    asset = {
        "model": name, "settings": settings(load_config(name)), "dtype": dtype, "sha256": hashlib.sha256(data).hexdigest(),
        "tensors": [[name, list(value.shape)] for name, value in weights.items()], "data": base64.b64encode(data).decode(),
    }  # fmt: skip
    return BEGIN + json.dumps(asset) + ";\n"


def read() -> dict[str, Any]:
    """The stored object."""
    return json.loads(ASSET.read_text(encoding="utf-8").removeprefix(BEGIN).removesuffix(";\n"))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="demo", help="what rltok.load takes")
    ASSET.write_text(render(parser.parse_args().model), encoding="utf-8")


if __name__ == "__main__":
    main()
