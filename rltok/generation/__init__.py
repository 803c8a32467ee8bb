"""Text from a trained model: byte by byte with caches, sampled, as a stream that never shows half a character.

    prompts --passes--> logits of the next byte --Sampling--> byte --TextStream--> text
               ^------------------------------------'

`passes` has the model's side twice: `FullPass` computes everything anew for each byte and says what is meant; `CachedPass` gives
the same and computes only what the new byte changes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rltok.generation.sampling import Sampling

if TYPE_CHECKING:
    from rltok.generation.batch import Generated, Generation, generate, stream

__all__ = ["Generated", "Generation", "Sampling", "generate", "stream"]


def __getattr__(name: str) -> Any:
    """What is of `batch`, once it is asked for: torch comes with it, and options of the command line need `Sampling` alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("rltok.generation.batch"), name)
