# SPDX-License-Identifier: Apache-2.0
"""What there is to compute with."""

from __future__ import annotations

import dataclasses
from typing import List

from . import _native
from ._native import check, ffi, lib, text_of

_TYPES = {
    lib.TSR_DEVICE_DISCRETE_GPU: "discrete GPU",
    lib.TSR_DEVICE_INTEGRATED_GPU: "integrated GPU",
    lib.TSR_DEVICE_VIRTUAL_GPU: "virtual GPU",
    lib.TSR_DEVICE_SOFTWARE_GPU: "GPU imitated by a CPU",
    lib.TSR_DEVICE_CPU: "CPU",
    lib.TSR_DEVICE_REFERENCE: "reference",
}


@dataclasses.dataclass(frozen=True)
class Device:
    """A device that was found."""

    name: str
    """As ``Translator`` takes it: ``"vulkan:0"``."""
    type: str
    """"discrete GPU", "integrated GPU", "virtual GPU", "GPU imitated by a CPU", "CPU" or "reference"."""
    model: str
    """As its driver calls it."""
    driver: str
    memory: int
    """Bytes that it may use; 0: unknown."""


def devices() -> List[Device]:
    """All devices, in the order in which they were found."""
    runtime = _native.runtime()
    found = []
    info = ffi.new("tsr_device_info *")
    for index in range(lib.tsr_runtime_device_count(runtime)):
        check(lib.tsr_runtime_device_info_sized(runtime, index, info, ffi.sizeof("tsr_device_info")))
        properties = info.properties
        found.append(
            Device(
                text_of(info.name),
                _TYPES.get(properties.type, "unknown"),
                text_of(properties.name),
                text_of(properties.driver),
                properties.memory,
            )
        )
    return found


def problems() -> List[str]:
    """Why backends that were found cannot be used."""
    runtime = _native.runtime()
    lib.tsr_runtime_device_count(runtime)
    found = []
    problem = ffi.new("tsr_problem *")
    for index in range(lib.tsr_runtime_problem_count(runtime)):
        check(lib.tsr_runtime_problem_sized(runtime, index, problem, ffi.sizeof("tsr_problem")))
        found.append(text_of(problem.message))
    return found
