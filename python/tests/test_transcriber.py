# SPDX-License-Identifier: Apache-2.0
"""What is said in sounds: as `tessera transcribe` writes it. TESSERA names the program."""

import json
import math
import os
import subprocess
import wave

import numpy as np
import pytest

import tessera
from conftest import DATA

SPEECH = DATA / "goldens" / "speech"
MODEL = SPEECH / "models" / "whisper_tiny_random"
SOUNDS = [SPEECH / "features" / f"{name}.wav" for name in ("fox", "long31", "count")]


@pytest.fixture(scope="module")
def transcriber():
    with tessera.Transcriber(MODEL, "cpu") as opened:
        yield opened


def program(sound, *options):
    """The JSON that `tessera transcribe` writes."""
    command = [os.environ["TESSERA"], "transcribe", "--model", MODEL, "--device", "cpu", "--output", "json"]
    made = subprocess.run([*command, *options, sound], check=True, capture_output=True, text=True)
    return json.loads(made.stdout)


def compare(transcript, expected):
    assert transcript.language == expected["language"]
    assert len(transcript.segments) == len(expected["segments"]) > 0
    for segment, wanted in zip(transcript.segments, expected["segments"]):
        assert segment.text == wanted["text"] and list(segment.ids) == wanted["tokens"]
        assert segment.start == pytest.approx(wanted["start"]) and segment.end == pytest.approx(wanted["end"])
        assert segment.temperature == pytest.approx(wanted["temperature"])
        assert segment.average_log_probability == pytest.approx(wanted["avg_logprob"], abs=1e-5)
        assert segment.compression_ratio == pytest.approx(wanted["compression_ratio"], rel=1e-5)
        words = wanted.get("words", [])
        assert [word.text for word in segment.words] == [word["word"] for word in words]
        assert [word.start for word in segment.words] == pytest.approx([word["start"] for word in words])


@pytest.mark.parametrize(
    "wishes, options",
    [
        ({}, []),
        ({"words": True, "language": "fr"}, ["--words", "--language", "fr"]),
        ({"task": "translate", "language": "German", "beam": 3, "temperatures": [0.0]},
         ["--task", "translate", "--language", "German", "--beam", "3", "--temperature", "0"]),
        ({"timestamps": False, "temperatures": [0.4], "seed": 7, "prompt": "Foxes", "condition_on_previous": False},
         ["--no-timestamps", "--temperature", "0.4", "--seed", "7", "--prompt", "Foxes", "--forget"]),
    ],
)  # fmt: skip
def test_as_the_program(transcriber, wishes, options):
    for transcript, sound in zip(transcriber.transcribe(SOUNDS, **wishes), SOUNDS):
        compare(transcript, program(sound, *options))


def test_sounds(transcriber):
    """A file, its bytes and its samples are one sound; so is what is heard of it alone and in company."""
    with wave.open(str(SOUNDS[0])) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2") / np.float32(32768)
    found = transcriber.transcribe([str(SOUNDS[0]), SOUNDS[0].read_bytes(), samples.astype(np.float32), samples[::1]])
    alone = transcriber.transcribe(SOUNDS[0])
    assert all(one.segments == alone.segments for one in found)
    assert str(alone) == alone.text == "".join(segment.text for segment in alone.segments).strip() != ""
    assert alone.duration == pytest.approx(len(samples) / 16000, abs=0.01)
    assert 0 < alone.language_probability <= 1
    assert math.isnan(transcriber.transcribe(SOUNDS[0], language="en").language_probability)
    assert transcriber.transcribe([]) == []
    assert "en" in transcriber.languages


def test_segments(transcriber):
    told = []
    found = transcriber.transcribe(SOUNDS, segment=lambda number, segment: told.append((number, segment)))
    for i, transcript in enumerate(found):
        assert tuple(segment for number, segment in told if number == i) == transcript.segments

    def refuse(number, segment):
        raise KeyError(segment.text)

    with pytest.raises(KeyError):
        transcriber.transcribe(SOUNDS, segment=refuse)
    assert transcriber.transcribe(SOUNDS[0]).segments == found[0].segments


def test_refusals(transcriber, tmp_path):
    for wishes, message in [
        ({"task": "sing"}, "task='sing'"),
        ({"temperatures": []}, "0 temperatures"),
        ({"temperatures": [-1.0]}, "temperature"),
        ({"language": "Klingon"}, "Klingon"),
        ({"best_of": 0}, "best_of"),
    ]:
        with pytest.raises(tessera.InvalidArgumentError, match=message):
            transcriber.transcribe(SOUNDS[0], **wishes)
    with pytest.raises(tessera.InvalidArgumentError, match=r"shape \(2, 5\)"):
        transcriber.transcribe(np.zeros((2, 5), np.float32))
    with pytest.raises(tessera.FormatError):
        transcriber.transcribe(np.full(16000, np.nan, np.float32))
    with pytest.raises(tessera.FileError, match="sound 1: .*none.wav"):
        transcriber.transcribe([SOUNDS[0], tmp_path / "none.wav"])
    with pytest.raises(tessera.TesseraError):
        transcriber.transcribe(SOUNDS[0].read_bytes()[:2000])
    with pytest.raises(tessera.UnsupportedError, match="text"):
        tessera.Transcriber(DATA / "marian-en-fr", "cpu")
    closed = tessera.Transcriber(MODEL, "cpu", "int8")
    assert closed.transcribe(SOUNDS[2]).duration > 0
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        closed.transcribe(SOUNDS[0])
    assert "closed" in repr(closed)


def test_word_errors():
    found = tessera.word_errors(["a cat sat here", "yes"], ["the cat sat", "yes"])
    assert (found.substitutions, found.deletions, found.insertions, found.reference_words) == (1, 0, 1, 4)
    assert found.score == pytest.approx(50) and "version:tessera" in found.signature
    assert tessera.word_errors(["The CAT."], ["the cat"]).score == pytest.approx(100)
    assert tessera.word_errors(["The CAT."], ["the cat"], "basic").score == 0
    assert tessera.word_errors(["It's colour"], ["it is color"], "english",
                               spellings=SPEECH / "tokenizer" / "normalizer.json").score == 0  # fmt: skip
    assert tessera.word_errors(["cafe"], ["caf\u00e9s"], "basic", letters=True, remove_diacritics=True).score == 20
    assert math.isnan(tessera.word_errors([], []).score)
    assert tessera.word_errors(["b"], [["a", "b"]]).score == 0
    with pytest.raises(tessera.InvalidArgumentError, match="there are basic, english"):
        tessera.word_errors(["a"], ["a"], "plain")
    with pytest.raises(tessera.InvalidArgumentError, match="belong to a normalizer"):
        tessera.word_errors(["a"], ["a"], letters=True)
    with pytest.raises(tessera.InvalidArgumentError, match="as many references"):
        tessera.word_errors(["a"], [])
