"""What `make` installs into a new environment: torch's build without CUDA where there is no card, then rltok with an extra.

    .venv/bin/python scripts/set_up.py test --torch-index https://download.pytorch.org/whl/cpu

On Linux the build of torch that PyPI has is for CUDA. PyTorch's own index has one without; its versions end in +cpu, which PyPI
allows nobody, so what is installed by such a version comes from that index or from a folder of wheels that pip is told of.
Only the standard library is used, as the environment is still empty.
"""

import argparse
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "constraints.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TIMEOUT = 20  # seconds for asking what an index has; each connection gets 5


def pip(*arguments: str, **how) -> subprocess.CompletedProcess:
    """Run the environment's pip."""
    return subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], **how)


def lowest(*extras: str) -> dict[str, str]:
    """The lowest version that is declared of each package; of tools that constraints.txt pins, none."""
    pinned = {line.split("==")[0].lower() for line in PINS.read_text(encoding="utf-8").splitlines()}
    bounds = {}
    for requirement in sum((PROJECT["optional-dependencies"][extra] for extra in extras), PROJECT["dependencies"]):
        if own := re.match(r"rltok\[(.+)\]", requirement):
            bounds |= lowest(*own[1].split(","))
        else:
            name, version = re.match(r"([\w-]+)>=([\w.]+)", requirement).groups()
            bounds |= {name: version} if name.lower() not in pinned else {}
    return bounds


def numbers(version: str) -> list[int]:
    """2.13.0+cpu as [2, 13, 0]."""
    return [int(part) for part in re.match(r"[\d.]*\d", version)[0].split(".")]


def has_card() -> bool:
    """Whether the driver of NVIDIA sees a card."""
    if not shutil.which("nvidia-smi"):
        return False
    seen = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    return seen.returncode == 0 and "GPU" in seen.stdout


def has_torch() -> bool:
    """Whether the environment holds a torch that is new enough."""
    try:
        return numbers(importlib.metadata.version("torch")) >= numbers(lowest()["torch"])
    except importlib.metadata.PackageNotFoundError:
        return False


def cpu_builds(index: str) -> list[str]:
    """Versions of torch without CUDA that pip finds for this Python, newest first; none when the index does not answer."""
    question = ("index", "versions", "torch", "--index-url", index, "--timeout", "5", "--retries", "0")
    try:
        answer = pip(*question, capture_output=True, text=True, timeout=TIMEOUT).stdout
    except subprocess.TimeoutExpired:
        return []
    available = re.search(r"^Available versions: (.*)$", answer, re.MULTILINE)
    return sorted(re.findall(r"\b\d[\d.]*\+cpu\b", available[1]), key=numbers, reverse=True) if available else []


def install_torch(index: str, version: str = "") -> None:
    """Install torch without CUDA where that is wanted and to be had; otherwise say what pip will take, before it does.

    Arguments:
        index: address of an index of builds without CUDA; empty: none is asked.
        version: how the version has to begin, such as 2.8; empty: the newest.
    """
    if has_torch() or not index or sys.platform != "linux":
        return
    cuda = "torch with CUDA is installed from pip's own index: about 3 GB to download, 5.5 GB on disk."
    if has_card():
        print(f"An NVIDIA card is here, so {cuda}", flush=True)
        return
    wanted = numbers(version) if version else []
    builds = [build for build in cpu_builds(index) if numbers(build)[: len(wanted)] == wanted]
    if not builds:
        print(
            f"No NVIDIA card is here, but {index} has no torch without CUDA for this Python, or does not answer, so {cuda}"
            " To name another index, add TORCH_INDEX=ADDRESS to `make`.",
            flush=True,
        )
        return
    print(
        f"No NVIDIA card is here, so torch {builds[0]}, without CUDA, is installed: about 200 MB to download,"
        " unless it lies on this machine.",
        flush=True,
    )
    pip("install", "-q", "--no-deps", "--retries", "2", "--index-url", index, f"torch=={builds[0]}", check=True)


def main() -> int:
    """Command line; returns pip's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extra", choices=["core", *PROJECT["optional-dependencies"]], help="core: the package alone")
    parser.add_argument("--torch-index", default="", metavar="ADDRESS", help="of torch without CUDA")
    parser.add_argument("--lowest", action="store_true", help="the lowest declared versions of what the package needs")
    parser.add_argument("--newest", action="store_true", help="the newest tools, whatever constraints.txt says")
    options = parser.parse_args()
    extras = [] if options.extra == "core" else [options.extra]
    pins = ["-c", str(PINS)] if extras and not options.newest else []
    floor = lowest(*extras) if options.lowest else {}
    if floor:
        file = Path(sys.prefix) / "lowest.txt"
        file.write_text("".join(f"{name}=={version}\n" for name, version in floor.items()), encoding="utf-8")
        pins += ["-c", str(file)]
    install_torch(options.torch_index, floor.get("torch", ""))
    return pip("install", "-q", *pins, "-e", f".[{options.extra}]" if extras else ".", cwd=ROOT).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
