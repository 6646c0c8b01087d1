# SPDX-License-Identifier: Apache-2.0
"""Signals, forks, and the end of Python: each in a process of its own."""

import _thread
import os
import signal
import subprocess
import sys
import threading

import pytest

from conftest import DATA, MODEL, ROOT, run_python
from tessera import _native
from tessera._lifetime import Closable
from tessera._native import on_other_thread

BEGIN = """
import os, sys, tessera
model, texts = sys.argv[1], open(sys.argv[2], encoding="utf-8").read().splitlines()
"""
ARGUMENTS = (str(MODEL), str(DATA / "tatoeba" / "test.en"))

INTERRUPTED = BEGIN + """
import threading, time
def forever():
    while True:
        yield from texts
translator = tessera.Translator(model, "cpu")
work = {
    "queue": lambda: translator.translate(texts[:240], beam=16, min_length=200, max_length=256),
    "together": lambda: translator.translate(texts[:300], beam=16, min_length=200, max_length=256),
    "iterator": lambda: [None for _ in translator.translate_iter(forever())],
    "stream": lambda: [None for _ in range(1000) for _ in translator.stream(" ".join(texts[:99]), long_input="split")],
    "score": lambda: [translator.score(texts, texts) for _ in range(1000)],
}[sys.argv[3]]
def tell():
    while not (translator._stops or tessera.translator._jobs or translator._n_calls):
        time.sleep(0.001)
    time.sleep(0.05)
    print("begins", flush=True)
threading.Thread(target=tell).start()
try:
    work()
except KeyboardInterrupt:
    print("stopped", translator.translate(texts[0]), flush=True)
"""


@pytest.mark.parametrize("what", ["queue", "together", "iterator", "stream", "score"])
def test_interrupt(what):
    """Control-C stops what runs, which would take minutes, and the translator goes on."""
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *ARGUMENTS, what], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "begins\n"
        process.send_signal(signal.SIGINT)
        try:
            rest, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    assert rest.startswith("stopped C'est vraiment bas."), rest
    assert process.returncode == 0


def test_interrupt_unheard():
    """One that comes just before the main thread waits does not wake it."""
    stopped, outcome = threading.Event(), []

    def work():
        threading.Timer(0.1, _thread.interrupt_main).start()  # marks it, and wakes nobody
        outcome.append(stopped.wait(60))
        return 0

    with pytest.raises(KeyboardInterrupt):
        on_other_thread(work, stopped.set)
    assert outcome == [True]


