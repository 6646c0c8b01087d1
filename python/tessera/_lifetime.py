# SPDX-License-Identifier: Apache-2.0
"""Objects of the library's that are closed: once, by any thread, and never while a call uses them."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from typing import Callable, Dict, Iterator, Optional, TypeVar

from . import _native

_Self = TypeVar("_Self", bound="Closable")
_keys = itertools.count(1)
# Whether this thread is the library's and runs a function of the package: it must not close anything then, nor wait for
# an answer, which it may have to bring itself. What nobody holds any more is collected in such a thread, too.
called = threading.local()


def is_called() -> bool:
    return bool(getattr(called, "now", False))


class BeingCalled:
    """Within, this thread is such a one."""

    def __enter__(self) -> None:
        self._before, called.now = is_called(), True

    def __exit__(self, *_: object) -> None:
        called.now = self._before


class Closable:
    """Has ``close``, and works in ``with`` statements. What is left is closed when Python ends."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._n_calls = 0
        self._is_closed = False
        self._stops: Dict[int, Callable[[], None]] = {}
        _native.opened(self)

    def _free(self) -> None:
        """Frees what the library has made. No call is under way any more."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives up what is not done yet, and frees everything. Does nothing a second time."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                for stop in self._stops.values():
                    stop()
                while self._n_calls:
                    self._lock.wait()
            except BaseException:  # an interrupt from the keyboard: it is closed when it is asked for again
                self._is_closed = False
                raise
        try:
            if _native.is_usable():
                self._free()
        finally:
            _native.closed()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_is_closed", True) or sys.is_finalizing():
            return
        if not is_called():
            self.close()
            return
        try:
            threading.Thread(target=type(self).close, args=(self,)).start()
        except RuntimeError:  # Python ends, and begins no threads any more
            _native.close_at_end(self)

    @contextlib.contextmanager
    def _calling(self, stop: Optional[Callable[[], None]] = None) -> Iterator[None]:
        """It stays open within; ``stop`` ends what is done within when somebody closes it."""
        _native.check_process()
        key, is_within = next(_keys), False
        try:
            with self._lock:
                if self._is_closed:
                    raise ValueError(f"the {type(self).__name__.lower()} is closed")
                self._n_calls, is_within = self._n_calls + 1, True
                if stop:
                    self._stops[key] = stop
            yield
        finally:
            if is_within:
                with self._lock:
                    self._stops.pop(key, None)
                    self._n_calls -= 1
                    self._lock.notify_all()
