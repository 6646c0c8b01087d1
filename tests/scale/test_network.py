#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_network.py STEPS: a training of four ranks, each on a machine of its own, between which a packet takes 20 ms and
one of a hundred is lost, gives the losses, checkpoints and model of one rank with four batches an update, bit for bit.
And when one of them is killed, all end within seconds."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import network
from trainings import BATCHES, ENVIRONMENT, PATIENCE, RECIPE, TESSERA, compare, pids_of, train_alone

STEPS = int(sys.argv[1])
RANKS, DELAY, LOSS = 4, 0.020, 0.01
SOON = 60  # seconds


def start(command, *words):
    return subprocess.Popen(command(TESSERA, "train", *words), env=ENVIRONMENT, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def check_bits(command, words, expected, folder):
    begin = time.monotonic()
    process = start(command, *words, "--out", folder)
    told = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, f"exit code {process.returncode}: {told[-800:]}"
    compare(expected, folder, f"{RANKS} machines")
    print(f"{RANKS} machines: {STEPS} steps in {time.monotonic() - begin:.1f} s, the same bits")


def check_kill(command, words, folder):
    log = folder / "train/log.jsonl"
    process = start(command, *words, "--steps", 100000, "--out", folder)
    begin = time.monotonic()
    while process.poll() is None and not (log.exists() and log.read_text().count("\n") > 1):
        assert time.monotonic() - begin < PATIENCE, "no step is made"
        time.sleep(0.05)
    pids = pids_of(folder)
    assert len(pids) == RANKS, f"{len(pids)} ranks"
    os.kill(max(pids), signal.SIGKILL)
    begin = time.monotonic()
    process.communicate(timeout=PATIENCE)
    took = time.monotonic() - begin
    assert process.returncode != 0, "a rank was killed, and mpirun ends with 0"
    assert took < SOON, f"a rank was killed, and the others needed {took:.1f} s"
    assert not pids_of(folder), "a rank is left"
    print(f"a rank was killed; all ended within {took:.1f} s")


def main():
    recipe = [*RECIPE, "--d-model", "32", "--d-ff", "64", "--encoder-layers", "1", "--decoder-layers", "1",
              "--accumulate", BATCHES, "--device", "cpu:0"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            with network.machines(RANKS, DELAY, LOSS) as command:
                words = [*recipe, "--steps", STEPS]
                expected, why = train_alone(words, folder / "alone")
                assert expected, why
                check_bits(command, words, expected, folder / "machines")
                check_kill(command, recipe, folder / "killed")
        except network.Unavailable as error:
            print(f"skipped: {error}")
            return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
