#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes openapi.json as C, for the server's program. Usage: embed_spec.py INPUT VERSION OUTPUT

OUTPUT has an array of bytes: the document without blanks, with the program's version."""
import json
import sys


def main():
    source, version, output = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        document = json.load(file)
    document["info"]["version"] = version
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0", " *", " * What GET /spec answers: made by embed_spec.py. */",
        f"static const unsigned char spec_bytes[{len(data)}] = {{",
    ]
    for begin in range(0, len(data), 24):
        lines.append("  " + " ".join(f"{byte}," for byte in data[begin : begin + 24]))
    lines.append("};\n")
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


if __name__ == "__main__":
    main()
