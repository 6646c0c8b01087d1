# SPDX-License-Identifier: Apache-2.0
"""Trainings: the same numbers and files as `tessera train` with the same recipe. TESSERA names the program."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import types

import numpy as np
import pytest

import tessera
from conftest import DATA, MODEL, ROOT
from tessera.recipe import KEYS

SMALL = dict(d_model=16, heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, batch_tokens=256, device="cpu")
TASK = dict(SMALL, task="reverse", steps=6, log_every=2, validate_every=3, save_every=3, bleu_sentences=8)
PAIRS = dict(
    SMALL,
    source=str(MODEL / "sample.en"),
    target=str(MODEL / "sample.fr"),
    valid_source=str(MODEL / "sample.en"),
    valid_target=str(MODEL / "sample.fr"),
    vocab=str(MODEL),
    steps=4,
    log_every=1,
    validate_every=2,
    save_every=2,
    bleu_sentences=2,
    seed=3,
)
RECIPES = {
    "task": TASK,
    "task, bf16": dict(
        TASK,
        precision="bf16",
        optimizer="adamw",
        weight_decay=0.01,
        schedule="cosine",
        norm_first=True,
        family="nn_transformer",
        position_encoding="relative",
        max_distance=4,
    ),
    "pairs": PAIRS,
    "pairs, nn_transformer": dict(
        PAIRS,
        family="nn_transformer",
        position_encoding="learned",
        activation="gelu",
        init="family",
        statistics=True,
        accumulate=2,
        warmup=3,
        average=0.9,
        save_precision="f32",
    ),
    "from a model": dict(
        {name: value for name, value in PAIRS.items() if name not in SMALL or name in ("device", "batch_tokens")},
        init=str(MODEL),
        rate=1e-4,
        steps=2,
    ),
}


def program(recipe, out):
    """Trains with `tessera train`."""
    texts = {name: str(value).lower() if value is True else value for name, value in recipe.items()}
    options = [f"--{name.replace('_', '-')}={text}" for name, text in texts.items()]
    subprocess.run([os.environ["TESSERA"], "train", *options, f"--out={out}"], check=True, capture_output=True)


def log_of(out):
    """The log without what depends on the clock."""
    rows = [json.loads(line) for line in (out / "train" / "log.jsonl").read_text().splitlines()]
    return [{name: x for name, x in row.items() if name not in ("seconds", "tokens_per_second")} for row in rows]


def compare(found, expected):
    assert log_of(found) == log_of(expected) and len(log_of(found)) > 2
    names = {path.name for path in expected.iterdir()}
    assert {path.name for path in found.iterdir()} == names
    for name in names - {"train"}:
        assert (found / name).read_bytes() == (expected / name).read_bytes(), name
    recipes = [(folder / "train" / "recipe.yaml").read_text(encoding="utf-8") for folder in (found, expected)]
    recipes = [re.sub("^out: .*$", "", text, flags=re.MULTILINE) for text in recipes]
    assert recipes[0] == recipes[1]


def test_speech_as_the_program(tmp_path):
    """From scratch, and from the model that comes of it."""
    sounds = DATA / "goldens" / "speech" / "features"
    said = [("fox", "A fox"), ("count", "One")]
    rows = [f"{sounds / name}.wav\t{text} {i}\n" for i in range(8) for name, text in said]
    (tmp_path / "list.tsv").write_text("".join(rows), encoding="utf-8")
    vocab = [os.environ["TESSERA"], "vocab", "--speech", "--source", tmp_path / "list.tsv", "--out", tmp_path / "vocab"]
    subprocess.run([*vocab, "--size", "280"], check=True, capture_output=True)
    recipe = dict(
        SMALL,
        speech=str(tmp_path / "list.tsv"),
        valid_source=str(tmp_path / "list.tsv"),
        vocab=str(tmp_path / "vocab"),
        mels=20,
        source_positions=200,
        max_positions=32,
        whole_windows=0.5,
        timestamps=0.5,
        time_masks=1,
        mel_masks=1,
        steps=4,
        log_every=1,
        validate_every=2,
        save_every=2,
        bleu_sentences=2,
        seed=3,
    )
    del recipe["batch_tokens"]
    form = ("d_model", "heads", "d_ff", "encoder_layers", "decoder_layers", "mels", "source_positions", "max_positions")
    again = {name: value for name, value in recipe.items() if name not in form + ("vocab",)}
    for name, one in [("new", recipe), ("again", dict(again, init=str(tmp_path / "new-expected")))]:
        program(one, tmp_path / f"{name}-expected")
        tessera.Trainer(**one, out=tmp_path / f"{name}-found").run()
        compare(tmp_path / f"{name}-found", tmp_path / f"{name}-expected")
    with tessera.Transcriber(tmp_path / "again-found", "cpu") as transcriber:
        assert transcriber.transcribe(sounds / "fox.wav", timestamps=False, temperatures=[0]).segments
    for wrong in [dict(PAIRS, init=str(tmp_path / "new-found")), dict(again, init=str(MODEL))]:
        keys = {name: value for name, value in wrong.items() if name not in form}
        with pytest.raises(tessera.InvalidArgumentError, match="it is trained on"):
            tessera.Trainer(**keys, out=tmp_path / "wrong").run()


@pytest.mark.parametrize("name", RECIPES)
def test_as_the_program(name, tmp_path):
    recipe = RECIPES[name]
    program(recipe, tmp_path / "expected")
    steps, validations = [], []
    trainer = tessera.Trainer(**recipe, out=tmp_path / "found")
    result = trainer.run(step=steps.append, validation=validations.append)
    compare(tmp_path / "found", tmp_path / "expected")
    assert result.reason == "steps" and result.step == recipe["steps"] == len(steps)
    assert [step.step for step in steps] == list(range(1, len(steps) + 1))
    assert validations and result.validation is not None
    assert result.validation.loss in [found.loss for found in validations if found.is_best]
    if "task" not in recipe:
        with tessera.Translator(tmp_path / "found", "cpu") as translator:
            assert translator.translate("Hello.", max_length=4).hypotheses


def test_recipe_is_the_programs():
    """Keys, defaults, choices, ranges: those of `tessera train`; what may change: as its source has it."""
    printed = subprocess.run([os.environ["TESSERA"], "help", "--json"], check=True, capture_output=True).stdout
    (train,) = [command for command in json.loads(printed)["commands"] if command["name"] == "train"]
    options = {o["name"].replace("-", "_"): o for o in train["options"] if "default" in o}
    assert list(options) == list(KEYS) == list(tessera.Recipe.__dataclass_fields__)
    source = (ROOT / "tools" / "tessera" / "train" / "recipe.c").read_text(encoding="utf-8")
    effects = dict(re.findall(r'KEY\(\s*"[\w-]+",\s*(\w+),\s*(?:"\w+"|NULL),\s*\w+,\s*(FREE|FIXED|TOTAL)', source))
    for name, option in options.items():
        key = KEYS[name]
        assert key.parse(option["default"]) == key.default, name
        of_task = re.search(r"\(a task: ([^)]*)\)", option["help"])
        assert (key.parse(of_task.group(1)) if of_task else None) == key.of_task, name
        if "choices" in option:
            assert tuple(choice["name"] for choice in option["choices"]) == key.allowed, name
        elif "low" in option:
            assert (option["low"], option["high"]) == key.allowed, name
        assert effects[name].lower() == key.effect, name


def test_recipe_files(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "# A recipe.\n---\nmodel:\n  d_model: 32 # wide\n  norm_first: yes\ndata:\n"
        "  source: 'it''s'\n  target: \"a \\\"b\\\" \\x41\"\nrate: 1e-3\n"
    )
    recipe = tessera.Recipe.read(path)
    assert (recipe.d_model, recipe.norm_first, recipe.rate) == (32, True, 0.001)
    assert (recipe.source, recipe.target) == ("it's", 'a "b" A')
    odd = tessera.Recipe(source='"\\\n\x7fé', rate=0.1 + 0.2, steps=7)
    path.write_text(odd.to_yaml(), encoding="utf-8")
    again = tessera.Recipe.read(path)
    assert all(again.value(name) == odd.value(name) for name in KEYS)
    for line, message in (
        ("nothing: 1", "there is no key 'nothing'"),
        ("steps: many", "steps: int was expected"),
        ("norm_first: 1", "norm_first: bool was expected"),
        ("steps: [1]", "steps: int was expected"),
        ("- steps", "a key and a value were expected"),
    ):
        path.write_text("rate: 1\n" + line + "\n")
        with pytest.raises(tessera.FormatError, match=re.escape("recipe.yaml:2: " + message)):
            tessera.Recipe.read(path)


def test_stopped_and_resumed(tmp_path):
    """A callback that fails ends the training, which then goes on as if it had not been stopped."""
    program(TASK, tmp_path / "expected")

    def fail(step):
        if step.step == 4:
            raise RuntimeError("enough")

    trainer = tessera.Trainer(**TASK, out=tmp_path / "found")
    with pytest.raises(RuntimeError, match="enough"):
        trainer.run(step=fail)
    assert trainer.curves()["step"][-1] == 4 or log_of(tmp_path / "found")
    with pytest.raises(tessera.TesseraError):
        trainer.run()  # there is one already
    again = tessera.Trainer.of(tmp_path / "found")
    assert again.run(resume=True).step == TASK["steps"]
    assert log_of(tmp_path / "found")[-1] == log_of(tmp_path / "expected")[-1]
    model = "model.safetensors"
    assert (tmp_path / "found" / model).read_bytes() == (tmp_path / "expected" / model).read_bytes()
    with pytest.raises(tessera.InvalidArgumentError, match="d_model 16; 32 would change its numbers"):
        tessera.Trainer.of(tmp_path / "found", d_model=32).run(resume=True)
    assert tessera.Trainer.of(tmp_path / "found", steps=8).run(resume=True).step == 8
    with pytest.raises(tessera.InvalidArgumentError, match="no training to resume"):
        tessera.Trainer(**TASK, out=tmp_path / "nothing").run(resume=True)


def test_interrupt(tmp_path):
    """Control-C saves and stops."""
    code = f"""
