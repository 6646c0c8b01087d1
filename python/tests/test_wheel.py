# SPDX-License-Identifier: Apache-2.0
"""The wheel: built, installed where nothing of the tree is, and used. BUILD_ROOT names the build folder."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from conftest import ROOT, lines_of, run_python

USE = """
import sys, tessera
from tessera import ctranslate2
print(tessera.__file__)
with tessera.Translator(sys.argv[1], "cpu") as translator:
    lines = open(sys.argv[1] + "/sample.en", encoding="utf-8").read().splitlines()
    print([str(found) for found in translator.translate(lines)])
    print(translator.attention("Hello.").to_html().count("<canvas"))
print(bool(tessera.check("cpu", ops=["relu"], share=20)))
print([device.name for device in tessera.devices()][:2], tessera.problems())
maps = open("/proc/self/maps").read()
for name in ("libtessera.so.0", "libtessera-backend-cpu.so", "libsentencepiece.so"):
    paths = {line.split()[-1] for line in maps.splitlines() if name in line}
    print(len(paths), all(path.startswith(sys.prefix) for path in paths))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("mesonpy")
    # The sources are copied, for meson-python writes into their folder.
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "python", tree / "python", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    (tree / "tools" / "tessera").mkdir(parents=True)
    shutil.copytree(ROOT / "tools" / "tessera" / "pages", tree / "tools" / "tessera" / "pages")
    for name in ("meson.build", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    setting = f"--config-settings=setup-args=-Dbuild={os.environ['BUILD_ROOT']}"
    subprocess.run([*command, setting, "--wheel-dir", tree / "dist", tree / "python"], check=True)
    (path,) = (tree / "dist").iterdir()
    return path


def versions_needed(wheel, folder):
    """The newest version of glibc that a library or program in the wheel needs, 34 for 2.34, as readelf tells it."""
    newest = 0
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            if data.startswith(b"\x7fELF"):
                (folder / "one").write_bytes(data)
                told = subprocess.run(
                    ["readelf", "--version-info", "--wide", folder / "one"], capture_output=True, text=True, check=True
                )
                newest = max([newest, *(int(number) for number in re.findall(r"Name: GLIBC_2\.(\d+)", told.stdout))])
    return newest


def test_name_and_files(wheel, tmp_path):
    match = re.search(r"-(py3-none-manylinux_2_(\d+)_x86_64)\.whl$", wheel.name)
    assert match, wheel.name
    assert versions_needed(wheel, tmp_path) <= int(match.group(2)) <= int(platform.libc_ver()[1].split(".")[1])
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        sources = {f"tessera/{path.name}" for path in (ROOT / "python" / "tessera").glob("*.py")}
        assert sources | {"tessera/py.typed"} <= names
        assert {f"tessera/lib/tessera/libtessera-backend-{name}.so" for name in ("cpu", "reference", "vulkan")} <= names
        assert "tessera/lib/LICENSE" in names
        private = [name for name in names if name.startswith("tessera/lib/private/lib")]
        licences = {name for name in names if name.startswith("tessera/lib/private/licences/")}
        if pathlib.Path("/etc/debian_version").exists():
            assert licences == {name.replace("private/", "private/licences/") + ".txt" for name in private} != set()
        (metadata,) = [name for name in names if name.endswith("/WHEEL")]
        assert f"Tag: {match.group(1)}\n".encode() in archive.read(metadata)


def test_installed(wheel, tmp_path):
    command = [sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", tmp_path / "venv"]
    subprocess.run(command, check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, wheel], check=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TESSERA", "PYTHON"))}
    model = ROOT / "tools" / "demo-model"
    done = subprocess.run(
        [python, "-c", USE, model], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    path, texts, canvases, is_right, devices, *loaded = done.stdout.splitlines()
    assert path.startswith(str(tmp_path)) and int(canvases) > 0 and is_right == "True"
    assert texts == repr(lines_of(model / "sample.fr"))
    assert devices == "['cpu:0', 'reference:0'] []"
    assert loaded == ["1 True"] * 3


def test_no_archive_of_sources():
    """pip and build say why."""
    pytest.importorskip("mesonpy")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import wheel_backend; wheel_backend.build_sdist('.')"
    done = run_python(code, str(ROOT / "python"))
    assert done.returncode == 1 and "NotImplementedError: the package cannot be built without" in done.stderr
