# SPDX-License-Identifier: Apache-2.0
"""The library: found, loaded, and called."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import pathlib
import threading
import weakref
from typing import Any, Callable, List, Optional

from ._declarations import ffi as ffi
from .errors import BY_STATUS, FileError, ForkError, error_of

_FOLDER = pathlib.Path(__file__).resolve().parent
_NAME = "libtessera.so.0"


def _load_private(folder: pathlib.Path) -> None:
    """Loads the libraries that come with the package; each may need others of them."""
    waiting: List[pathlib.Path] = sorted(folder.glob("*.so*"))
    while waiting:
        left = []
        for path in waiting:
            try:
                _private.append(ffi.dlopen(str(path)))
            except OSError:
                left.append(path)
        if len(left) == len(waiting):
            return  # the library's own message says what is missing
        waiting = left


def _load() -> Any:
    chosen = os.environ.get("TESSERA_LIBRARY")
    bundled = _FOLDER / "lib" / _NAME
    path = chosen or (str(bundled) if bundled.exists() else _NAME)
    if path == str(bundled):
        _load_private(_FOLDER / "lib" / "private")
    try:
        return ffi.dlopen(path)
    except OSError as error:
        where = "TESSERA_LIBRARY names it" if chosen else "TESSERA_LIBRARY can name the file"
        raise FileError(f"the library of Tessera cannot be loaded ({where}): {error}") from None


_private: List[Any] = []
lib: Any = _load()


def backend_path() -> Optional[bytes]:
    """Where the backends of a build folder lie; None: where the library looks by itself."""
    chosen = os.environ.get("TESSERA_LIBRARY")
    if not chosen or "TESSERA_BACKEND_PATH" in os.environ:
        return None
    folder = pathlib.Path(chosen).resolve().parent.parent / "backends"
    files = folder.glob("*/libtessera-backend-*.so")
    found = sorted(str(path.parent) for path in files if path.parent.name != "template")
    return os.fsencode(":".join(found)) if found else None


def audio_path() -> Optional[bytes]:
    """Likewise the plugins that read sounds."""
    chosen = os.environ.get("TESSERA_LIBRARY")
    if not chosen or "TESSERA_BACKEND_PATH" in os.environ:
        return None
    folder = pathlib.Path(chosen).resolve().parent.parent / "backends" / "audio"
    return os.fsencode(folder) if folder.is_dir() else None


def text_of(pointer: Any) -> str:
    """A text of the library's."""
    return str(ffi.string(pointer).decode("utf-8", "replace"))


def check(status: int) -> None:
    """Raises the exception of a status that is not TSR_OK."""
    if status:
        raise error_of(status, text_of(lib.tsr_error_message()))


def sized(name: str) -> Any:
    """A struct that grows, zeroed, which says its size."""
    made = ffi.new(name + " *")
    made.struct_size = ffi.sizeof(name)
    return made


class _Process:
    """What there is once in a process: the runtime, which has the devices."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.runtime: Any = None
        self.is_forked = False
        self.closers: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self.all_closed = threading.Condition()
        self.n_open = 0  # with those that nobody holds any more, and that a thread is about to close
        self.left: List[Any] = []  # that the end of Python is to close, since no thread could be begun for them

    def after_fork(self) -> None:
        """In the child: threads of the library and its drivers are gone, and its locks are as they were."""
        self.lock = threading.Lock()
        self.all_closed = threading.Condition()
        self.is_forked = self.is_forked or self.runtime is not None

    def finish(self) -> None:
        """At the end of Python: no thread of the library may call it any more."""
        if self.is_forked:
            return
        while self.n_open > 0:  # other threads may still open some, and close some
            for owner in [*self.closers, *self.left]:
                owner.close()
            with self.all_closed:
                if self.n_open > 0:
                    self.all_closed.wait(0.1)
        if self.runtime is not None:
            lib.tsr_runtime_destroy(self.runtime)
            self.runtime = None


_process = _Process()
os.register_at_fork(after_in_child=_process.after_fork)
atexit.register(_process.finish)


def check_process() -> None:
    """Raises ForkError in a child of a process that has used the library."""
    if _process.is_forked:
        raise ForkError(
            "this process was forked from one that had opened a device with tessera, whose threads a fork does not "
            "copy; start workers with multiprocessing's method 'spawn', or open models in the workers only"
        )


def is_usable() -> bool:
    """Whether objects of the library may still be freed."""
    return not _process.is_forked and _process.runtime is not None


def runtime() -> Any:
    """The process's runtime, made when it is first needed."""
    check_process()
    with _process.lock:
        if _process.runtime is None:
            options = sized("tsr_runtime_options")
            path = backend_path()
            held = ffi.new("char[]", path) if path is not None else ffi.NULL
            options.path = held
            made = ffi.new("tsr_runtime **")
            check(lib.tsr_runtime_create(options, made))
            _process.runtime = made[0]
        return _process.runtime


def opened(owner: Any) -> None:
    """Has a Closable closed when Python ends; the runtime ends behind it, whoever closes it."""
    _process.closers.add(owner)
    with _process.all_closed:
        _process.n_open += 1


def closed() -> None:
    """One of those is freed."""
    with _process.all_closed:
        _process.n_open -= 1
        _process.all_closed.notify_all()


def close_at_end(owner: Any) -> None:
    """Keeps a Closable that nobody holds until Python ends, and closes it then."""
    _process.left.append(owner)


def device_name(device: Optional[str]) -> str:
    """A device's name as the library takes it; None: TESSERA_DEVICE, else auto."""
    return device or os.environ.get("TESSERA_DEVICE") or "auto"


def precision_of(precision: Optional[str]) -> int:
    """The number of a type of weights; None: as the model's file has them."""
    numbers = {None: 0, "f32": lib.TSR_F32, "f16": lib.TSR_F16, "bf16": lib.TSR_BF16}
    numbers.update({"int8": lib.TSR_I8, "int4": lib.TSR_I4})
    if precision not in numbers:
        names = ", ".join(name for name in numbers if name)
        raise BY_STATUS[lib.TSR_ERR_ARGUMENT](f"precision={precision!r}: there are {names}, and None")
    return int(numbers[precision])


def wait_for(event: threading.Event) -> None:
    """Waits so that the keyboard interrupts it: a signal that comes just before a thread begins to wait does not wake
    it, so it looks again."""
    while not event.wait(0.1):
        pass


def on_other_thread(work: Callable[[], int], stop: Callable[[], None]) -> None:
    """Calls `work`, a call of the library that takes long and returns a status, so that the keyboard interrupts it:
    `stop` is called then, and when `work` has returned, KeyboardInterrupt goes on. Signals reach the main thread alone,
    and only while it does not wait within the library."""
    if threading.current_thread() is not threading.main_thread():
        check(work())
        return
    failure: List[BaseException] = []
    done, gate, may_begin = threading.Event(), threading.Lock(), False
    gate.acquire()

    def run() -> None:
        gate.acquire()
        if not may_begin:
            return
        try:
            check(work())
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    try:
        # An interrupt may come between any two of these lines, and threading.Thread.start would wait.
        _thread.start_new_thread(run, ())
        may_begin = True
        gate.release()
        wait_for(done)
    except BaseException:
        stop()
        with contextlib.suppress(RuntimeError):  # it was released
            gate.release()
        while may_begin and not done.is_set():  # the library still uses what the caller frees next
            with contextlib.suppress(KeyboardInterrupt):
                done.wait()
        raise
    if failure:
        raise failure[0]
