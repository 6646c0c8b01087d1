# SPDX-License-Identifier: Apache-2.0
"""Trainings: a recipe in, a model's folder out."""

from __future__ import annotations

import csv
import dataclasses
import math
import os
import pathlib
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _native
from ._native import check, ffi, lib, on_other_thread, sized
from .errors import InvalidArgumentError, TesseraError, UnsupportedError
from .recipe import KEYS, Recipe

_DTYPES = {"f32": lib.TSR_F32, "f16": lib.TSR_F16, "bf16": lib.TSR_BF16}
_ACTIVATIONS = {
    "relu": lib.TSR_ACTIVATION_RELU,
    "gelu": lib.TSR_ACTIVATION_GELU_ERF,
    "gelu_new": lib.TSR_ACTIVATION_GELU_TANH,
    "swish": lib.TSR_ACTIVATION_SILU,
}
_POSITIONS = {
    "sinusoidal_interleaved": lib.TSR_POSITION_SINUSOID_INTERLEAVED,
    "sinusoidal_halves": lib.TSR_POSITION_SINUSOID_HALVES,
    "learned": lib.TSR_POSITION_LEARNED,
    "relative": lib.TSR_POSITION_RELATIVE_CLAMPED,
    "none": lib.TSR_POSITION_NONE,
}
_CRITERIA = {
    "": 0,
    "loss": lib.TSR_CRITERION_LOSS,
    "bleu": lib.TSR_CRITERION_BLEU,
    "exact": lib.TSR_CRITERION_EXACT,
}
_REASONS = {
    lib.TSR_TRAINING_END_STEPS: "steps",
    lib.TSR_TRAINING_END_EPOCHS: "epochs",
    lib.TSR_TRAINING_END_MINUTES: "minutes",
    lib.TSR_TRAINING_END_PATIENCE: "patience",
    lib.TSR_TRAINING_END_UNTIL: "until",
    lib.TSR_TRAINING_END_STOPPED: "stopped",
}


@dataclasses.dataclass(frozen=True)
class TrainingStep:
    """What is known after a step."""

    step: int
    epoch: int
    seconds: float
    """Since the training began, pauses between runs left out."""
    loss: float
    """Per target token, the mean of the steps since the last row of the log."""
    rate: float
    gradient_norm: float
    tokens_per_second: float
    scale: float
    skipped: int
    done: float
    """The share of the training that is over, 0 to 1; -1: not known."""
    is_row: bool
    """Whether the log has it."""


@dataclasses.dataclass(frozen=True)
class Validation:
    """What a validation found. NaN: not computed."""

    step: int
    epoch: int
    seconds: float
    loss: float
    perplexity: float
    bleu: float
    exact: float
    is_best: bool


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """How a training ended."""

    reason: str
    """``"steps"``, ``"epochs"``, ``"minutes"``, ``"patience"``, ``"until"`` or ``"stopped"``."""
    step: int
    epoch: int
    seconds: float
    loss: float
    skipped: int
    validation: Optional[Validation]
    """Of the model that was written."""


def _validation(v: Any) -> Validation:
    return Validation(v.step, v.epoch, v.seconds, v.loss, v.perplexity, v.bleu, v.exact, v.is_best != 0)


