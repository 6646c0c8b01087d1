# SPDX-License-Identifier: Apache-2.0
"""mypy --strict passes on the package and its examples."""

import shutil
import subprocess

import pytest

from conftest import ROOT


def test_types(tmp_path):
    mypy = shutil.which("mypy")
    if not mypy:
        pytest.skip("mypy is not installed")
    command = [mypy, "--strict", "--cache-dir", tmp_path, "tessera", "examples"]
    done = subprocess.run(command, cwd=ROOT / "python", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
