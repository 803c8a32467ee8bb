"""The models that come with the package: NAME.safetensors, NAME.json (what was run and measured), NAME.md (the model card)."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "weights"


def shipped_models() -> list[str]:
    """Names that `rltok.load` takes."""
    return sorted(path.stem for path in FOLDER.glob("*.safetensors"))


def weights_of(name: str) -> Path:
    """The file of weights of a model that comes with the package."""
    return FOLDER / f"{name}.safetensors"


def card_of(name: str) -> str:
    """The model card, Markdown."""
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8").rstrip()


def facts_of(name: str) -> dict[str, Any]:
    """What its JSON file says: language, parameters, scores, the record of its run."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
