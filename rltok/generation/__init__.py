"""Text from a trained model: byte by byte with caches, sampled, as a stream that never shows half a character.

    prompts --passes--> logits of the next byte --Sampling--> byte --TextStream--> text
               ^------------------------------------'

`passes` has the model's side twice: `FullPass` computes everything anew for each byte and says what is meant; `CachedPass` gives
the same and computes only what the new byte changes.
"""

from rltok.generation.batch import Generated, Generation, generate, stream
from rltok.generation.sampling import Sampling

__all__ = ["Generated", "Generation", "Sampling", "generate", "stream"]
