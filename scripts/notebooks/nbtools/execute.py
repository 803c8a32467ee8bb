"""Runs the cells of a notebook in a fresh kernel and measures what it took."""

import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import ipykernel.kernelspec
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from nbtools.kernels import own_sockets
from nbtools.rules import NotebookError, kernel_environment, mend, tags, where

# Asked of the kernel after the last cell. It imports nothing that the notebook did not.
PROBE = """
def _rltok_probe():
    import json, platform, resource, sys
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    facts = {"peak_memory": peak, "python": platform.python_version(), "machine": platform.machine(), "device": "cpu"}
    torch = sys.modules.get("torch")
    if torch is not None:
        facts["torch"] = torch.__version__
        if torch.cuda.is_available():
            facts["device"] = torch.cuda.get_device_name()
            facts["gpu_memory"] = torch.cuda.max_memory_allocated()
    return json.dumps(facts)
"""


@dataclass(frozen=True)
class Facts:
    """What a run took, and on what."""

    device: str  # name of the card, or "cpu"
    machine: str  # the processor's architecture
    seconds: float
    peak_memory: int  # bytes, of the kernel
    gpu_memory: int | None  # bytes, at most allocated by torch
    python: str
    torch: str | None


class ThisPython(KernelSpecManager):
    """Whatever kernel is asked for, it runs in the environment of this process; a kernel of the same name cannot interfere."""

    def get_kernel_spec(self, kernel_name):
        """The specification of ipykernel for sys.executable."""
        return self.kernel_spec_class(resource_dir=ipykernel.kernelspec.RESOURCES, **ipykernel.kernelspec.get_kernel_dict())


def has_gpu() -> bool:
    """Whether torch sees a GPU here."""
    command = [sys.executable, "-c", "import torch; print(torch.cuda.is_available())"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() == "True"


def run_cells(nb, path: Path, *, gpu: bool, timeout: int, extra: dict[str, str] | None = None) -> Facts:
    """Execute all cells in place, or all but those tagged `gpu`. The first cell that raises ends it with NotebookError."""
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisPython(), **own_sockets())
    client = NotebookClient(nb, km=manager, timeout=timeout, record_timing=False, skip_cells_with_tag="" if gpu else "gpu")
    client.resources = {"metadata": {"path": str(path.parent)}}
    needs_card = any("gpu" in tags(cell) for cell in nb.cells)
    environment = kernel_environment(gpu=gpu and needs_card) | (extra or {})
    return asyncio.run(_run(client, path, environment))


async def _run(client: NotebookClient, path: Path, environment: dict[str, str]) -> Facts:
    start = time.perf_counter()
    # The kernel's own stderr holds notes of ipykernel, nothing that a cell writes.
    async with client.async_setup_kernel(cleanup_kc=True, env={**os.environ, **environment}, stderr=subprocess.DEVNULL):
        for index, cell in enumerate(client.nb.cells):
            try:
                await client.async_execute_cell(cell, index)
            except CellExecutionError as error:
                what = f"{error.ename}: {error.evalue}".splitlines()[0]
                raise NotebookError(f"{where(path, index)} raised {what}. Mend it and run `{mend(path)}`.") from error
            except CellTimeoutError as error:
                raise NotebookError(f"{where(path, index)} ran over {client.timeout} s. Make it smaller.") from error
            except DeadKernelError as error:
                raise NotebookError(f"{where(path, index)}: the kernel died, most often of lack of memory.") from error
        seconds = time.perf_counter() - start
        client.set_widgets_metadata()
        return await _probe(client, seconds)


async def _probe(client: NotebookClient, seconds: float) -> Facts:
    expression = {"facts": "_rltok_probe()"}
    reply = await client.kc.execute(PROBE, silent=True, store_history=False, user_expressions=expression, reply=True)
    text = reply["content"]["user_expressions"]["facts"]["data"]["text/plain"]
    facts = json.loads(text[1:-1])  # the repr of a string without quotes or backslashes inside
    names = ("device", "machine", "peak_memory", "gpu_memory", "python", "torch")
    return Facts(seconds=round(seconds, 1), **{name: facts.get(name) for name in names})