def test_interrupt_at_the_beginning(monkeypatch):
    """One that comes as the thread is made: what it would have done is not begun."""
    start, begun = _thread.start_new_thread, []

    def start_and_fail(function, arguments):
        start(function, arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(_thread, "start_new_thread", start_and_fail)
    with pytest.raises(KeyboardInterrupt):
        on_other_thread(lambda: begun.append(1) or 0, lambda: None)
    monkeypatch.undo()
    assert not begun


CLOSING = BEGIN + """
import threading, time
class Library:
    def __getattr__(self, name):
        return getattr(lib, name)
    def tsr_runtime_destroy(self, runtime):
        print("the runtime ends", flush=True)
        lib.tsr_runtime_destroy(runtime)
lib, tessera._native.lib = tessera._native.lib, Library()
translator = tessera.Translator(model, "cpu")
free, begun = translator._free, threading.Event()
def free_slowly():
    begun.set()
    time.sleep(1)
    free()
    print("freed", flush=True)
translator._free = free_slowly
threading.Thread(target=translator.close, daemon=True).start()
begun.wait()
"""


def test_end_while_another_thread_closes():
    """What a thread is about to free needs the runtime, whatever kind of thread it is."""
    found = run_python(CLOSING, *ARGUMENTS, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (0, "freed\nthe runtime ends\n", "")


UNBEGUN = BEGIN + """
import gc, threading
from tessera import _lifetime
def refuse(thread):
    raise RuntimeError("can't start new thread")
held = [tessera.Translator(model, "cpu")]
held.append(held)  # so that the collector alone finds it
threading.Thread.start = refuse
with _lifetime.BeingCalled():
    del held
    gc.collect()
print(len(tessera._native._process.left), tessera._native._process.n_open)
"""


def test_end_without_threads():
    """What no thread could be begun for is closed when Python ends: it would wait for ever otherwise."""
    found = run_python(UNBEGUN, *ARGUMENTS, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (0, "1 1\n", "")


def test_interrupted_close(monkeypatch):
    """It can be closed again, as Python's end does."""
    closed = []

    class Thing(Closable):
        def _free(self):
            closed.append(1)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_native, "is_usable", lambda: True)
    thing = Thing()
    thing._n_calls = 1
    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr(thing._lock, "wait", interrupt)
        thing.close()
    thing._n_calls = 0
    thing.close()
    thing.close()
    assert closed == [1]


FORKED = BEGIN + """
if sys.argv[3] == "used":
    translator = tessera.Translator(model, "cpu")
    translator.translate(texts[0])
pid = os.fork()
if pid == 0:
    try:
        if sys.argv[3] == "used":
            for work in (lambda: translator.translate("a"), tessera.devices, lambda: tessera.Translator(model)):
                try:
                    work()
                except tessera.ForkError as error:
                    assert "spawn" in str(error)
                else:
                    os._exit(3)
        else:
            with tessera.Translator(model, "cpu") as translator:
                assert translator.translate(texts[0]).text
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(4)
    sys.exit(0)  # the end of Python, too
_, status = os.waitpid(pid, 0)
assert status == 0, status
with tessera.Translator(model, "cpu") as other:
    print(other.translate(texts[0]))
"""


@pytest.mark.parametrize("what", ["used", "unused"])
def test_fork(what):
    """A child of a process that used the library is refused; one that uses it alone is not."""
    done = run_python(FORKED, *ARGUMENTS, what, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "C'est vraiment bas."


def test_end_of_python():
    """Python ends with texts on their way and translators that nobody closed."""
    done = run_python(
        BEGIN
        + """
import threading
from tessera import ctranslate2
translator = tessera.Translator(model, "cpu")
other = ctranslate2.Translator(model)
stream = translator.stream(" ".join(texts[:99]), long_input="split")
print(next(stream) != "")
threading.Thread(target=lambda: translator.translate(texts * 20, beam=16), daemon=True).start()
""",
        *ARGUMENTS,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"


def test_library_not_found():
    done = run_python("import tessera", env={**os.environ, "TESSERA_LIBRARY": "/nowhere/libtessera.so"})
    assert done.returncode != 0
    assert "TESSERA_LIBRARY names it" in done.stderr and "/nowhere" in done.stderr


def test_backend_path():
    """The user's folders come first."""
    folder = os.path.join(os.path.dirname(os.environ["TESSERA_LIBRARY"]), "..", "backends", "reference")
    done = run_python(
        "import tessera; print([d.name for d in tessera.devices()])",
        env={**os.environ, "TESSERA_BACKEND_PATH": folder},
    )
    assert done.stdout == "['reference:0']\n", done.stderr


def example(name, *arguments):
    command = [sys.executable, ROOT / "python" / "examples" / f"{name}.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_examples(tmp_path, english, greedy):
    """They run, and print translations."""
    (tmp_path / "in").write_text("\n".join(english[:3]) + "\n", encoding="utf-8")
    assert example("translate_file", MODEL, tmp_path / "in", tmp_path / "out") == []
    assert len((tmp_path / "out").read_text(encoding="utf-8").splitlines()) == 3
    assert [line.split(" ", 1)[1] for line in example("many_at_once", MODEL, english[0])] == [greedy[0]]
    folder = DATA / "ctranslate2" / "marian-en-fr-int8"
    lines = example("ctranslate2_tokens", folder, "\u2581He", "\u2581was", "\u2581late", ".", "</s>")
    assert len(lines) == 2 and lines[0].endswith("\u2581Il \u2581était \u2581en \u2581retard .")
