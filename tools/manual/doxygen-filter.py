#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Doxygen reads of a public header (INPUT_FILTER): the comments, which are those of C, become its own. A comment
on a line of its own is about what follows, one behind code about that; the first one is about the file."""
import re
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def documented(match):
    comment = match.group(0)
    before = match.string[match.string.rfind("\n", 0, match.start()) + 1:match.start()]
    if before.strip().startswith(("#endif", "#else", "extern")) or comment.startswith("/* ---"):
        return comment
    # What is a tag, a command or the end of a list to Doxygen is a text's own: <s>, @, a backslash, "..".
    text = re.sub(r"[\\@]|\.(?=\.)|(?<=\.)\.", r"\\\g<0>", comment[2:-2])
    text = re.sub(r"<(?=/?[a-z])", r"\\<", text)
    if text.lstrip().startswith("SPDX"):
        return "/** \\file" + text[text.index("\n"):] + "*/" if "\n" in text else comment
    return ("/**<" if before.strip() else "/**") + text + "*/"


with open(sys.argv[1], encoding="utf-8") as file:
    sys.stdout.write(COMMENT.sub(documented, file.read()))
