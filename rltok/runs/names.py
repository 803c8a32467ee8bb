"""What may name a model; `rltok.runs.loading` finds it."""

import re

HUB_NAME = re.compile(r"(hf:)?((\w[\w.-]*)/\w[\w.-]*)", re.ASCII)  # prefix, OWNER/NAME, OWNER
HUB_FILE = "model.safetensors"
ON_THE_HUB = r"(?:www\.)?(?:huggingface\.co|hf\.co)/"
ADDRESS = re.compile(  # OWNER/NAME
    rf"(?:[a-z]+://|(?={ON_THE_HUB}))(?:{ON_THE_HUB}((?!datasets/|spaces/)\w[\w.-]*/\w[\w.-]*))?", re.ASCII | re.IGNORECASE
)
NAMES = "a run's folder, a checkpoint, a file of rltok export, a name of rltok models, or OWNER/NAME on the Hugging Face hub"
