#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the tests of trainings with several ranks share: a training, and what it leaves."""
import json
import os
import pathlib
import subprocess
import time

TESSERA = os.environ["TESSERA"]
SEED = int(os.environ.get("RANKS_SEED", time.time()))
BATCHES = 4
PATIENCE = 600  # seconds
ENVIRONMENT = {**os.environ, "TESSERA_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
RECIPE = ["--task", "reverse", "--vocab-size", "40", "--d-model", "64", "--heads", "4", "--d-ff", "128",
          "--encoder-layers", "2", "--decoder-layers", "2", "--batch-tokens", "400", "--dropout", "0.1",
          "--average", "0.9", "--max-norm", "1", "--warmup", "20", "--log-every", "1", "--save-every", "10",
          "--validate-every", "50", "--keep", "3"]


def train_alone(words, folder):
    """What one rank leaves; a message instead where the device is not there."""
    alone = subprocess.run([TESSERA, "train", *map(str, words), "--out", str(folder)], env=ENVIRONMENT,
                           capture_output=True, text=True, check=False)
    if alone.returncode == 4:
        return None, alone.stderr
    assert alone.returncode == 0, alone.stderr
    steps = int(words[words.index("--steps") + 1])
    return left(folder, steps), None


def left(folder, steps):
    """All that a training left, without what the clock says."""
    rows = []
    for line in (folder / "train/log.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows.append({key: row[key] for key in row if key not in ("seconds", "tokens_per_second")})
    files = sorted(folder.glob("train/step-*.safetensors")) + [folder / "model.safetensors"]
    assert len(rows) >= steps and len(files) > 1, f"{folder}: {len(rows)} rows, {len(files)} files"
    return rows, {path.name: path.read_bytes() for path in files}


def compare(expected, folder, what):
    rows, files = left(folder, len(expected[0]))
    others = [pair for pair in zip(rows, expected[0]) if pair[0] != pair[1]]
    assert rows == expected[0], f"{what}: other rows: {others[:1]}"
    assert files.keys() == expected[1].keys(), f"{what}: other files: {sorted(files)}"
    for name, content in files.items():
        assert content == expected[1][name], f"{what}: another {name}"


def pids_of(folder):
    pids = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == TESSERA.encode() and os.fsencode(folder) in words:
            pids.append(int(process.name))
    return pids
