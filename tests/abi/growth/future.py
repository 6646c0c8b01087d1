#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Public headers of the future, and the list of all public structs.

    future.py header IN OUT      the header with a field more at the end of each struct that grows
    future.py structs OUT IN..   a C header of macros SIZED(X), FILLED(X), FIXED(X): X(name) for each public struct that
                                 begins with struct_size, that the library fills with a function of the caller's size,
                                 and that keeps its size; those that the library alone makes are none of these

Ends with an error if a struct that grows lacks the pin of its last field, or options lack struct_size.
"""
import pathlib
import re
import sys

STRUCT = re.compile(r"^typedef struct (\w+) \{\n(.*?)^\} (\w+);\n", re.M | re.S)
FIELD = re.compile(r"(\w+)(?:\[\w+\])*;")
FUTURE = "  int32_t future[2];\n"
# The plugins' side of an ABI, which tells its ages apart by itself.
PLUGINS = ("backend.h", "transport.h", "audio_plugin.h")


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def sized(body):
    return without_comments(body).lstrip().startswith("uint32_t struct_size;")


def filled(text, name):
    return re.search(r"_sized\([^)]*\b%s \*\w+,\s*size_t size\)" % name, text) is not None


def owned(text, name):
    """The library alone makes it: there is a function that frees it, or it is pointed to by one that is."""
    return re.search(r"_free\(%s \*\w+\)" % name, text) or re.search(r"^  %s \*\*\w+;" % name, text, re.M)


def grows(text, name, body):
    return sized(body) or filled(text, name) or owned(text, name)


def check(path, text):
    for name, body, _ in STRUCT.findall(text):
        if re.search(r"_(options|config)$", name) and not sized(body):
            sys.exit(f"{path}: {name} does not begin with `uint32_t struct_size;`: it could not grow")
        pin = re.search(r"^TSR_SIZED_PIN\(%s, (\w+), \d+\);" % name, text, re.M)
        last = FIELD.findall(without_comments(body))[-1]
        if sized(body) and not (pin and pin.group(1) == last):
            sys.exit(f"{path}: {name} ends with {last}, which no TSR_SIZED_PIN({name}, {last}, ..) keeps in its place")


def write_header(source, target):
    text = pathlib.Path(source).read_text()
    if not source.endswith(PLUGINS):
        check(source, text)

        def grown(match):
            if not grows(text, match.group(1), match.group(2)):
                return match.group(0)
            return match.group(0).replace("\n}", "\n" + FUTURE + "}", 1)

        text = STRUCT.sub(grown, text)
        text = re.sub(r"^TSR_SIZED_PIN.*\n", "", text, flags=re.M)
    pathlib.Path(target).write_text(text)


def write_structs(target, sources):
    kinds = {"SIZED": [], "FILLED": [], "FIXED": []}
    for source in sources:
        if source.endswith(PLUGINS):
            continue
        text = pathlib.Path(source).read_text()
        check(source, text)
        for name, body, _ in STRUCT.findall(text):
            if owned(text, name):
                continue
            kinds["SIZED" if sized(body) else "FILLED" if filled(text, name) else "FIXED"].append(name)
    counters = "tsr_device_counters"  # of backend.h, handed out by runtime.h
    kinds["FILLED"].append(counters)
    lines = ["/* SPDX-License-" + "Identifier: Apache-2.0 */"]  # in two parts, for `reuse`
    for kind, names in kinds.items():
        lines.append(f"#define {kind}(X) " + " ".join(f"X({name})" for name in names))
    pathlib.Path(target).write_text("\n".join(lines) + "\n")


if sys.argv[1] == "header":
    write_header(sys.argv[2], sys.argv[3])
else:
    write_structs(sys.argv[2], sys.argv[3:])
