"""Where the files of the project lie."""

import re
import subprocess
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
BUNDLED = TESTS / "items"  # a few items of each evaluation set


def project_files(root: Path = ROOT) -> list[Path]:
    """Files that git tracks or would add; outside a repository of their own, all but those in folders that git ignores."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        if not (root / ".git").exists():
            raise FileNotFoundError(".git")  # an archive; one that lies inside another repository is none of its files
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True).stdout.split("\0")
        paths = [root / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        skipped = re.compile(r"\.(?!ci$|github$)|(?:runs|corpora|build|dist|__pycache__)$|.*\.egg-info$")
        paths = [path for path in root.rglob("*") if not any(map(skipped.match, path.relative_to(root).parts[:-1]))]
    return sorted(path for path in paths if path.is_file())