import tessera
trainer = tessera.Trainer(task="copy", steps=1000000, out={str(tmp_path / "out")!r}, device="cpu", d_model=16, d_ff=16)
try:
    trainer.run(step=lambda step: print(step.step, flush=True))
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        for _ in range(3):
            assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        try:
            printed = process.communicate(timeout=60)[0].split()
        finally:
            process.kill()
    assert printed[-1] == "stopped" and process.returncode == 0
    steps = []
    with pytest.raises(StopIteration):

        def stop(step):
            steps.append(step.step)
            raise StopIteration

        tessera.Trainer.of(tmp_path / "out").run(resume=True, step=stop)
    assert steps[0] == int(printed[-2]) + 1 if len(printed) > 1 else steps[0] > 3


def test_curves(tmp_path, monkeypatch):
    trainer = tessera.Trainer(**TASK, out=tmp_path / "out")
    trainer.run()
    curves = trainer.curves()
    assert list(curves)[:4] == ["step", "epoch", "seconds", "loss"]
    steps, losses = np.asarray(curves["step"]), np.asarray(curves["loss"])
    assert steps.tolist() == [2, 3, 4, 6, 6] and np.isnan(losses).tolist() == [False, True, False, False, True]
    assert math.isclose(losses[0], log_of(tmp_path / "out")[0]["loss"], rel_tol=1e-6)
    # With pandas, whichever stands for it here, a frame of the same columns.
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda columns: ("frame", columns)))
    kind, columns = trainer.curves()
    assert kind == "frame" and list(columns) == list(curves)


