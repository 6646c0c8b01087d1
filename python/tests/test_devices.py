# SPDX-License-Identifier: Apache-2.0
"""Devices, and scores of corpora."""

import os
import pathlib

import pytest

import tessera
from conftest import DATA, lines_of


def test_devices():
    found = {device.name: device for device in tessera.devices()}
    assert found["cpu:0"].type == "CPU" and found["cpu:0"].model
    assert found["reference:0"].type == "reference"
    assert "template:0" not in found
    assert all(isinstance(problem, str) for problem in tessera.problems())


def test_evaluate(beams):
    """The scores that `tessera eval` prints of the same files."""
    found = tessera.evaluate(beams, lines_of(DATA / "tatoeba" / "test.fr"))
    assert found.bleu.score == pytest.approx(43.73, abs=0.01)
    assert found.chrf.score == pytest.approx(60.30, abs=0.01)
    assert found.bleu.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert found.bleu.hypothesis_length == 6067 and found.bleu.precisions[0] > found.bleu.precisions[3]


def test_evaluate_references():
    one = tessera.evaluate(["the cat sat on the mat"], ["a cat sat on a mat"])
    two = tessera.evaluate(["the cat sat on the mat"], [["a cat sat on a mat", "the cat sat on the mat"]])
    assert two.bleu.score == pytest.approx(100) and one.bleu.score < 100
    assert "nrefs:2" in two.bleu.signature
    with pytest.raises(tessera.InvalidArgumentError):
        tessera.evaluate(["a"], ["a", "b"])
    assert tessera.evaluate([], []).bleu.score == 0


def test_check():
    found = tessera.check("cpu", ops=["softmax", "relu"], share=20)
    assert found and found.failed == found.unsupported == 0 and found.failures == ()
    assert 0 < tessera.check("cpu", ops=["relu"], share=20).cases < found.cases


def test_check_finds(monkeypatch):
    """A device that computes wrongly, and one that lacks operators."""
    build = pathlib.Path(os.environ["BUILD_ROOT"])
    folders = [build / "tests" / "cli", build / "backends" / "reference", build / "backends" / "template"]
    monkeypatch.setenv("TESSERA_BACKEND_PATH", ":".join(str(folder) for folder in folders))
    monkeypatch.setenv("FAULTY_LINE", "")
    found = tessera.check("faulty", ops=["matmul"], share=1000)
    assert not found and found.failed == len(found.failures) > 0
    assert found.failures[0].device == "faulty:0" and found.failures[0].name.startswith("matmul")
    lacking = tessera.check("template", ops=["softmax"], share=20)
    assert lacking and lacking.unsupported == len(lacking.not_supported) > 0
    with pytest.raises(tessera.NoDeviceError, match="nothing"):
        tessera.check("nothing")
    with pytest.raises(tessera.InvalidArgumentError, match="share"):
        tessera.check("cpu", share=0)
