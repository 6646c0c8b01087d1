# SPDX-License-Identifier: Apache-2.0
"""Whether a device computes what it should."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _native
from .errors import BY_STATUS, FileError, TesseraError

_FOLDER = pathlib.Path(__file__).resolve().parent
# The program's exit codes, as statuses.
_STATUSES = {2: 1, 3: 9, 4: 8, 5: 5, 6: 12}


@dataclasses.dataclass(frozen=True)
class CheckedCase:
    """A case that failed, or that the device does not support."""

    name: str
    device: str
    result: str
    """``"failed"`` or ``"unsupported"``."""
    error_of_bound: Optional[float]
    """The largest error as a share of its bound; None: not a number."""
    message: str


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """What a check found. It is true if no case failed."""

    cases: int
    failed: int
    unsupported: int
    coverage: float
    """The share of operators, operands and types that were executed, 0 to 1."""
    failures: Tuple[CheckedCase, ...] = dataclasses.field(repr=False)
    not_supported: Tuple[CheckedCase, ...] = dataclasses.field(repr=False)

    def __bool__(self) -> bool:
        return self.failed == 0


def check(
    device: str, *, ops: Optional[Sequence[str]] = None, share: int = 1, random: int = 0, seed: int = 1
) -> CheckResult:
    """Compares a device with the reference, operator by operator, as ``tessera check`` does.

    device: ``"vulkan:0"``, or several names with commas. ops: only these operators, names or globs. share: one case of
    so many. random: beside the table, cases that are drawn, for so many million operations and bytes."""
    _native.check_process()
    command = [_program(), "check", "--devices", device, "--json", "--share", str(share), "--seed", str(seed)]
    command += ["--ops", ",".join(ops)] if ops else []
    command += ["--random", str(random)] if random else []
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    lines: List[Dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode not in (0, 1) or not lines or "cases" not in lines[-1]:
        message = done.stderr.strip().replace("tessera: ", "", 1) if done.stderr else f"exit code {done.returncode}"
        raise BY_STATUS.get(_STATUSES.get(done.returncode, 0), TesseraError)(message)
    found = [
        CheckedCase(line["case"], line["device"], line["result"], line["error_of_bound"], line["message"])
        for line in lines[:-1]
    ]
    total = lines[-1]
    return CheckResult(
        total["cases"],
        total["failed"],
        total["unsupported"],
        total["coverage"],
        tuple(case for case in found if case.result == "failed"),
        tuple(case for case in found if case.result == "unsupported"),
    )


def _program() -> str:
    """The program, which has the cases: it lies with the library, or is installed."""
    library = os.environ.get("TESSERA_LIBRARY")
    built = pathlib.Path(library).resolve().parent.parent / "tools" / "tessera" / "tessera" if library else None
    for path in (built, None if library else _FOLDER / "lib" / "bin" / "tessera"):
        if path is not None and path.exists():
            return str(path)
    installed = shutil.which("tessera")
    if installed is None:
        raise FileError("the program tessera, which has the cases of a check, is neither here nor in PATH")
    return installed


def _environment() -> Dict[str, str]:
    """Where the program finds the libraries of the package."""
    environment = dict(os.environ)
    folder = _FOLDER / "lib"
    private = folder / "private"
    if "TESSERA_LIBRARY" not in environment and private.exists():
        paths = [str(folder), str(private), environment.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
    return environment


__all__ = ["CheckResult", "CheckedCase", "check"]
