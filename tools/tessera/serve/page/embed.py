#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files of the page as C, for the server's program. Usage: embed.py OUTPUT

OUTPUT has an array of bytes for each file, and the rows of a table:
  TSR_PAGE_FILE(path, content type, entity tag, bytes, size)
which whoever includes it has defined. Where several sources make up one file they are joined in the order given here.
In pages, {NAME.html} stands for what that file holds, {root} for the address of the server's root, and {view} for the
page's name.
"""
import hashlib
import os
import re
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = ("texts.js", "common.js", "sentences.js", "page.js", "files.js", "speech.js", "status.js", "end.js")
LICENCE = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
FILES = (
    ("/", "text/html; charset=utf-8", ("page.html",)),
    ("/app/status", "text/html; charset=utf-8", ("status.html",)),
    ("/app/page.css", "text/css; charset=utf-8", ("page.css", "status.css", "print.css")),
    ("/app/page.js", "text/javascript; charset=utf-8", SCRIPTS),
    ("/app/recorder.js", "text/javascript; charset=utf-8", ("recorder.js",)),
    ("/app/icon.svg", "image/svg+xml", ("icon.svg",)),
)


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def page(path, name):
    """With all that braces stand for; the link to the page itself is marked."""
    view = "translate" if path == "/" else path.rpartition("/")[2]
    text = re.sub(r"\{(\w+\.html)\}\n", lambda found: read(found.group(1)).removeprefix(LICENCE), read(name))
    text = text.removeprefix(LICENCE).replace("{root}", "./" if path == "/" else "../").replace("{view}", view)
    return re.sub(rf'(<a href="[^"]*") (data-text="{view}")', r'\1 aria-current="page" \2', text)


def content(path, sources):
    return (page(path, *sources) if sources[0].endswith(".html") else "\n".join(map(read, sources))).encode()


def entity_tag(data):
    return hashlib.sha256(data).hexdigest()[:24]


def written():
    lines = ["/* SPDX-License-Identifier: Apache-2.0", " *", " * The files of the page: made by embed.py. */"]
    rows = []
    for i, (path, kind, sources) in enumerate(FILES):
        data = content(path, sources)
        lines.append(f"static const unsigned char page_bytes_{i}[{len(data)}] = {{")
        for begin in range(0, len(data), 24):
            lines.append("  " + " ".join(f"{byte}," for byte in data[begin : begin + 24]))
        lines.append("};")
        # With the quotes that belong to an entity tag.
        tag = f'"\\"{entity_tag(data)}\\""'
        rows.append(f'TSR_PAGE_FILE("{path}", "{kind}", {tag}, page_bytes_{i}, sizeof page_bytes_{i})')
    lines += ["", "#define TSR_PAGE_FILES \\"]
    lines += [f"  {row}{' ' + chr(92) if i + 1 < len(rows) else ''}" for i, row in enumerate(rows)]
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(written())
    return 0


if __name__ == "__main__":
    sys.exit(main())
