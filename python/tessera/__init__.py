# SPDX-License-Identifier: Apache-2.0
"""Encoder-decoder Transformers on any GPU that has a Vulkan driver, and on CPUs.

    import tessera

    with tessera.Translator("tools/demo-model") as translator:
        print(translator.translate("The weather is nice today."))
"""

from .attention import Attention
from .checking import CheckedCase, CheckResult, check
from .devices import Device, devices, problems
from .errors import (
    BusyError,
    CancelledError,
    DeadlineError,
    DeviceLostError,
    DeviceMemoryError,
    DtypeError,
    FileError,
    ForkError,
    FormatError,
    HostMemoryError,
    InternalError,
    InvalidArgumentError,
    NoDeviceError,
    NotFiniteError,
    PluginError,
    ShapeError,
    TesseraError,
    UnsupportedError,
)
from .evaluate import Bleu, Chrf, Evaluation, WordErrors, evaluate, word_errors
from .options import Options
from .program import Executable, Masking, Program, Tensor
from .recipe import Recipe
from .results import Hypothesis, Translation
from .trainer import Trainer, TrainingResult, TrainingStep, Validation
from .transcriber import Segment, Transcriber, Transcript, Word
from .translator import Score, Translator

__all__ = [
    "Attention",
    "Bleu",
    "BusyError",
    "CancelledError",
    "CheckResult",
    "CheckedCase",
    "Chrf",
    "DeadlineError",
    "Device",
    "DeviceLostError",
    "DeviceMemoryError",
    "DtypeError",
    "Evaluation",
    "Executable",
    "FileError",
    "ForkError",
    "FormatError",
    "HostMemoryError",
    "Hypothesis",
    "InternalError",
    "InvalidArgumentError",
    "Masking",
    "NoDeviceError",
    "NotFiniteError",
    "Options",
    "PluginError",
    "Program",
    "Recipe",
    "Score",
    "Segment",
    "ShapeError",
    "Tensor",
    "TesseraError",
    "Trainer",
    "TrainingResult",
    "TrainingStep",
    "Transcriber",
    "Transcript",
    "Translation",
    "Translator",
    "UnsupportedError",
    "Validation",
    "Word",
    "WordErrors",
    "check",
    "devices",
    "evaluate",
    "problems",
    "word_errors",
]
