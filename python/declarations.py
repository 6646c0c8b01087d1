#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the package knows of the library: tessera/_declarations.py, from the public headers.

    declarations.py            writes the file
    declarations.py --check    compares it with the headers; exit code 1 if it differs

The functions and numbers are those that the package's sources take from the library (lib.tsr_NAME, lib.TSR_NAME); with
them come the types that they name. CC is the compiler that reads the headers.

The file has cffi's tables, and not C: cffi would parse C when a type is first used, and an exception in the middle of
that, such as the one of Control-C, leaves its parser broken for all that comes later."""

import ast
import contextlib
import io
import os
import pathlib
import pprint
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap

import cffi

FOLDER = pathlib.Path(__file__).resolve().parent
PACKAGE = FOLDER / "tessera"
INCLUDE = FOLDER.parent / "include"
MADE = PACKAGE / "_declarations.py"


def preprocessed():
    """All public headers as one text, without comments, directives and what headers of the system say."""
    headers = sorted(path.name for path in (INCLUDE / "tessera").glob("*.h"))
    source = "".join(f'#include "tessera/{name}"\n' for name in headers)
    command = shlex.split(os.environ.get("CC", "cc")) + ["-E", "-std=c11", f"-I{INCLUDE}", "-x", "c", "-"]
    lines = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout.splitlines()
    kept, is_ours = [], False
    for line in lines:
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            is_ours = "/tessera/" in marker.group(1) or marker.group(1) == "<stdin>"
        elif is_ours and not line.startswith("#"):
            kept.append(line)
    return "\n".join(kept)


def without(text, word):
    """The text without `word (...)`, whatever the parentheses hold."""
    while True:
        match = re.search(rf"\b{word}\s*\(", text)
        if not match:
            return text
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = text[: match.start()] + text[end:]


def statements(text):
    """What stands at the top level, one declaration each; definitions of functions are left out."""
    found, begin, depth = [], 0, 0
    for at, character in enumerate(text):
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(character, 0)
        if depth == 0 and character == ";":
            found.append(" ".join(text[begin:at].split()))
            begin = at + 1
        elif depth == 0 and character == "}" and re.match(r"\s*static\b", text[begin:]):
            begin = at + 1
    return [statement for statement in found if statement]


def is_function(statement):
    return "(" in statement and not statement.startswith(("typedef", "enum", "struct"))


def name_of(statement):
    """What a declaration declares."""
    if is_function(statement):
        return re.search(r"\b(\w+)\s*\(", statement).group(1)
    if statement.startswith("typedef"):
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", statement)
        return pointer.group(1) if pointer and "{" not in statement else re.search(r"(\w+)$", statement).group(1)
    return None


def laid_out(statement):
    """A declaration as lines of at most 120 columns."""
    if statement.startswith(("enum", "typedef struct")) and "{" in statement:
        head, rest = statement.split("{", 1)
        body, tail = rest.rsplit("}", 1)
        if "{" not in body:
            separator = "," if statement.startswith("enum") else ";"
            parts = [part.strip() for part in body.split(separator) if part.strip()]
            lines = "".join(f"  {part}{separator}\n" for part in parts)
            return f"{head.strip()} {{\n{lines}}}{tail};"
    words, lines, line = statement.split(" "), [], ""
    for word in words:
        if len(line) + len(word) > 116:
            lines.append(line)
            line = "   "
        line += (" " if line else "") + word
    return "\n".join(lines + [line]) + ";"


def called(prefix):
    """What the package takes from the library: functions (tsr_) or numbers (TSR_)."""
    names = set()
    for path in sorted(PACKAGE.glob("*.py")):
        if path != MADE:
            names |= set(re.findall(rf"\blib\.({prefix}\w+)", path.read_text(encoding="utf-8")))
    return names


def declarations():
    """The C text, in the order of the headers."""
    text = without(without(preprocessed(), "__attribute__"), "_Static_assert")
    every = [part for part in statements(text) if not part.startswith("extern")]
    wanted, numbers = called("tsr_"), called("TSR_")
    missing = wanted - {name_of(part) for part in every if is_function(part)}
    if missing:
        sys.exit(f"the package calls what no header declares: {', '.join(sorted(missing))}")
    size = 0
    while size != len(wanted):  # until no type is missing that a declaration names
        size = len(wanted)
        for part in every:
            if name_of(part) in wanted:
                wanted |= set(re.findall(r"\btsr_\w+", part))
    types = {name_of(part) for part in every if not is_function(part)}
    wanted &= types | called("tsr_")
    for part in every:  # lengths of arrays
        if name_of(part) in wanted and not part.startswith("enum"):
            numbers |= set(re.findall(r"\bTSR_\w+", part))
    kept = [
        part
        for part in every
        if (numbers & set(re.findall(r"\bTSR_\w+", part)) if part.startswith("enum") else name_of(part) in wanted)
    ]
    missing = numbers - set(re.findall(r"\bTSR_\w+", " ".join(kept)))
    if missing:
        sys.exit(f"the package names what no enum of a header has: {', '.join(sorted(missing))}")
    return "\n".join(laid_out(part) for part in dict.fromkeys(kept)) + "\n"


def made():
    """The file's text: what cffi writes, in lines that can be read."""
    builder = cffi.FFI()
    builder.set_source("tessera._declarations", None)
    builder.cdef(declarations())
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tables.py"
        with contextlib.redirect_stdout(io.StringIO()):
            builder.emit_python_code(str(path))
        call = ast.parse(path.read_text(encoding="utf-8")).body[-1].value
    tables = ""
    for table in call.keywords:
        text = pprint.pformat(ast.literal_eval(table.value), width=112 - len(table.arg))
        tables += textwrap.indent(f"{table.arg}={text},\n", "    ")
    return (
        "# SPDX-License-Identifier: Apache-2.0\n"
        '"""What the package knows of the library; made by declarations.py, which a test compares with the headers."""'
        "\n\nfrom typing import Any\n\nimport _cffi_backend\n\n"
        f'ffi: Any = _cffi_backend.FFI(\n    "tessera._declarations",\n{tables})\n'
    )


def tree(text):
    """What a file says, however its lines are laid out."""
    return ast.dump(ast.parse(text))


def main():
    text = made()
    if sys.argv[1:] == ["--check"]:
        if not MADE.exists() or tree(MADE.read_text(encoding="utf-8")) != tree(text):
            print(f"{MADE}: the headers say otherwise; run python/declarations.py")
            return 1
        return 0
    MADE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
