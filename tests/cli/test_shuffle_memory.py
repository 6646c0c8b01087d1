#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of `tessera shuffle`: that of more lines is that of fewer.

usage: test_shuffle_memory.py FEW MANY

Shuffles two files of so many numbers, and compares how much memory the program had at most. The results must have every
number once, which their count and sums tell."""
import os
import pathlib
import subprocess
import sys
import tempfile

MEMORY = 4  # MiB, fewer than either file takes
GROWTH = 6  # MiB
MORE_THAN_OPTION = 12  # MiB: what the program, its libraries and buffers take beside the sentences


def peak(arguments):
    """Runs the program; its largest resident memory in MiB."""
    child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: exit code {child.returncode}")
    return usage.ru_maxrss / 1024


def sums(path):
    """How many numbers, their sum, and how many of them stand in the line of their number."""
    count = total = fixed = 0
    with open(path, "rb") as file:
        for count, line in enumerate(file, 1):
            number = int(line)
            total += number
            fixed += number == count
    return count, total, fixed


def shuffle(program, folder, lines):
    source = folder / "lines"
    with open(source, "wb") as file:
        subprocess.run(["seq", "1", str(lines)], stdout=file, check=True)
    mib = peak([program, "shuffle", "--memory", str(MEMORY), "--out", folder / "out", source])
    count, total, fixed = sums(folder / "out/lines")
    if (count, total) != (lines, lines * (lines + 1) // 2):
        sys.exit(f"{lines} lines: {count} numbers came back, whose sum is {total}")
    if fixed > 10:
        sys.exit(f"{lines} lines: {fixed} are where they were; of a random order, one is")
    print(f"{lines:,} lines: at most {mib:.1f} MiB")
    return mib


def main():
    program = os.environ["TESSERA"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        few, many = (shuffle(program, folder, int(lines)) for lines in sys.argv[1:3])
    if many > few + GROWTH or many > MEMORY + MORE_THAN_OPTION:
        sys.exit(f"memory grows with the lines: {few:.1f} MiB, then {many:.1f} MiB")


if __name__ == "__main__":
    main()