class Trainer:
    """Trains a model as ``tessera train`` does: the same recipe gives the same numbers and files.

    >>> trainer = Trainer(task="copy", steps=300, out="copier")
    >>> result = trainer.run(validation=print)

    ``run(resume=True)`` goes on with a training that was stopped, or that a crash ended, from its last checkpoint. So
    does ``Trainer.of("copier")`` in another process, with the recipe in its folder."""

    def __init__(self, recipe: Optional[Union[Recipe, str, "os.PathLike[str]"]] = None, **changes: Any) -> None:
        """recipe: one, or the path of a recipe.yaml. changes: keys of a recipe, which win."""
        unknown = sorted(set(changes) - set(KEYS))
        if unknown:
            raise TypeError(f"a recipe has no key {unknown[0]!r}")
        for name, value in changes.items():
            changes[name] = os.fspath(value) if isinstance(value, os.PathLike) else value
        base = recipe if isinstance(recipe, Recipe) else Recipe() if recipe is None else Recipe.read(recipe)
        self.recipe = dataclasses.replace(base, **changes)
        self.recipe.check()
        if self.recipe.value("comm") == "mpi":
            raise InvalidArgumentError("comm 'mpi': trainings of several ranks are those of `mpirun tessera train`")
        if self.recipe.value("accumulate") == 0:  # a batch of each rank, of which there is one
            self.recipe = dataclasses.replace(self.recipe, accumulate=1)
        self._check()

    @staticmethod
    def of(folder: Union[str, "os.PathLike[str]"], **changes: Any) -> "Trainer":
        """The trainer of a training that has begun in that folder."""
        return Trainer(pathlib.Path(folder) / "train" / "recipe.yaml", **{"out": os.fspath(folder), **changes})

    def _value(self, name: str) -> Any:
        return self.recipe.value(name)

    def _first_model(self) -> Optional[str]:
        """The folder of a model to begin with, or None."""
        init: str = self._value("init")
        return None if init in ("", "xavier", "family") else init

    def _check(self) -> None:
        value = self._value
        has_task, has_tsv, has_speech = bool(value("task")), bool(value("tsv")), bool(value("speech"))
        has_pairs = bool(value("source") and value("target"))
        has_half = bool(value("source")) != bool(value("target"))
        if (
            has_task + has_tsv + has_pairs + has_speech != 1
            or (has_half and not has_speech)
            or (has_speech and value("source"))
        ):
            raise InvalidArgumentError("either source and target, or tsv, or speech, or task is needed")
        if not value("out"):
            raise InvalidArgumentError("out is missing: the folder of the model that is made")
        if not has_task and not self._first_model() and not value("vocab"):
            raise InvalidArgumentError("vocab is missing; `tessera vocab` makes such a folder, of speech with --speech")
        if has_task and (value("vocab") or value("valid_source")):
            raise InvalidArgumentError("a task needs neither vocab nor valid_source")
        if not any(value(name) > 0 for name in ("steps", "epochs", "minutes", "patience", "until")):
            raise InvalidArgumentError("one of steps, epochs, minutes, patience and until is needed for it to end")
        if value("family") == "marian" and not self._first_model():
            if value("norm_first"):
                raise InvalidArgumentError("norm_first is for nn_transformer: marian's norms are after the sublayers")
            if value("position_encoding"):
                raise InvalidArgumentError("position_encoding is for nn_transformer: marian has sinusoids")

    # ---- running

    def run(
        self,
        *,
        resume: bool = False,
        step: Optional[Callable[[TrainingStep], Any]] = None,
        validation: Optional[Callable[[Validation], Any]] = None,
    ) -> TrainingResult:
        """Trains, and writes the model's folder.

        step, validation: called after each step and each validation; an exception, such as an interrupt from the
        keyboard, saves and ends the training, which ``resume=True`` then goes on with."""
        if resume:
            self._check_same()
        run = _Run(self, resume, step, validation)
        try:
            return run.train()
        finally:
            run.close()

    def _check_same(self) -> None:
        """The recipe of the training that goes on may have changed only where that changes no number."""
        path = pathlib.Path(self._value("out")) / "train" / "recipe.yaml"
        if not path.exists():
            raise InvalidArgumentError(f"{self._value('out')}: there is no training to resume ({path})")
        before = Recipe.read(path)
        falls = before.value("schedule") in ("linear", "cosine")
        for key in KEYS.values():
            was, now = before.value(key.name), self._value(key.name)
            if was != now and (key.effect == "fixed" or (key.effect == "total" and falls)):
                raise InvalidArgumentError(
                    f"{self._value('out')}: this training began with {key.name} {was!r}; {now!r} would change its "
                    "numbers: leave it out, or train in another folder"
                )

    def curves(self) -> Any:
        """The log so far: a pandas.DataFrame if pandas is there, else NumPy arrays by column. What a row lacks is
        NaN."""
        import numpy as np

        path = pathlib.Path(self._value("out")) / "train" / "log.csv"
        with path.open(encoding="utf-8", newline="") as file:
            head, *rows = csv.reader(file)
        columns: Dict[str, Any] = {
            name: np.array([float(row[i] or math.nan) for row in rows], dtype=np.float64) for i, name in enumerate(head)
        }
        try:
            import pandas
        except ImportError:
            return columns
        return pandas.DataFrame(columns)


