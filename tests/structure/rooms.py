#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the tree to its rules about rooms. A room is a folder with sources.

  1. Each room has a README.md whose first paragraph says what the room is.
  2. Includes form no circle of rooms.
  3. A header of another room is included only if that room's README lists it ("Other rooms include: ..."), or if the
     including room's README says that it looks inside ("Looks inside: ..."), which is for tests. A room below another
     (core/x/y below core/x) sees all headers of that room.
  4. A backend includes `tessera/backend.h` (a transport: `tessera/transport.h`, a plugin of sound:
     `tessera/audio_plugin.h`), its own headers and the contract of the shaders, and nothing else; core includes no
     backend; tools include nothing of core; nothing but tests includes tests. What tells one system from another,
     core/base/platform, all rooms may include.
  5. What a README lists exists, and somebody includes it.

Usage: rooms.py [ROOT]. Prints a line for each violation; exit code 1 if there is one."""
import collections
import os
import re
import sys

SOURCES = (".c", ".h", ".cc", ".hh", ".comp", ".glsl")
TOP = ("include", "core", "backends", "shaders", "tools", "tests", "examples")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
# Plugins that are no backends, and the header that each shares with the library.
SEAMS = {"backends/audio": "audio_plugin.h", "backends/comm-": "transport.h"}
# Headers that the build makes.
GENERATED = re.compile(r"(^|/)(structs|shaders)\.h$|\.inc$")


def sources(root):
    for top in TOP:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith(SOURCES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def listed(text, beginning):
    """The names in backquotes of the paragraph that begins so."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(beginning):
            return set(re.findall(r"`([^`]+)`", paragraph))
    return set()


def circles(arrows):
    """Rooms that lie on a circle, as lists, each once."""
    found, state, path = [], {}, []

    def visit(room):
        state[room] = 1
        path.append(room)
        for other in sorted(arrows[room]):
            if state.get(other) == 1:
                found.append(path[path.index(other):] + [other])
            elif other not in state:
                visit(other)
        path.pop()
        state[room] = 2

    for room in sorted(arrows):
        if room not in state:
            visit(room)
    return found


def check(root):
    wrong = []
    files = list(sources(root))
    known = set(files)
    rooms = sorted({os.path.dirname(file) for file in files})
    offered, looks_inside, used = {}, {}, collections.defaultdict(set)
    for room in rooms:
        path = os.path.join(root, room, "README.md")
        text = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        paragraphs = [p for p in text.split("\n\n") if p.strip() and not p.startswith("#")]
        if not paragraphs or not paragraphs[0].strip().endswith("."):
            wrong.append(f"{room}: README.md with a sentence that says what the room is: there is none")
        offered[room] = listed(text, "Other rooms include:")
        if "Other rooms include: every file" in text:
            offered[room] = {os.path.basename(file) for file in files if os.path.dirname(file) == room}
            used[room] = set(offered[room])
        looks_inside[room] = listed(text, "Looks inside:")

    arrows = collections.defaultdict(set)
    for room in rooms:
        arrows[room] = set()
    looked = collections.defaultdict(set)
    for file in files:
        room = os.path.dirname(file)
        text = open(os.path.join(root, file), encoding="utf-8").read()
        for name in INCLUDE.findall(text):
            places = [folder + name for folder in ("", "include/", "shaders/", "shaders/lib/")]
            places.append(os.path.normpath(os.path.join(room, name)))
            header = next((place for place in places if place in known), None)
            if header is None:
                if not GENERATED.search(name):
                    wrong.append(f"{file}: includes \"{name}\", which is not in the tree")
                continue
            other = os.path.dirname(header)
            if other == room:
                continue
            arrows[room].add(other)
            base = os.path.basename(header)
            used[other].add(base)
            if other == "include/tessera":
                seam = next((seam for kind, seam in SEAMS.items() if room.startswith(kind)), "backend.h")
                allowed = room.split("/")[0] != "backends" or base == seam
            elif other == "core/base/platform":
                allowed = base in offered[other]
            elif room.startswith("backends/"):
                allowed = other == "shaders/contract"
            elif other.startswith("backends/"):
                allowed = room.startswith("tests/") and other in looks_inside[room]
            elif other.startswith("core/") and room.startswith("tools/"):
                allowed = False
            elif other.startswith("tests/") and not room.startswith("tests/"):
                allowed = False
            else:
                allowed = base in offered[other] or room.startswith(other + "/") or other in looks_inside[room]
                if base not in offered[other] and other in looks_inside[room] and not room.startswith("tests/"):
                    allowed = False
            if other in looks_inside[room]:
                looked[room].add(other)
            if not allowed:
                wrong.append(f"{file}: includes {header}, which is private to {other}")

    for circle in circles(arrows):
        wrong.append("circle of rooms: " + " -> ".join(circle))
    for room in rooms:
        for name in sorted(offered[room]):
            if os.path.join(room, name) not in known:
                wrong.append(f"{room}/README.md: lists {name}, which is not there")
            elif name not in used[room]:
                wrong.append(f"{room}/README.md: lists {name}, which no other room includes")
        for name in sorted(looks_inside[room] - looked[room]):
            wrong.append(f"{room}/README.md: says that it looks inside {name}, but it does not")
    return wrong


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    wrong = check(root)
    for line in wrong:
        print(line)
    print(f"{len(wrong)} violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