def test_errors(tmp_path):
    out = tmp_path / "out"
    for changes, message in (
        (dict(steps=3), "either source and target, or tsv, or speech, or task"),
        (dict(task="copy"), "one of steps, epochs"),
        (dict(task="copy", steps=3, vocab="x"), "neither vocab"),
        (dict(source="a", target="b", steps=3), "vocab is missing"),
        (dict(task="copy", steps=3, norm_first=True), "norm_first is for nn_transformer"),
        (dict(task="turn", steps=3), "task='turn': one of copy, reverse, sort"),
        (dict(task="copy", steps=-1), "steps=-1: 0 to 1e"),
        (dict(task="copy", steps=True), "steps=True: int was expected"),
    ):
        with pytest.raises(tessera.InvalidArgumentError, match=re.escape(message)):
            tessera.Trainer(**changes, out=out)
    with pytest.raises(TypeError, match="no key 'stepps'"):
        tessera.Trainer(task="copy", stepps=3, out=out)
    with pytest.raises(tessera.InvalidArgumentError, match="out is missing"):
        tessera.Trainer(task="copy", steps=3)
    for changes, error in (
        (dict(family="t5"), tessera.UnsupportedError),
        (dict(heads=3), tessera.InvalidArgumentError),
        (dict(device="nothing"), tessera.NoDeviceError),
        (dict(max_positions=8), tessera.InvalidArgumentError),
    ):
        with pytest.raises(error):
            tessera.Trainer(**{**TASK, **changes}, out=out).run()
    with pytest.raises(tessera.FileError):
        tessera.Trainer(**{**PAIRS, "source": str(tmp_path / "none")}, out=out).run()
    with pytest.raises(tessera.InvalidArgumentError, match="has d_model"):
        tessera.Trainer(**dict(PAIRS, init=str(MODEL), d_model=32), out=out).run()