class _Run:
    """One run of a training: what the library is given, and what it tells."""

    def __init__(
        self,
        trainer: Trainer,
        resume: bool,
        step: Optional[Callable[[TrainingStep], Any]],
        validation: Optional[Callable[[Validation], Any]],
    ) -> None:
        self.trainer = trainer
        self.value = trainer.recipe.value
        self.resume = resume
        self.tell_step, self.tell_validation = step, validation
        self.kept: List[Any] = []
        self.model: Any = ffi.NULL
        self.tokenizer: Any = ffi.NULL
        self.device: Any = ffi.NULL
        self.task: Any = ffi.NULL
        self.failure: List[BaseException] = []
        self.is_stopping = False

    def close(self) -> None:
        if _native.is_usable():
            lib.tsr_device_close(self.device)
            lib.tsr_model_close(self.model)
            lib.tsr_tokenizer_close(self.tokenizer)

    def text(self, value: Optional[str]) -> Any:
        """A text that lives as long as the run; NULL for none."""
        if not value:
            return ffi.NULL
        self.kept.append(ffi.new("char[]", os.fsencode(value)))
        return self.kept[-1]

    def open(self) -> None:
        runtime = _native.runtime()
        if self.value("task"):
            kind = ffi.new("int32_t *")
            check(lib.tsr_toy_task_find(self.text(self.value("task")), kind))
            self.task = ffi.new("tsr_toy_task *")
            self.task.kind, self.task.set = kind[0], lib.TSR_TOY_TASK_TRAINING
            self.task.vocabulary, self.task.seed = self.value("vocab_size"), self.value("seed")
            self.task.min_length, self.task.max_length = self.value("min_length"), self.value("max_length")
            check(lib.tsr_toy_task_check(self.task))
        else:
            folder = self.value("vocab") or self.trainer._first_model()
            made = ffi.new("tsr_tokenizer **")
            check(lib.tsr_tokenizer_open_folder(self.text(folder), made))
            self.tokenizer = made[0]
        self.open_model()
        if self.hears():
            self.impose("a model of speech", suits={"save_beam": 1, "max_source": 0})
        made = ffi.new("tsr_device **")
        check(lib.tsr_device_open(runtime, _native.device_name(self.value("device")).encode(), made))
        self.device = made[0]

    def open_model(self) -> None:
        folder = self.trainer._first_model()
        made = ffi.new("tsr_model **")
        if folder:
            check(lib.tsr_model_open(self.text(folder), made))
            self.model = made[0]
            check(lib.tsr_model_check_weights(self.model))
            if self.hears() != bool(self.value("speech")):
                reads, needs = ("sound", "speech") if self.hears() else ("text", "pairs of sentences")
                raise InvalidArgumentError(f"{folder} reads {reads}: it is trained on {needs}")
            self.take_form(folder)
            self.check_vocabularies(folder)
        else:
            check(lib.tsr_model_create(self.describe_speech() if self.value("speech") else self.describe(), made))
            self.model = made[0]
        needed = self.value("max_length") + 1 if self.value("task") else 1
        if self.widest() < needed:
            raise InvalidArgumentError(
                f"a model with max_positions {lib.tsr_model_config(self.model).max_positions} has no room for a batch "
                f"of width {needed} in steps of bucket, {self.value('bucket')}"
            )

    def hears(self) -> bool:
        """Whether it is a model of speech."""
        return bool(lib.tsr_model_config(self.model).mels > 0)

    def impose(
        self, whose: str, has: Optional[Dict[str, Any]] = None, suits: Optional[Dict[str, Any]] = None
    ) -> None:
        """What the recipe must have, and what suits it where it says nothing."""
        recipe = self.trainer.recipe
        form = {name: value for name, value in (suits or {}).items() if getattr(recipe, name) is None}
        for name, value in (has or {}).items():
            said = getattr(recipe, name)
            if said is not None and said != value:
                raise InvalidArgumentError(f"{whose} has {name} {value!r}, not {said!r}: leave it out")
            form[name] = value
        self.trainer.recipe = dataclasses.replace(recipe, **form)
        self.value = self.trainer.recipe.value

    def speech_tokens(self) -> Any:
        tokens = ffi.new("tsr_speech_tokens *")
        check(lib.tsr_speech_get_tokens(self.tokenizer, tokens))
        return tokens

    def info(self) -> Any:
        info = ffi.new("tsr_tokenizer_info *")
        if self.tokenizer != ffi.NULL:
            check(lib.tsr_tokenizer_get_info_sized(self.tokenizer, info, ffi.sizeof("tsr_tokenizer_info")))
        return info

    def describe(self) -> Any:
        """The configuration of a new model."""
        value, family = self.value, self.value("family")
        if family not in ("marian", "nn_transformer"):
            raise UnsupportedError(
                f"a model of the family {family!r} needs a folder to start from (init); only marian and nn_transformer "
                "can be trained from scratch"
            )
        is_marian, info = family == "marian", self.info()
        config = sized("tsr_transformer_config")
        config.family = family.encode()
        config.d_model, config.max_positions = value("d_model"), value("max_positions")
        config.encoder_layers, config.decoder_layers = value("encoder_layers"), value("decoder_layers")
        config.encoder_heads = config.decoder_heads = value("heads")
        config.encoder_d_ff = config.decoder_d_ff = value("d_ff")
        config.source_vocabulary = config.target_vocabulary = value("vocab_size")
        config.norm = lib.TSR_NORM_LAYER
        config.norm_position = lib.TSR_NORM_PRE if value("norm_first") else lib.TSR_NORM_POST
        config.activation = _ACTIVATIONS[value("activation")]
        config.attention_bias = config.feed_forward_bias = config.logits_bias = 1
        config.embedding_scale, config.logits_scale, config.epsilon = math.sqrt(value("d_model")), 1.0, 1e-5
        config.bos_id, config.unk_id, config.eos_id = -1, lib.TSR_TOY_TASK_UNK, lib.TSR_TOY_TASK_EOS
        usual = "sinusoidal_halves" if is_marian else "sinusoidal_interleaved"
        config.position = _POSITIONS[value("position_encoding") or usual]
        if config.position == lib.TSR_POSITION_RELATIVE_CLAMPED:
            config.relative_distance, config.relative_layers = value("max_distance"), 1
        config.final_norm = 0 if is_marian else 1
        config.shared_embedding = 1 if is_marian and value("shared_embedding") else 0
        config.tied_logits = 1 if is_marian and value("tied_logits") else 0
        config.pad_id = value("vocab_size") - 1 if self.task != ffi.NULL else info.target_pad_id
        if self.tokenizer != ffi.NULL:
            config.source_vocabulary, config.target_vocabulary = info.source_vocabulary, info.target_vocabulary
            config.eos_id, config.unk_id = info.eos_id, info.unk_id
            config.shared_embedding &= info.is_joint
        config.decoder_start_id = config.pad_id if config.pad_id >= 0 else config.eos_id
        return config

    def describe_speech(self) -> Any:
        """Likewise of a new Whisper: ids of timestamps lie behind those of the tokenizer, one for each position and one
        more."""
        self.impose("a model of speech", has={"family": "whisper"}, suits={"activation": "gelu"})
        value, tokens = self.value, self.speech_tokens()
        config = sized("tsr_transformer_config")
        config.family = b"whisper"
        config.d_model, config.max_positions = value("d_model"), value("max_positions")
        config.encoder_layers, config.decoder_layers = value("encoder_layers"), value("decoder_layers")
        config.encoder_heads = config.decoder_heads = value("heads")
        config.encoder_d_ff = config.decoder_d_ff = value("d_ff")
        config.mels, config.source_positions = value("mels"), value("source_positions")
        config.target_vocabulary = tokens.timestamp_begin + value("source_positions") + 1
        config.norm, config.norm_position, config.final_norm = lib.TSR_NORM_LAYER, lib.TSR_NORM_PRE, 1
        config.activation, config.position = _ACTIVATIONS[value("activation")], lib.TSR_POSITION_LEARNED
        config.attention_bias = config.feed_forward_bias = 1
        config.tied_logits = 1 if value("tied_logits") else 0
        config.embedding_scale, config.logits_scale, config.epsilon = 1.0, 1.0, 1e-5
        config.pad_id = config.bos_id = config.eos_id = tokens.end_of_text
        config.unk_id, config.decoder_start_id = -1, tokens.start_of_transcript
        return config

    def take_form(self, folder: str) -> None:
        """A model that is trained on keeps its form, and the recipe tells it."""
        config = lib.tsr_model_config(self.model)
        family = _native.text_of(config.family)
        activation = {number: name for name, number in _ACTIVATIONS.items()}.get(config.activation, "relu")
        position = {number: name for name, number in _POSITIONS.items()}.get(config.position, "")
        form = {
            "d_model": config.d_model,
            "heads": config.encoder_heads,
            "d_ff": config.encoder_d_ff,
            "encoder_layers": config.encoder_layers,
            "decoder_layers": config.decoder_layers,
            "max_positions": config.max_positions,
            "family": family,
            "activation": activation,
            "position_encoding": position if family == "nn_transformer" else "",
            "norm_first": config.norm_position == lib.TSR_NORM_PRE,
            "tied_logits": config.tied_logits != 0,
            "shared_embedding": config.shared_embedding != 0,
        }
        if config.position == lib.TSR_POSITION_RELATIVE_CLAMPED:
            form["max_distance"] = config.relative_distance
        if config.mels > 0:
            form["mels"], form["source_positions"] = config.mels, config.source_positions
        self.impose(folder, has=form)

    def check_vocabularies(self, folder: str) -> None:
        config, info = lib.tsr_model_config(self.model), self.info()
        if config.mels > 0:
            tokens = self.speech_tokens()
            begin, has_begin = tokens.start_of_transcript, config.decoder_start_id
            if config.target_vocabulary < tokens.timestamp_begin or has_begin != begin:
                raise InvalidArgumentError(
                    f"{folder} has {config.target_vocabulary} tokens and begins with token {has_begin}; the vocabulary "
                    f"of its training has {tokens.timestamp_begin} without timestamps and begins with {begin}"
                )
            return
        has = config.source_vocabulary, config.target_vocabulary
        wanted: Tuple[int, int] = (self.value("vocab_size"), self.value("vocab_size"))
        if self.tokenizer != ffi.NULL:
            wanted = info.source_vocabulary, info.target_vocabulary
        is_own = self.tokenizer != ffi.NULL and (self.value("vocab") or folder) == folder
        if not (has == wanted or (is_own and has[0] >= wanted[0] and has[1] >= wanted[1])):
            raise InvalidArgumentError(
                f"{folder} has vocabularies of {has[0]} and {has[1]} tokens; the vocabulary of its training has "
                f"{wanted[0]} and {wanted[1]}"
            )

    def widest(self) -> int:
        """Of a batch: no more than the model has positions, once it is rounded up to a whole bucket."""
        bucket: int = self.value("bucket")
        return int(lib.tsr_model_config(self.model).max_positions) // bucket * bucket

    def longest(self, wanted: int) -> int:
        fitting = self.value("batch_tokens") // self.value("bucket") * self.value("bucket")
        return min(wanted or fitting, self.widest())

    def data(self) -> Any:
        value = self.value
        data = sized("tsr_training_data_options")
        data.files.source = self.text(value("speech") or value("tsv") or value("source"))
        data.files.target = self.text(value("target"))
        data.tokenizer, data.task = self.tokenizer, self.task
        data.batch_tokens, data.max_ratio = value("batch_tokens"), value("max_ratio")
        data.max_source, data.max_target = self.longest(value("max_source")), self.longest(value("max_target"))
        if self.hears():
            window = lib.tsr_model_config(self.model).source_positions
            data.max_source = min(value("max_source") or window, window)
            data.sounds = self.sounds(window)
        data.step, data.pool, data.seed = value("bucket"), value("pool"), value("seed")
        data.shuffle, data.epochs = 1, value("epochs")
        return data

    def sounds(self, window: int) -> Any:
        value, path = self.value, _native.audio_path()
        sounds = sized("tsr_training_sounds")
        sounds.mels, sounds.positions = value("mels"), window
        sounds.language = self.text(None if value("language") == "none" else value("language"))
        sounds.whole, sounds.timestamps = value("whole_windows"), value("timestamps")
        sounds.time_masks, sounds.time_width = value("time_masks"), value("time_mask_width")
        sounds.time_share = value("time_mask_share")
        sounds.mel_masks, sounds.mel_width = value("mel_masks"), min(value("mel_mask_width"), value("mels"))
        sounds.plugins_path = self.text(os.fsdecode(path) if path is not None else None)
        self.kept.append(sounds)
        return sounds

    def step_options(self) -> Any:
        value = self.value
        options = sized("tsr_training_options")
        for name in (
            "dropout",
            "attention_dropout",
            "activation_dropout",
            "label_smoothing",
            "beta1",
            "beta2",
            "epsilon",
            "weight_decay",
            "max_norm",
        ):
            setattr(options, name, value(name))
        options.decoupled = 1 if value("optimizer") == "adamw" else 0
        options.average = 1 if value("average") > 0 else 0
        options.recompute = 1 if value("recompute") == "layers" else 0
        options.statistics = 1 if value("statistics") else 0
        options.products = _DTYPES[value("precision")]
        return options

    def options(self) -> Any:
        value = self.value
        options = sized("tsr_training_run_options")
        self.kept += [self.data(), self.step_options()]
        options.data, options.training = self.kept[-2:]
        options.folder = self.text(value("out"))
        options.tokenizer_folder = self.text(
            None if self.task != ffi.NULL else value("vocab") or self.trainer._first_model()
        )
        options.resume = 1 if self.resume else 0
        options.initial = lib.TSR_INITIAL_FAMILY if value("init") == "family" else lib.TSR_INITIAL_XAVIER
        kind = ffi.new("int32_t *")
        check(lib.tsr_schedule_find(self.text(value("schedule")), kind))
        d_model = lib.tsr_model_config(self.model).d_model
        peak = value("rate") or lib.tsr_schedule_paper_peak(1.0, d_model, value("warmup"))
        options.schedule.kind, options.schedule.peak = kind[0], peak
        options.schedule.floor, options.schedule.warmup = value("floor"), value("warmup")
        options.valid.source, options.valid.target = self.text(value("valid_source")), self.text(value("valid_target"))
        options.criterion = _CRITERIA[value("criterion")]
        options.average_decay = value("average")
        options.beam, options.sentences = value("bleu_beam"), value("bleu_sentences")
        options.gradients = _DTYPES[value("gradient_precision")]
        options.storage, options.saved_beam = _DTYPES[value("save_precision")], value("save_beam")
        for name in (
            "seed",
            "accumulate",
            "average_last",
            "loss_scale",
            "steps",
            "minutes",
            "patience",
            "until",
            "log_every",
            "save_every",
            "validate_every",
            "keep",
        ):
            setattr(options, name, value(name))
        return options

    def guarded(self, tell: Callable[[Any], Any], found: Any) -> None:
        """Calls what a caller gave; what it raises ends the training."""
        if self.failure:
            return
        try:
            tell(found)
        except BaseException as error:
            self.failure.append(error)
            self.is_stopping = True

    def train(self) -> TrainingResult:
        self.open()
        options = self.options()

        @ffi.callback("void (*)(void *, const tsr_training_run_step *)")  # type: ignore[misc]
        def on_step(_user: Any, s: Any) -> None:
            if self.tell_step is not None:
                found = TrainingStep(
                    s.step,
                    s.epoch,
                    s.seconds,
                    s.loss,
                    s.rate,
                    s.gradient_norm,
                    s.tokens_per_second,
                    s.scale,
                    s.skipped,
                    s.done,
                    s.is_row != 0,
                )
                self.guarded(self.tell_step, found)

        @ffi.callback("void (*)(void *, const tsr_training_run_validation *)")  # type: ignore[misc]
        def on_validation(_user: Any, v: Any) -> None:
            if self.tell_validation is not None:
                self.guarded(self.tell_validation, _validation(v))

        @ffi.callback("tsr_status (*)(void *, int64_t)")  # type: ignore[misc]
        def on_opened(_user: Any, _step: int) -> int:
            # Now no other training can be at work in the folder.
            text = self.trainer.recipe.to_yaml().encode("utf-8", "surrogateescape")
            path = os.path.join(self.value("out"), "train", "recipe.yaml")
            return int(lib.tsr_file_replace(self.text(path), text, len(text)))

        @ffi.callback("int32_t (*)(void *)")  # type: ignore[misc]
        def is_stopping(_user: Any) -> int:
            return 1 if self.is_stopping else 0

        options.step, options.validation = on_step, on_validation
        options.opened, options.is_stopping = on_opened, is_stopping
        result = ffi.new("tsr_training_run_result *")
        size = ffi.sizeof("tsr_training_run_result")

        def stop() -> None:
            self.is_stopping = True

        try:
            on_other_thread(
                lambda: int(lib.tsr_training_run_sized(self.model, self.device, ffi.NULL, options, result, size)), stop
            )
        except TesseraError:
            if self.failure:
                raise self.failure[0] from None
            raise
        if self.failure:
            raise self.failure[0]
        return TrainingResult(
            _REASONS[result.reason],
            result.step,
            result.epoch,
            result.seconds,
            result.loss,
            result.skipped,
            _validation(result.validation) if result.has_validation else None,
        )


__all__ = ["Trainer", "TrainingResult", "TrainingStep", "Validation"]
