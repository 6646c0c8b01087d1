#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands that pages show, and compares what they print with what the page says.

    run_pages.py PAGE...
    run_pages.py --faults    sees that a page that lies is found

A command is a line of an indented block that begins with "$ "; a backslash at its end continues it. What stands behind
it, up to the next command, is what it prints on both streams; a command with nothing behind it only has to succeed.
"..." stands for any number of lines, at the end of a line for its rest. Each page has a folder of its own, in which the
commands run in their order; it holds links to backends, core, tools and tests, and small files (prepare). What is
exported holds for the rest of the page. A comment in front of a block says what is special about it:

    <!-- run: numbers vary -->          every number may be another one
    <!-- run: not, BECAUSE -->          nothing of the block is run
    <!-- run: file NAME -->             the block is that file
    <!-- run: replace "A" "B" -->       in its commands, A is replaced by B; several such comments may follow another
    <!-- run: output not compared -->   it only has to succeed
    <!-- run: first COMMAND -->         this is run before it
    <!-- run: exit code N -->           its commands end so

A line of another block must not begin with a program's name: that would be a command that nobody runs.

What a page shows of a file by "cat NAME" is written into it, if it is not there.

TESSERA names the program, SOURCE_ROOT and BUILD_ROOT the folders, PYTHON the Python that pages call. Commands that name
a device which is not here are passed over, and told."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.environ["SOURCE_ROOT"]
BUILD = os.environ["BUILD_ROOT"]
COMMENT = re.compile(r"<!-- run: (.*) -->$")
NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")


def blocks(lines):
    """(line number, comments, lines without their indentation) of each indented block."""
    comments, i = [], 0
    while i < len(lines):
        match = COMMENT.match(lines[i])
        if match:
            comments.append(match.group(1))
        elif lines[i].startswith("    ") and (i == 0 or not lines[i - 1].strip() or COMMENT.match(lines[i - 1])):
            begin = i
            while i < len(lines) and (lines[i].startswith("    ") or not lines[i].strip()):
                i += 1
            end = i
            while not lines[end - 1].strip():
                end -= 1
            yield begin + 1, comments, [line[4:] for line in lines[begin:end]]
            comments = []
            continue
        elif lines[i].strip():
            comments = []
        i += 1


def commands(block):
    """(command, lines that it prints) of each command."""
    found = []
    for line in block:
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1][0] = found[-1][0][:-1] + line.strip()
        elif found:
            found[-1][1].append(line)
    for _, expected in found:
        while expected and not expected[-1].strip():
            expected.pop()
    return found


def plain(line, numbers_vary):
    line = line.rstrip()
    return " ".join(NUMBER.sub("N", line).split()) if numbers_vary else line


def matches(expected, printed, numbers_vary):
    """1 if the lines are those that are expected, with "..." for any."""
    if not expected:
        return not printed
    head, rest = expected[0], expected[1:]
    if head.strip() == "...":
        return any(matches(rest, printed[i:], numbers_vary) for i in range(len(printed) + 1))
    if not printed:
        return False
    wanted, found = plain(head, numbers_vary), plain(printed[0], numbers_vary)
    is_same = found.startswith(wanted[:-3].rstrip()) if wanted.endswith("...") else found == wanted
    return is_same and matches(rest, printed[1:], numbers_vary)


def is_program(line):
    """Whether a line of a block begins as a command does: with the program, a script of the tree, a tool."""
    word = next((w for w in line.split() if not re.match(r"[A-Z_]+=", w)), "")
    is_script = "/" in word and os.path.isfile(os.path.join(ROOT, word))
    return line[:1].strip() and (is_script or word in ("tessera", "meson", "ninja", "cc", "apt-get", "sudo", "export"))


def take(source, folder, name, n):
    with open(os.path.join(ROOT, source), encoding="utf-8") as file:
        lines = file.readlines()
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.writelines(lines[:n])


