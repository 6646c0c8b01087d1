#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what the library exports with what is listed (core/libtessera.map) and what its headers declare.

usage: tests/abi/symbols.py LIBRARY LIST HEADER..."""

import pathlib
import re
import subprocess
import sys


def exported(library):
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    # "address type name@@version"; A is the version itself.
    return {line.split()[2].split("@")[0] for line in lines if line.split()[1] != "A"}


def listed(path):
    return set(re.findall(r"^    (\w+);$", pathlib.Path(path).read_text(encoding="utf-8"), re.MULTILINE))


def declared(paths):
    names = set()
    for path in paths:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        names |= set(re.findall(r"^TSR_API\b[^;{]*?\b(tsr_\w+)\s*\(", text, re.MULTILINE))
    return names


def main():
    library, path, *headers = sys.argv[1:]
    of_list, faults = listed(path), 0
    for what, names in (("the library exports", exported(library)), ("the headers declare", declared(headers))):
        for name in sorted(names ^ of_list):
            faults += 1
            where = f"{what} {name}, which {path} lacks" if name in names else f"{path} has {name}: not what {what}"
            print(where)
    print(f"{len(of_list)} symbols, {faults} differences")
    return faults > 0 or not of_list


if __name__ == "__main__":
    sys.exit(main())
