#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for rattler-build on Linux, for one recipe of conda-forge's: it does what the recipe asks for, and refuses
what it does not know.

usage: conda.py names RECIPE    prints the packages of Debian that stand for its dependencies, see `names`
       conda.py build RECIPE    unpacks what the recipe names, builds, installs and tests each output"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

NAMES = pathlib.Path(__file__).parent / "names"
# A header that Debian has stands for an archive that only the network has.
REMOTE = {"volk": ("/usr/include/volk.h", "/usr/include/volk.c")}
KNOWN = {
    "": {"schema_version", "context", "recipe", "source", "build", "outputs", "about"},
    "recipe": {"name", "version"},
    "source": {"url", "sha256", "target_directory"},
    "build": {"number", "skip"},
    "output": {"package", "build", "requirements", "tests"},
    "output's build": {"script", "noarch"},
    "requirements": {"build", "host", "run"},
    "test": {"package_contents", "python", "script", "files", "requirements"},
    "package_contents": {"bin", "include", "lib", "files"},
    "about": {"homepage", "license", "license_file", "summary"},
}


def known(where, section):
    unknown = set(section) - KNOWN[where]
    if unknown:
        sys.exit(f"{where or 'recipe'}: what is {', '.join(sorted(unknown))}?")
    return section


def rendered(value, context):
    """A value with its ${{ expressions }} replaced: a variable of the context, or what a function is asked for."""
    if isinstance(value, dict):
        return {key: rendered(one, context) for key, one in value.items()}
    if isinstance(value, list):
        return [rendered(one, context) for one in value]
    if not isinstance(value, str):
        return value

    def replace(found):
        expression = found.group(1).strip()
        function = re.fullmatch(r"(compiler|stdlib)\('(c|cxx)'\)", expression)
        if function:
            return "stdlib" if function.group(1) == "stdlib" else function.group(2)
        if expression not in context:
            sys.exit(f"what is {expression}?")
        return str(context[expression])

    return re.sub(r"\$\{\{(.*?)\}\}", replace, value)


def read(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    recipe = known("", yaml.safe_load(text))
    recipe = rendered(recipe, recipe["context"])
    for where in ("recipe", "build", "about"):
        known(where, recipe[where])
    for source in recipe["source"]:
        known("source", source)
    for output in recipe["outputs"]:
        known("output", output)
        known("output's build", output["build"])
        known("requirements", output["requirements"])
        for test in output["tests"]:
            known("test", test)
    return recipe


def packages(recipe):
    table = [line.split() for line in NAMES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    debian = {conda: name for name, _, conda in table if conda != "-"}
    outputs = {output["package"]["name"] for output in recipe["outputs"]}
    found = {"libvulkan-volk-dev"}
    for output in recipe["outputs"]:
        asked = [one for part in output["requirements"].values() for one in part]
        asked += [one for test in output["tests"] for one in test.get("requirements", {}).get("run", [])]
        for name in (one.split()[0] for one in asked):
            if name not in outputs and not name.startswith("__"):
                if name not in debian:
                    sys.exit(f"{name} is not in names")
                found.add(debian[name])
    return sorted(found)


def fetch(sources, folder):
    for source in sources:
        into = folder / source.get("target_directory", "")
        into.mkdir(exist_ok=True)
        if not source["url"].startswith("file://"):
            for path in REMOTE[source["target_directory"]]:
                shutil.move(path, into) # so that nothing finds it anywhere else
            continue
        archive = pathlib.Path(source["url"][len("file://"):])
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != source["sha256"]:
            sys.exit(f"sha256 of {archive} is {digest}")
        subprocess.run(["tar", "-xf", archive, "-C", into, "--strip-components=1"], check=True)


def run(script, folder, environment):
    lines = "\n".join(script)
    print(lines, flush=True)
    subprocess.run(["bash", "-euxo", "pipefail", "-c", lines], cwd=folder, env=environment, check=True)


def test_contents(contents, prefix):
    known("package_contents", contents)
    wanted = [f"bin/{name}" for name in contents.get("bin", [])]
    wanted += [f"include/{name}" for name in contents.get("include", [])]
    wanted += [f"lib/lib{name}.so" for name in contents.get("lib", [])] + contents.get("files", [])
    missing = [name for name in wanted if not (prefix / name).exists()]
    if missing:
        sys.exit(f"the package has no {', '.join(missing)}")


def run_tests(output, source, environment):
    for test in output["tests"]:
        if "package_contents" in test:
            test_contents(test["package_contents"], pathlib.Path(environment["PREFIX"]))
        for module in test.get("python", {}).get("imports", []):
            subprocess.run(["python3", "-c", f"import {module}"], cwd="/", env=environment, check=True)
        if "script" in test:
            with tempfile.TemporaryDirectory() as folder:
                for name in test.get("files", {}).get("source", []):
                    path = pathlib.Path(folder) / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    copy = shutil.copytree if (source / name).is_dir() else shutil.copy
                    copy(source / name, path)
                run(test["script"], folder, environment)


def build(recipe):
    # An environment's folders: programs find its libraries by a path in themselves.
    prefix = pathlib.Path("/opt/conda")
    packages_folder = prefix / "lib/python3/site-packages"
    links = prefix / "python"
    links.mkdir(parents=True)
    (links / "python").symlink_to("/usr/bin/python3")
    environment = {
        "PATH": f"{prefix}/bin:{links}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "CC": "cc",
        "CXX": "c++", "PREFIX": str(prefix), "SP_DIR": str(packages_folder), "CFLAGS": "-O2",
    }
    tested = {
        **environment, "LD_LIBRARY_PATH": f"{prefix}/lib", "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig",
        "PYTHONPATH": str(packages_folder),
    }
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder)
        fetch(recipe["source"], source)
        if not (source / recipe["about"]["license_file"]).exists():
            sys.exit(f"there is no {recipe['about']['license_file']}")
        environment["SRC_DIR"] = folder
        for output in recipe["outputs"]:
            run(output["build"]["script"], source, environment)
            run_tests(output, source, tested)


def main():
    action, path = sys.argv[1:]
    recipe = read(path)
    if action == "names":
        print("\n".join(packages(recipe)))
    else:
        build(recipe)
        print("conda-forge's recipe: built, installed and tested")


if __name__ == "__main__":
    main()