def prepare(folder):
    for name in ("backends", "core", "tools", "tests"):
        os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    for language in ("en", "fr"):
        source = f"tests/data/tatoeba/test.{language}"
        take(source, folder, f"train.{language}", 1000)
        take(source, folder, f"test.{language}", 300)
        take(source, folder, f"valid.{language}", 40)
        take(source, folder, f"output.{language}", 300)
        take(source, folder, f"text.{language}", 5)
    with open(os.path.join(folder, "long.en"), "w", encoding="utf-8") as file:
        file.write("One.\nTwo.\n" + "The children are in the garden, and the dog sleeps. " * 60 + "\n")
    with open(os.path.join(folder, "tessera.pc"), "w", encoding="utf-8") as file:
        file.write(f"Name: tessera\nDescription: of the build\nVersion: 0\nCflags: -I{ROOT}/include\n"
                   f"Libs: -L{BUILD}/core -ltessera\n")
    os.mkdir(os.path.join(folder, "bin"))
    os.symlink(os.environ["TESSERA"], os.path.join(folder, "bin", "tessera"))
    if "PYTHON" in os.environ:
        python = os.path.join(folder, "bin", "python3")
        with open(python, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec "{os.environ["PYTHON"]}" "$@"\n')
        os.chmod(python, 0o755)


def environment(folder):
    result = dict(os.environ)
    result["PATH"] = os.path.join(folder, "bin") + ":" + result["PATH"]
    folders = [os.path.join(BUILD, "backends", name) for name in ("reference", "cpu", "vulkan")]
    result["TESSERA_BACKEND_PATH"] = ":".join(folders)
    result["PKG_CONFIG_PATH"] = folder
    result["LD_LIBRARY_PATH"] = os.path.join(BUILD, "core")
    result["TESSERA_LIBRARY"] = os.path.join(BUILD, "core", "libtessera.so")
    result["PYTHONPATH"] = os.path.join(ROOT, "python")
    result["PYTHONDONTWRITEBYTECODE"] = "1"
    result["GALLIVM_PERF"] = "nopt"
    return result


class Page:
    def __init__(self, path):
        self.path = path
        self.n_run = 0
        self.n_passed_over = 0
        self.failures = []
        self.folder = tempfile.mkdtemp()
        prepare(self.folder)
        self.environment = environment(self.folder)
        names = self.shell("tessera devices --names").stdout.split()
        self.devices = {name.split(":")[0] for name in names}

    def shell(self, command):
        return subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, encoding="utf-8", check=False, timeout=600)

    def is_here(self, command):
        return all(b in self.devices for b in re.findall(r"\b(vulkan|cpu|reference):0", command))

    def run(self, number, comments, command, expected):
        for comment in comments:
            if comment.startswith("replace "):
                old, new = shlex.split(comment[len("replace "):])
                if old in command:
                    command = command.replace(old, new)
        shown = re.match(r"cat (\S+)$", command)
        if shown and not os.path.exists(os.path.join(self.folder, shown.group(1))):
            with open(os.path.join(self.folder, shown.group(1)), "w", encoding="utf-8") as file:
                file.write("\n".join(expected) + "\n")
        if not self.is_here(command):
            self.n_passed_over += 1
            print(f"{self.path}:{number}: passed over, no such device: {command}")
            return
        self.n_run += 1
        exported = re.match(r"export ([A-Z_]+)=", command)
        if exported:
            name = exported.group(1)
            before = self.environment.get(name, "")
            self.environment[name] = self.shell(f"{command}; printf %s \"${name}\"").stdout
            if name == "TESSERA_BACKEND_PATH":  # the built ones stand for the installed
                self.environment[name] += ":" + before
            return
        done = self.shell(command)
        printed = done.stdout.rstrip("\n").split("\n") if done.stdout.strip() else []
        is_compared = bool(expected) and "output not compared" not in comments
        code = next((int(c.split()[-1]) for c in comments if c.startswith("exit code ")), 0)
        if done.returncode != code:
            self.failures.append(f"{self.path}:{number}: exit code {done.returncode}: {command}\n{done.stdout}")
        elif is_compared and not matches(expected, printed, "numbers vary" in comments):
            self.failures.append(f"{self.path}:{number}: {command}\nprints\n" + "\n".join(printed[:40]) +
                                 "\nand the page says\n" + "\n".join(expected))

    def follow(self):
        with open(os.path.join(ROOT, self.path), encoding="utf-8") as file:
            lines = file.read().split("\n")
        for number, comments, block in blocks(lines):
            names = [c[len("file "):] for c in comments if c.startswith("file ")]
            if names and any(line.startswith("$ ") for line in block):
                self.failures.append(f"{self.path}:{number}: {names[0]} has commands in it: no text stands between")
            for name in names:
                with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                    file.write("\n".join(block) + "\n")
            if not names and not any(line.startswith("$ ") for line in block):
                self.failures += [f"{self.path}:{number}: a command without '$ ': {line}"
                                  for line in block if is_program(line)]
            if names or any(c.startswith("not,") for c in comments):
                continue
            for first in (c[len("first "):] for c in comments if c.startswith("first ")):
                self.run(number, [], first, [])
            for command, expected in commands(block):
                self.run(number, comments, command, expected)
        shutil.rmtree(self.folder)


