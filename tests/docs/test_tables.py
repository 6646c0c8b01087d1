#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md has the library's table of operators, row by row.

    test_tables.py            holds the page to that
    test_tables.py --print    prints the table as the page should have it"""
import json
import os
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


def main():
    told = json.loads(subprocess.run([os.environ["TESSERA"], "help", "--json"], capture_output=True, check=True).stdout)
    table = "\n".join([*HEAD, *rows(told["operators"])])
    if sys.argv[1:] == ["--print"]:
        print(table)
        return 0
    with open(os.path.join(os.environ["SOURCE_ROOT"], "docs", "operators.md"), encoding="utf-8") as file:
        page = file.read()
    is_good = table + "\n" in page and len(told["operators"]) > 30
    print(f"{len(told['operators'])} operators" if is_good else "FAILED: docs/operators.md should have\n" + table)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
