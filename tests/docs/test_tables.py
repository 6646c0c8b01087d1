#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md has the library's table of operators, row by row. Each command, and each public header, is told of
in some page, docs/devices.md names the commands that take --split, and no others, and docs/environment.md has the exit
codes.

    test_tables.py            holds the pages to that
    test_tables.py --print    prints the table of operators as the page should have it"""
import glob
import json
import os
import re
import subprocess
import sys

HEAD = ["| operator | formula | operands | results | class | gradient |", "|---|---|---|---|---|---|"]


def slots(listed):
    return ", ".join(f"{s['name']}{'?' if s['optional'] else ''} {'/'.join(s['types'])}" for s in listed)


def rows(operators):
    for op in operators:
        formula = op["formula"].replace("|", "\\|")
        yield (f"| {op['name']} | `{formula}` | {slots(op['operands'])} | {slots(op['results'])} | {op['class']} | "
               f"{'yes' if op['differentiable'] else ''} |")


def read(*path):
    with open(os.path.join(os.environ["SOURCE_ROOT"], *path), encoding="utf-8") as file:
        return file.read()


def untold(commands, codes):
    """What the pages do not tell, or tell wrongly, of commands, exit codes, headers and benchmarks."""
    root = os.environ["SOURCE_ROOT"]
    pages = "\n".join(read(path) for path in ["README.md", *glob.glob("docs/*.md", root_dir=root)])
    for command in commands:
        if command["name"] != "help" and f"tessera {command['name']}" not in pages.replace("`tessera\n", "`tessera "):
            yield f"no page tells of tessera {command['name']}"
    for header in glob.glob("*.h", root_dir=os.path.join(root, "include", "tessera")):
        if f"tessera/{header}" not in read("docs", "api.md"):
            yield f"docs/api.md does not have tessera/{header}"
    for bench in glob.glob("tools/bench-*", root_dir=root):
        if f"`{bench}" not in read("docs", "performance.md"):
            yield f"docs/performance.md does not have {bench}"
    splitting = {c["name"] for c in commands if any(o["name"] == "split" for o in c.get("options", []))} - {"serve"}
    named = re.search(r"\n\n((?:.+\n)*.*) take `--split`;", read("docs", "devices.md"))
    for row in codes:
        if f"| {row['code']} | {row['meaning'].partition(';')[0]} |" not in read("docs", "environment.md"):
            yield f"docs/environment.md should say what the exit code {row['code']} means: {row['meaning']}"
    here = {c["name"] for c in commands}  # a build may lack `document`
    if not named or set(re.findall(r"`([a-z-]+)`", named.group(1))) & here != splitting:
        yield f"docs/devices.md should name the commands that take --split: the server, {', '.join(sorted(splitting))}"


def main():
    told = json.loads(subprocess.run([os.environ["TESSERA"], "help", "--json"], capture_output=True, check=True).stdout)
    table = "\n".join([*HEAD, *rows(told["operators"])])
    if sys.argv[1:] == ["--print"]:
        print(table)
        return 0
    is_good = table + "\n" in read("docs", "operators.md") and len(told["operators"]) > 30
    print(f"{len(told['operators'])} operators" if is_good else "FAILED: docs/operators.md should have\n" + table)
    faults = list(untold(told["commands"], told["exit_codes"]))
    for fault in faults:
        print("FAILED:", fault)
    return 0 if is_good and not faults else 1


if __name__ == "__main__":
    sys.exit(main())
