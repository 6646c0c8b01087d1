#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts what a wheel has of the library into a folder:

    libtessera.so.0
    bin/tessera                         the program, for the cases of a check
    tessera/libtessera-backend-*.so     where the library looks for them
    private/*.so*                       the libraries that it needs and that not every machine has
    private/licences/*                  theirs, as Debian has them
    LICENSE                             the library's
    pages/*                             the parts of the page of attention

usage: native.py --root TREE --build BUILD --output FOLDER --version VERSION

Without a BUILD, the library is built in the tree's folder build-wheel, which the next wheel finds as it is."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

BACKENDS = ("cpu", "reference", "vulkan")
# What every machine with glibc and a C++ program has. A driver brings its own libvulkan.
EVERYWHERE = re.compile(
    r"(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|z|stdc\+\+|gcc_s|vulkan))\.so"
)
PAGES = ("page.css", "attention.css", "attention.html")


def build(root, folder, version):
    """Builds the library, its backends with all instruction levels, and the program without its components."""
    if not (folder / "build.ninja").exists():
        options = ["-Dtests=false", "-Dpng=disabled", "-Ddocuments=disabled", "-Dserve=disabled", "-Dmpi=disabled"]
        options += ["-Daudio=disabled", "-Dlibav=disabled", "-Dvulkan=enabled"]
        subprocess.run(["meson", "setup", *options, str(folder), str(root)], check=True)
    targets = [f"core/libtessera.so.{version}", "tools/tessera/tessera"]
    targets += [f"backends/{name}/libtessera-backend-{name}.so" for name in BACKENDS]
    subprocess.run(["ninja", "-C", str(folder), *targets], check=True)


def needed(path):
    """The libraries that a file needs, directly or through others: names and files."""
    lines = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout.splitlines()
    found = {}
    for line in lines:
        match = re.match(r"\s*(\S+) => (\S+)", line)
        if match and not EVERYWHERE.match(match.group(1)):
            if match.group(2) == "not":
                sys.exit(f"{path} needs {match.group(1)}, which is not here")
            found[match.group(1)] = match.group(2)
    return found


def licence(path):
    """The file that says under which licence Debian distributes a library; None on another system."""
    if not shutil.which("dpkg-query"):
        return None
    for name in (path, str(pathlib.Path(path).resolve()), re.sub("^/usr", "", str(pathlib.Path(path).resolve()))):
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return pathlib.Path("/usr/share/doc", found.stdout.split(":")[0], "copyright")
    return None


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def main():
    parser = argparse.ArgumentParser()
    for option in ("root", "build", "output", "version"):
        parser.add_argument(f"--{option}", required=True)
    options = parser.parse_args()
    root, output = pathlib.Path(options.root).resolve(), pathlib.Path(options.output).resolve()
    built = re.search(r"^  version: '([^']*)'", (root / "meson.build").read_text(encoding="utf-8"), re.MULTILINE)
    if not built or built.group(1) != options.version:
        sys.exit(f"the package's version, {options.version}, is not the library's: see python/meson.build")
    folder = pathlib.Path(options.build).resolve() if options.build else root / "build-wheel"
    if not options.build:
        build(root, folder, options.version)
    shutil.rmtree(output, ignore_errors=True)
    library = folder / "core" / "libtessera.so.0"
    backends = [folder / "backends" / name / f"libtessera-backend-{name}.so" for name in BACKENDS]
    copy(library, output / library.name)
    for path in backends:
        copy(path, output / "tessera" / path.name)
    program = folder / "tools" / "tessera" / "tessera"
    copy(program, output / "bin" / program.name)
    (output / "bin" / program.name).chmod(0o755)
    private = {}
    for path in [library, program, *backends]:
        private.update(needed(path))
    for name, path in sorted(private.items()):
        if not name.startswith("libtessera"):
            copy(path, output / "private" / name)
            text = licence(path)
            if text and text.exists():
                copy(text, output / "private" / "licences" / f"{name}.txt")
    copy(root / "LICENSE", output / "LICENSE")
    for name in PAGES:
        copy(root / "tools" / "tessera" / "pages" / name, output / "pages" / name)


if __name__ == "__main__":
    main()
