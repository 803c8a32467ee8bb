"""Triton twins of plain operations, one file each; the plain version stays with its equation and is what they are held to.

Nothing here imports the rest of the package, and only the plain files import this, when `rltok.kernels.backends` says so. With
TRITON_INTERPRET=1 set before the first import, everything runs on the CPU, slowly: that is how the tests run it. Kernels carry
`@no_type_check`, because the shape checks of the tests cannot wrap what Triton reads as source.
"""

import torch

# of attention: up to this softcap e^score fits into the dtype and its sums into fp32, so that no maximum need be subtracted
FIXED_CAP = {torch.bfloat16: 60.0, torch.float16: 10.0}
LARGEST_CAP = 1e4  # of a softcap in kernels: beyond, scores that matter do not feel it, and e^(2x / cap) loses digits
