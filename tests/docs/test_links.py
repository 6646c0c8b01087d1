#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages: every link between them leads somewhere, docs/README.md has each page, none is too long to be read, no
paragraph breaks off, and the commands of each are run.

    test_links.py            holds the pages of this tree to that
    test_links.py --faults   sees that each kind of fault is found"""

import glob
import os
import re
import sys
import tempfile

MOST_OF_README, MOST_OF_PAGE = 6 << 10, 15 << 10
OTHERS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md", "tools/benchmarks.md")
LINK = re.compile(r"(?:\]\(|src=\")([^)\s\"]+)[)\"]")


def anchors(text):
    """What a heading is called in a link, as GitHub has it."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_off(text):
    """The last line of each paragraph, or list, that ends without a mark: an edit has lost its rest."""
    for paragraph in re.split(r"\n\s*\n", text):
        last = paragraph.rstrip().split("\n")[-1]
        is_prose = not re.match(r"#|\||    |<|!|```", paragraph)
        if is_prose and last and not re.search(r"[.:,;!?)`]\**$", last):
            yield last


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def faults_of(root):
    faults = []
    docs = sorted(glob.glob(os.path.join(root, "docs", "**", "*.md"), recursive=True))
    others = [os.path.join(root, name) for name in OTHERS]
    for page in docs + [path for path in others if os.path.exists(path)]:
        text, name = read(page), os.path.relpath(page, root)
        for link in LINK.findall(text):
            path, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(target):
                faults.append(f"{name}: there is no {link}")
            elif anchor and anchor not in anchors(read(target)):
                faults.append(f"{name}: {path or name} has no heading '{anchor}'")
        faults += [f"{name}: a paragraph breaks off: {line}" for line in broken_off(text)]
        most = MOST_OF_README if name == "README.md" else MOST_OF_PAGE
        size = len(text.encode())
        if size > most and (page in docs or name == "README.md"):
            faults.append(f"{name}: {size} bytes, more than {most}")
    build = os.path.join(root, "tests", "docs", "meson.build")
    is_run = re.findall(r"'(docs/[^']*\.md)'", read(build)) if os.path.exists(build) else []
    faults += [f"{name}: it shows commands, and tests/docs/meson.build does not run them"
               for name in (os.path.relpath(page, root) for page in docs)
               if name not in is_run and re.search(r"^    \$ ", read(os.path.join(root, name)), re.MULTILINE)]
    index = os.path.join(root, "docs", "README.md")
    links = [link.partition("#")[0] for link in LINK.findall(read(index))]
    linked = {os.path.normpath(os.path.join(root, "docs", link)) for link in links} | {index}
    faults += [f"docs/README.md: {os.path.relpath(page, root)} is not in it" for page in docs if page not in linked]
    return faults


def write(root, files):
    for name, text in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def test_faults():
    good = {"README.md": "# A\n\n[b](docs/b.md#the-end)\n", "docs/README.md": "[b](b.md)\n",
            "docs/b.md": "# B\n\n## The end!\n\n[up](#b) [out](https://example.org/x)\n"}
    planted = [({}, 0), ({"README.md": "[b](docs/b.md)\n\nOne joins all.\nWhat XX\n"}, 1),
               ({"README.md": "[b](docs/b.md)\n\n| a |\n\n- **b.**\n- c (d)\n\n    e\n\nf:\n"}, 0),
               ({"README.md": "[b](docs/c.md)\n"}, 1), ({"README.md": "[b](docs/b.md#end)\n"}, 1),
               ({"docs/README.md": "Nothing.\n"}, 1),
               ({"docs/b.md": "# B\n\n## The end\n" + "x" * MOST_OF_PAGE + "."}, 1),
               ({"README.md": "[b](docs/b.md)\n" + "x" * MOST_OF_README + "."}, 1),
               ({"docs/b.md": "# B\n\n## The end\n\n[a](#c)\n"}, 1),
               ({"docs/b.md": "# B\n\n## The end!\n\n[a](#b)\n\n    $ true\n"}, 1),
               ({"docs/b.md": "# B\n\n## The end!\n\n[a](#b)\n\n    $ true\n",
                 "tests/docs/meson.build": "pages = ['docs/b.md']\n"}, 0),
               ({"README.md": "[b](docs/b.md)\n\n<img src=\"docs/c.png\">\n"}, 1)]
    wrong = 0
    for change, expected in planted:
        with tempfile.TemporaryDirectory() as root:
            write(root, good | change)
            found = faults_of(root)
            if len(found) != expected:
                print(f"FAILED: {change}: {found}")
                wrong += 1
    print(f"{len(planted)} trees, {wrong} wrong")
    return wrong


def main():
    if sys.argv[1:] == ["--faults"]:
        return 1 if test_faults() else 0
    faults = faults_of(os.environ["SOURCE_ROOT"])
    for fault in faults:
        print("FAILED:", fault)
    print(f"{len(faults)} faults of the pages")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
