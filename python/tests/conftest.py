# SPDX-License-Identifier: Apache-2.0
"""What the tests share. SOURCE_ROOT names the tree; they run on the CPU."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("SOURCE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
DATA = ROOT / "tests" / "data"
MODEL = DATA / "marian-en-fr"


def lines_of(path, n=None):
    return path.read_text(encoding="utf-8").splitlines()[:n]


def run_python(code, *arguments, **options):
    """Runs a program in a Python of its own."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="session")
def english():
    return lines_of(DATA / "tatoeba" / "test.en")


@pytest.fixture(scope="session")
def greedy():
    """The translations that are recorded of the original."""
    return lines_of(MODEL / "recorded" / "test.beam1.fr")


@pytest.fixture(scope="session")
def beams():
    return lines_of(MODEL / "recorded" / "test.beam4.fr")


@pytest.fixture(scope="session")
def translator():
    import tessera

    with tessera.Translator(MODEL, "cpu") as opened:
        yield opened
