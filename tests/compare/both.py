#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for the program in a test: runs the same command line with the program of two builds and notes what
differs.

COMPARE_OLD and COMPARE_NEW are the build folders, COMPARE_NOTES the file for the notes, one JSON object a line, TMPDIR
the folder in which all files lie that the test writes. The test gets what the new program printed."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

OLD, NEW = os.environ["COMPARE_OLD"], os.environ["COMPARE_NEW"]
FOLDER = os.environ["TMPDIR"]
# Commands that write files besides their standard output.
WRITES = {"attention", "bench", "eval", "plot", "profile", "train", "tune", "vocab"}
# Commands whose numbers are times.
TIMES = {"bench", "plan", "profile", "tune"}
VARYING = [
    (re.compile(r"20\d\d-\d\d-\d\dT[0-9:.]+Z?|20\d\d-\d\d-\d\d \d\d:\d\d(:\d\d)?"), "DATE"),
    (re.compile(r'("(?:seconds|elapsed|(?:source_|target_)?tokens_per_second)": )[-+.\de]+'), r"\1N"),
    (re.compile(r"[\d.,]+ (?:k )?(tokens/s|s\b|ms|us|MB/s|GB/s|h\b|min\b)"), r"N \1"),
    (re.compile(r"\b\d+:\d\d(:\d\d)?\b"), "CLOCK"),
    (re.compile(r"tessera-[A-Za-z]*-?[A-Za-z0-9]{6}\b|tmp\.[A-Za-z0-9]{10}"), "TEMPORARY"),
]
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?")


def plain(data, command):
    text = data.decode("utf-8", "surrogateescape").replace(OLD, NEW)
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    if command in TIMES:
        text = re.sub(r"\s+", " ", NUMBER.sub("N", text))
    return text


def files():
    found = {}
    for folder, _, names in os.walk(FOLDER):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, FOLDER)] = file.read()
    return found


def run(build, arguments, given):
    program = os.path.join(build, "tools", "tessera", "tessera")
    kept = ((key, value) for key, value in os.environ.items() if not key.startswith("COMPARE_"))
    environment = {key: value.replace(NEW, build) for key, value in kept}
    arguments = [argument.replace(NEW, build) for argument in arguments]
    result = subprocess.run([program] + arguments, input=given, capture_output=True, env=environment, check=False)
    return result.returncode, result.stdout, result.stderr


def main():
    arguments = sys.argv[1:]
    command = arguments[0] if arguments else ""
    given = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    keep = None
    if command in WRITES:
        # What the command writes must be there once; the test's own redirections lie in open files, which stay.
        keep = tempfile.mkdtemp(dir=os.path.dirname(FOLDER))
        shutil.copytree(FOLDER, os.path.join(keep, "files"), symlinks=True)
    old = run(OLD, arguments, given)
    old_files = None
    if keep:
        old_files = files()
        restore(os.path.join(keep, "files"))
        shutil.rmtree(keep)
    new = run(NEW, arguments, given)
    differences = []
    for what, a, b in (("exit code", old[0], new[0]), ("output", plain(old[1], command), plain(new[1], command)),
                       ("messages", plain(old[2], command), plain(new[2], command))):
        if a != b:
            differences.append({"what": what, "old": a, "new": b})
    if old_files is not None:
        new_files = files()
        for name in sorted(set(old_files) | set(new_files)):
            a, b = old_files.get(name), new_files.get(name)
            if a is None or b is None or (a != b and plain(a, command) != plain(b, command)):
                differences.append({"what": "file " + name, "old": "absent" if a is None else len(a),
                                    "new": "absent" if b is None else len(b)})
    with open(os.environ["COMPARE_NOTES"], "a", encoding="utf-8", errors="surrogateescape") as notes:
        notes.write(json.dumps({"arguments": arguments, "differences": differences}) + "\n")
    sys.stdout.buffer.write(new[1])
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(new[2])
    sys.stderr.buffer.flush()
    return new[0] if new[0] >= 0 else 128 - new[0]


def restore(kept):
    """Brings the files back as they were, without replacing those that did not change: they may be open."""
    for folder, folders, names in os.walk(FOLDER, topdown=False):
        there = os.path.join(kept, os.path.relpath(folder, FOLDER))
        for name in names + folders:
            path, other = os.path.join(folder, name), os.path.join(there, name)
            if not os.path.lexists(other):
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)
    for folder, _, names in os.walk(kept):
        here = os.path.join(FOLDER, os.path.relpath(folder, kept))
        os.makedirs(here, exist_ok=True)
        for name in names:
            path, other = os.path.join(folder, name), os.path.join(here, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                data = file.read()
            if os.path.exists(other):
                with open(other, "rb") as file:
                    if file.read() == data:
                        continue
            with open(other, "wb") as file:
                file.write(data)


if __name__ == "__main__":
    sys.exit(main())
