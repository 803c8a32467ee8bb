"""Where a kernel listens: at files of its own, as a free port may be taken before the kernel has it."""

import atexit
import shutil
import tempfile
import uuid
from functools import cache
from pathlib import Path


def own_sockets() -> dict[str, str]:
    """Settings of jupyter_client's KernelManager for a kernel at files that no other process uses.

    With its default, TCP, jupyter picks free ports and gives them back, and the kernel, a second later, dies where one of them
    is no longer free: "Kernel died before replying to kernel_info".
    """
    return {"transport": "ipc", "ip": str(_folder() / uuid.uuid4().hex[:8])}


@cache
def _folder() -> Path:
    """A folder that goes with this process. Its path is short: a socket's may have about 100 characters."""
    folder = tempfile.mkdtemp(prefix="kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
