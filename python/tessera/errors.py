# SPDX-License-Identifier: Apache-2.0
"""The exceptions, one for each status of the library."""

from __future__ import annotations

from typing import Dict, Type


class TesseraError(Exception):
    """What the library refused or failed to do. Its text is the library's message."""

    status = 0


class InvalidArgumentError(TesseraError, ValueError):
    """A value outside its range."""

    status = 1


class ShapeError(TesseraError, ValueError):
    """Extents that do not fit together."""

    status = 2


class DtypeError(TesseraError, TypeError):
    """An element type that an operator does not take."""

    status = 3


class UnsupportedError(TesseraError, NotImplementedError):
    """Valid, but not available here: this device, this build, this model."""

    status = 4


class HostMemoryError(TesseraError, MemoryError):
    """The machine's memory ran out."""

    status = 5


class DeviceMemoryError(TesseraError, MemoryError):
    """A device's memory ran out."""

    status = 6


class DeviceLostError(TesseraError):
    """The device stopped answering. Open the model anew."""

    status = 7


class NoDeviceError(TesseraError):
    """There is no device of that name; the message lists those that were found."""

    status = 8


class FileError(TesseraError, OSError):
    """A file that cannot be opened, read or written."""

    status = 9


class FormatError(TesseraError, ValueError):
    """A file whose content is not what it should be."""

    status = 10


class PluginError(TesseraError):
    """A backend that cannot be loaded."""

    status = 11


class InternalError(TesseraError):
    """A mistake of the library; please report it."""

    status = 12


class NotFiniteError(TesseraError, ArithmeticError):
    """A device computed NaN from numbers."""

    status = 13


class BusyError(TesseraError):
    """The queue is full, or another process writes the file."""

    status = 14


class CancelledError(TesseraError):
    """What was asked for was given up, because the translator was closed."""

    status = 15


class DeadlineError(TesseraError, TimeoutError):
    """The time for it has passed."""

    status = 16


class ForkError(TesseraError):
    """The library was used before the process was forked."""


BY_STATUS: Dict[int, Type[TesseraError]] = {
    error.status: error for error in TesseraError.__subclasses__() if error.status
}


def error_of(status: int, message: str) -> TesseraError:
    """The exception of a status."""
    return BY_STATUS.get(status, TesseraError)(message)
