# SPDX-License-Identifier: Apache-2.0
"""What the tests of documents share: runs, checks, and the end."""
import os
import random
import subprocess
import sys
import tempfile

FAKE = os.environ["FAKE"]
work = tempfile.TemporaryDirectory()
state = {"checks": 0, "failures": 0}


def check(what, condition, *found):
    state["checks"] += 1
    if not condition:
        state["failures"] += 1
        print("FAILED:", what, *[repr(f)[:1500] for f in found], sep="\n    ")


def fake(mode, name, data, code=0, table=None, **environment):
    """What the fake makes of a file; of one that is refused its message."""
    arguments = [FAKE, mode, name]
    if table is not None:
        path = os.path.join(work.name, "table")
        with open(path, "w", encoding="utf-8") as out:
            out.write(table)
        arguments.append(path)
    if isinstance(data, str):
        data = data.encode()
    env = {**os.environ, **{key: str(value) for key, value in environment.items()}}
    run = subprocess.run(arguments, input=data, capture_output=True, env=env, timeout=100)
    message = run.stderr.decode(errors="replace")
    check(f"{name} {mode}: exit code {run.returncode}, expected {code}", run.returncode == code, message, data[:500])
    return run.stdout if run.returncode == 0 else message


def starve(name, data, step=1):
    """Has one allocation after the other fail: each ends with an error, and nothing is lost."""
    number = 1
    while number < 20000:
        env = {**os.environ, "FAKE_FAIL": str(number)}
        run = subprocess.run([FAKE, "reverse", name], input=data, capture_output=True, env=env, timeout=100)
        if run.returncode == 9:
            break
        is_told = run.returncode == 5 and b"memory" in run.stderr
        check(f"{name}, allocation {number}", is_told, run.returncode, run.stderr)
        if not is_told:
            return
        number += step
    check("allocations were counted", 10 < number < 20000, number)


def drawn(default):
    seed = int(os.environ.get("TESSERA_SEED", default))
    print("TESSERA_SEED", seed)
    return random.Random(seed)


def finish():
    print(state["checks"], "checks,", state["failures"], "failed")
    sys.exit(1 if state["failures"] else 0)
