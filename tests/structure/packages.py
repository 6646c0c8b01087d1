#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds debian/ to the build: each file that meson installs is in exactly one package, and what a package names exists,
there or in the tree.

Usage: packages.py BUILD [DEBIAN]. Prints a line for each violation; exit code 1 if there is one."""
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def installed(build):
    """Paths below the prefix as Debian has it."""
    done = subprocess.run(["meson", "introspect", "--installed", "--buildoptions", build], check=True,
                          capture_output=True, text=True)
    all_of_it = json.loads(done.stdout)
    options = {option["name"]: option["value"] for option in all_of_it["buildoptions"]}
    paths = {os.path.relpath(path, options["prefix"]) for path in all_of_it["installed"].values()}
    library = options["libdir"]
    paths = {re.sub(f"^{re.escape(library)}/", "lib/TRIPLET/", path) for path in paths}
    # Of the library meson lists the file; its other names are links. The transport over MPI is left out (debian/rules):
    # it belongs to the MPI of the cluster.
    return {path for path in paths if not re.search(r"libtessera\.so(\.\d+)?$|libtessera-comm-mpi\.so$", path)}


def packages(debian):
    text = (debian / "control").read_text()
    return re.findall(r"^Package: (\S+)$", text, re.MULTILINE)


def patterns(debian, package):
    """What debian/PACKAGE.install and the unit take, without the prefix."""
    file = debian / f"{package}.install"
    lines = file.read_text().splitlines() if file.is_file() else []
    found = [line.split()[0] for line in lines if line.strip()]
    if package == "tessera-serve":
        found.append("usr/lib/systemd/system/tessera-serve.service")
    return found


def main():
    debian = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "debian"
    paths = installed(sys.argv[1])
    takes = {path: [] for path in paths}
    wrong = []
    for package in packages(debian):
        for pattern in patterns(debian, package):
            if pattern.startswith("debian/"):
                if not (debian / pattern[len("debian/"):]).is_file():
                    wrong.append(f"{package}: there is no {pattern}")
                continue
            if pattern.startswith("build-docs/"):
                continue  # made by debian/rules
            if not pattern.startswith("usr/"):
                if not any(ROOT.glob(pattern)):
                    wrong.append(f"{package}: nothing in the tree fits {pattern}")
                continue
            short = pattern[len("usr/"):]
            of_it = [path for path in paths if fnmatch.fnmatch(path, short) or fnmatch.fnmatch(path, short + "/*")]
            if not of_it and not short.endswith("libtessera.so"):
                wrong.append(f"{package}: nothing that is installed fits {pattern}")
            for path in of_it:
                takes[path].append(package)
    for path, names in sorted(takes.items()):
        if len(names) != 1:
            wrong.append(f"{path} is in {' and '.join(names) if names else 'no package'}")
    for file in debian.glob("*.install"):
        if file.stem not in packages(debian):
            wrong.append(f"{file.name}: there is no package of this name")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
