#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ranks.py DEVICE STEPS KILLS: a training of 1, 2 and 4 ranks gives the losses, checkpoints and model of one rank
with four batches an update, bit for bit; and so does one of 4 ranks of which one is killed KILLS times, at any moment,
and which goes on with another number of ranks each time."""
import os
import pathlib
import random
import signal
import shutil
import subprocess
import sys
import tempfile
import time

from trainings import BATCHES, ENVIRONMENT, PATIENCE, RECIPE, SEED, TESSERA, compare, pids_of, train_alone

DEVICE, STEPS, KILLS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def start(n, *words):
    return subprocess.Popen(["mpirun", "-n", str(n), TESSERA, "train", *map(str, words)], env=ENVIRONMENT,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run(n, *words):
    process = start(n, *words)
    told = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, f"{n} ranks, {words}: exit code {process.returncode}: {told[-800:]}"


def again(folder):
    """What begins a training, or goes on with it."""
    if (folder / "train/recipe.yaml").exists():
        return ["--out", folder, "--resume"]
    shutil.rmtree(folder, ignore_errors=True)
    return ["--out", folder]


def check_kills(folder, words, expected, took):
    """Each time another rank of another number of ranks is killed."""
    chance, slowest, n_killed = random.Random(SEED), 0.0, 0
    while n_killed < KILLS:
        process = start(chance.choice([2, 3, 4]), *words, *again(folder))
        while not pids_of(folder) and process.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, took / 3))
        pids = pids_of(folder)
        if not pids:  # it has come to its end: another one begins
            process.communicate(timeout=PATIENCE)
            compare(expected, folder, f"after {n_killed} kills")
            shutil.rmtree(folder)
            continue
        os.kill(chance.choice(pids), signal.SIGKILL)
        begin = time.monotonic()
        process.communicate(timeout=PATIENCE)
        slowest = max(slowest, time.monotonic() - begin)
        n_killed += 1
        assert not pids_of(folder), "a rank is left"
    run(1, *words, *again(folder))
    print(f"{n_killed} times a rank was killed; all ended within {slowest:.1f} s")
    compare(expected, folder, "after kills")


def main():
    print(f"RANKS_SEED={SEED}")
    if not shutil.which("mpirun"):
        print("skipped: there is no mpirun")
        return 77
    words = [*RECIPE, "--steps", STEPS, "--accumulate", BATCHES, "--device", DEVICE]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        expected, why = train_alone(words, folder / "alone")
        if why:
            print(f"skipped: {why}")
            return 77
        for n in (1, 2, 4):
            begin = time.monotonic()
            run(n, *words, "--out", folder / f"ranks-{n}")
            took = time.monotonic() - begin
            compare(expected, folder / f"ranks-{n}", f"{n} ranks")
            print(f"{n} ranks: {STEPS} steps in {took:.1f} s, the same bits")
        if KILLS > 0:
            check_kills(folder / "killed", words, expected, took)
    return 0


if __name__ == "__main__":
    sys.exit(main())
