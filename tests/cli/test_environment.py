#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of environment variables (`tessera help environment`) has those that the sources read, and no others; and
docs/environment.md has the same table."""
import json
import os
import re
import subprocess
import sys

ROOT = os.environ["SOURCE_ROOT"]
FOLDERS = ("backends", "core", "include", "shaders", "python", "tests", "tools", ".ci", "meson.build")
ENDINGS = (".c", ".h", ".cc", ".py", ".sh", ".build", "")
# The table itself, and these tests, are no readers.
NO_READERS = {"tools/tessera/options/environment.c", "tests/cli/test_environment.py"}
# What tests say to plugins and programs of their own, and macros of the compiler's command line.
OF_TESTS = re.compile(r"TESSERA_(FAIL_\w+|MISSING_\w+|VARIANTS|TEST_BUILD|TEST_TEMPLATE|SOURCE_ROOT)$")
# How a variable is read: by C; by a backend, whose host adds TESSERA_ to the name; by shell; by Python.
READERS = (re.compile(r'getenv\("(\w+)"\)'), re.compile(r"\$\{?(TESSERA_[A-Z_]+)"),
           re.compile(r'environ(?:\.get\(|\[)"(TESSERA_\w+)"'))
OF_BACKENDS = (re.compile(r'\bhost, "([A-Z_]+)"'), re.compile(r'\{"([A-Z_]+)", &options->'))
OUR_OWN = {"XDG_CACHE_HOME", "TMPDIR"}  # of those that are not named TESSERA_
TITLES = {"program": "the program", "cpu": "`cpu`", "vulkan": "`vulkan`", "python": "the package for Python",
          "source": "the source tree"}


def sources():
    for top in FOLDERS:
        path = os.path.join(ROOT, top)
        if os.path.isfile(path):
            yield path
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if name not in ("data", "demo-model", "recipes", "__pycache__")]
            for name in names:
                if os.path.splitext(name)[1] in ENDINGS:
                    yield os.path.join(folder, name)


def read_variables():
    """The variables that are read, each with the files that do."""
    found = {}
    for path in sources():
        name = os.path.relpath(path, ROOT)
        if name in NO_READERS:
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        variables = [variable for reader in READERS for variable in reader.findall(text)]
        if name.startswith("backends/"):
            variables += ["TESSERA_" + variable for reader in OF_BACKENDS for variable in reader.findall(text)]
        for variable in variables:
            if variable.startswith("TESSERA_") or variable in OUR_OWN:
                found.setdefault(variable, []).append(name)
    return found


def main():
    printed = subprocess.run([os.environ["TESSERA"], "help", "--json"], capture_output=True, check=True).stdout
    table = json.loads(printed)["environment"]
    names = [variable["name"] for variable in table]
    found = read_variables()
    failures = []
    if len(found) < 20:
        failures.append(f"only {len(found)} variables are read: this test does not see them")
    if len(names) != len(set(names)):
        failures.append("a variable is in the table twice")
    for name, files in sorted(found.items()):
        if name not in names and not OF_TESTS.match(name):
            failures.append(f"{name} is not in the table of environment.c; {files[0]} reads it")
    for name in names:
        if name not in found:
            failures.append(f"{name} is in the table of environment.c, and nothing reads it")
    with open(os.path.join(ROOT, "docs", "environment.md"), encoding="utf-8") as file:
        page = file.read()
    rows = [f"| {v['name']} | {TITLES[v['reader']]} | {v['meaning']} |" for v in table]
    wanted = "\n".join(["| variable | read by | meaning |", "|---|---|---|", *rows])
    if wanted + "\n\n" not in page:
        failures.append("docs/environment.md has another table of environment variables; it should be\n" + wanted)
    for failure in failures:
        print("FAILED:", failure)
    print(f"{len(names)} variables, {len(found)} of them found, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