# A page, and how many faults are in it.
FAULTS = [
    ("<!-- run: file x -->\n\n    one\n\n    $ cat x\n    one\n", 1),
    ("    $ echo a\n    a\n", 0),
    ("    $ echo a\n    b\n", 1),
    ("    $ false\n", 1),
    ("<!-- run: exit code 1 -->\n\n    $ false\n", 0),
    ("<!-- run: exit code 1 -->\n\n    $ true\n", 1),
    ("    $ echo a b\n    a ...\n", 0),
    ("    $ echo a; echo b\n    a\n", 1),
    ("    $ echo a; echo b\n    ...\n    b\n", 0),
    ("    $ true\n    a\n", 1),
    ("<!-- run: numbers vary -->\n\n    $ echo a 1.5e-3\n    a 22\n", 0),
    ("    $ echo 1\n    2\n", 1),
    ("<!-- run: numbers vary -->\n\n    $ echo a 1\n    b 1\n", 1),
    ("<!-- run: not, x -->\n\n    $ false\n", 0),
    ("<!-- run: file x -->\n\n    one\n\nIt:\n\n    $ cat x\n    one\n", 0),
    ("    $ cat y\n    one\n    $ wc -l < y\n    1\n", 0),
    ('<!-- run: replace "a" "b" -->\n\n    $ echo a\n    b\n', 0),
    ("    $ echo a \\\n        b\n    a b\n", 0),
    ("<!-- run: first echo 1 > z -->\n\n    $ cat z\n    2\n", 1),
    ("    $ tessera devices --nothing\n", 1),
    ("    tessera devices\n", 1),
    ("    TESSERA_LOG=info tools/check\n", 1),
    ("    $ export X=a\n    $ echo $X\n    b\n", 1),
    ("    a tessera, and tools/check\n", 0),
]


def test_faults():
    wrong = 0
    for text, expected in FAULTS:
        with tempfile.NamedTemporaryFile("w", suffix=".md", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            page = Page(file.name)
            page.follow()
        if len(page.failures) != expected:
            print(f"FAILED: {len(page.failures)} faults, not {expected}, in\n{text}")
            wrong += 1
    print(f"{len(FAULTS)} pages, {wrong} wrong")
    return wrong


def main():
    if sys.argv[1:] == ["--faults"]:
        return 1 if test_faults() else 0
    failed = 0
    for path in sys.argv[1:]:
        page = Page(path)
        page.follow()
        for failure in page.failures:
            print("FAILED:", failure)
        failed += len(page.failures)
        print(f"{path}: {page.n_run} commands, {page.n_passed_over} passed over, {len(page.failures)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
