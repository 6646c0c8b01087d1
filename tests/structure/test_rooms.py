#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trials of rooms.py: small trees with one violation each, which it has to find, and one without."""
import os
import sys
import tempfile

import rooms

README = "# {}\n\nA room.\n"
HEADERS = "\nOther rooms include: {}.\n"

# A tree without a violation.
SOUND = {
    "include/tessera/README.md": README.format("headers"),
    "include/tessera/backend.h": "",
    "include/tessera/ops.h": "",
    "core/base/README.md": README.format("base") + HEADERS.format("`status.h`"),
    "core/base/status.h": "",
    "core/base/inside.h": "",
    "core/base/status.c": '#include "core/base/inside.h"\n',
    "core/text/README.md": README.format("text"),
    "core/text/text.c": '#include "core/base/status.h"\n#include "tessera/ops.h"\n',
    "core/base/deep/README.md": README.format("deep"),
    "core/base/deep/deep.c": '#include "core/base/inside.h"\n',
    "backends/cpu/README.md": README.format("cpu"),
    "backends/cpu/cpu.c": '#include "tessera/backend.h"\n#include "backends/cpu/pool.h"\n',
    "backends/cpu/pool.h": "",
    "tests/unit/README.md": README.format("unit") + "\nLooks inside: `core/base`, `backends/cpu`.\n",
    "tests/unit/test.c": '#include "core/base/inside.h"\n#include "backends/cpu/pool.h"\n',
}

# What is changed in it, and what has to be said then.
VIOLATIONS = [
    ({"core/text/text.c": '#include "core/base/inside.h"\n#include "core/base/status.h"\n'}, "private to core/base"),
    ({"core/base/status.c": '#include "core/text/text.h"\n', "core/text/text.h": "",
      "core/text/README.md": README.format("text") + HEADERS.format("`text.h`")}, "circle of rooms"),
    ({"core/text/README.md": ""}, "there is none"),
    ({"core/text/README.md": "# text\n"}, "there is none"),
    ({"backends/cpu/pool.h": '#include "core/base/status.h"\n'}, "private to core/base"),
    ({"backends/cpu/pool.h": '#include "tessera/ops.h"\n'}, "private to include/tessera"),
    ({"core/text/more.c": '#include "backends/cpu/pool.h"\n'}, "private to backends/cpu"),
    ({"core/text/more.c": '#include "tests/unit/test.h"\n', "tests/unit/test.h": ""}, "private to tests/unit"),
    ({"tools/talk/README.md": README.format("talk"), "tools/talk/talk.c": '#include "core/base/status.h"\n'},
     "private to core/base"),
    ({"core/text/more.c": '#include "nowhere.h"\n'}, "not in the tree"),
    ({"core/base/README.md": README.format("base") + HEADERS.format("`status.h`, `gone.h`")}, "which is not there"),
    ({"core/base/README.md": README.format("base") + HEADERS.format("`status.h`, `inside.h`"),
      "core/base/deep/deep.c": "", "tests/unit/test.c": '#include "backends/cpu/pool.h"\n'}, "no other room includes"),
    ({"tests/unit/test.c": '#include "core/base/inside.h"\n'}, "looks inside backends/cpu, but"),
    ({"core/text/README.md": README.format("text") + "\nLooks inside: `core/base`.\n",
      "core/text/text.c": '#include "core/base/inside.h"\n'}, "private to core/base"),
]


def violations(changes):
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**SOUND, **changes}.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        return rooms.check(root)


def main():
    failed = 0
    found = violations({})
    if found:
        failed += 1
        print("FAILED: a sound tree:", found)
    for changes, message in VIOLATIONS:
        found = violations(changes)
        if not any(message in line for line in found):
            failed += 1
            print(f"FAILED: {changes}: no '{message}' among {found}")
    print(f"{len(VIOLATIONS) + 1} trees, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
