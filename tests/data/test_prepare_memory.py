"""`rltok prepare` takes as much memory for much text as for little, and so does a pass over what it stored."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT, TESTS

SCRIPT = """
import json, os, sys
from pathlib import Path
import numpy as np
from preparing import request
from rltok.config import DataConfig
from rltok.data import load_corpus, row_indices
from rltok.data.prepare import prepare_folder

def memory(name):
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith(name))

def text(megabytes, path):
    draw = np.random.default_rng(megabytes)
    with open(path, "w") as file:
        for number in range(megabytes * 50):
            file.write(json.dumps({"text": " ".join(map(str, draw.integers(0, 10**9, 2000).tolist()))}) + "\\n")

def measured(place, name):
    prepare_folder(request([f"{place}/{name}.jsonl"], cut="windows"), Path(place, name))
    prepared = memory("VmHWM")
    before = memory("RssAnon")
    rows = load_corpus(f"{place}/{name}", DataConfig(cut="windows")).train
    peak = before
    for step in range(len(rows) // 16):
        rows.ids(row_indices(0, step, 16, len(rows)))
        peak = max(peak, memory("RssAnon"))
    return [prepared, peak - before]

place = sys.argv[1]
text(1, f"{place}/warm.jsonl")
text(2, f"{place}/small.jsonl")
text(24, f"{place}/large.jsonl")
measured(place, "warm")  # imports what is imported on first use
for name in ("small", "large"):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, json.dumps(measured(place, name)).encode())
        os._exit(0)
    os.close(writer)
    print(os.read(reader, 1000).decode(), flush=True)
    os.wait()
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks into /proc")
def test_memory_does_not_grow_with_the_text(tmp_path):
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    small, large = (json.loads(line) for line in output.splitlines())
    # 22 MB more text; reading it into memory would show in each number
    assert large[0] - small[0] < 12 and large[1] - small[1] < 6, output
