# SPDX-License-Identifier: Apache-2.0
"""Sounds in, what is said in them out."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, Union, overload

from . import _native
from ._lifetime import Closable
from ._native import check, ffi, lib, on_other_thread, sized, text_of
from .errors import InvalidArgumentError, TesseraError, error_of
from .options import defaults_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Sound = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, NDArray[np.float32]]

_TASKS = {"transcribe": lib.TSR_SPEECH_TRANSCRIBE, "translate": lib.TSR_SPEECH_TRANSLATE}


@dataclasses.dataclass(frozen=True)
class Word:
    """A word, and when it is spoken."""

    text: str
    """With the blank before it."""
    start: float
    """Seconds from the sound's beginning."""
    end: float
    probability: float


@dataclasses.dataclass(frozen=True)
class Segment:
    """A stretch of a sound, and what is said in it."""

    start: float
    """Seconds from the sound's beginning."""
    end: float
    text: str
    """As the model writes it: most often with a blank at its beginning."""
    ids: Tuple[int, ...] = dataclasses.field(repr=False)
    """Its tokens, timestamps included."""
    temperature: float
    """Of the search that found it."""
    average_log_probability: float
    """Of the tokens of the window that it is a part of; of beam search the score."""
    compression_ratio: float
    """Of the window's text."""
    no_speech: float
    """The probability that nobody speaks in the window; NaN: the model does not say."""
    words: Tuple[Word, ...] = dataclasses.field(repr=False)
    """With the option ``words``; else none."""


@dataclasses.dataclass(frozen=True)
class Transcript:
    """What is said in a sound. As a string it is the text."""

    segments: Tuple[Segment, ...]
    language: Optional[str]
    """Its code; None: the model has but one language, or heard nothing."""
    language_probability: float
    """NaN: the language was asked for, not detected."""
    duration: float
    """Seconds of the sound that were heard."""

    @property
    def text(self) -> str:
        """The texts of all segments, without blanks at the ends."""
        return "".join(segment.text for segment in self.segments).strip()

    def __str__(self) -> str:
        return self.text


def _segment(one: Any) -> Segment:
    words = (one.words[i] for i in range(one.n_words))
    return Segment(
        one.start,
        one.end,
        text_of(one.text),
        tuple(ffi.unpack(one.tokens, one.n_tokens)) if one.n_tokens else (),
        one.temperature,
        one.average_logprob,
        one.compression_ratio,
        one.no_speech,
        tuple(Word(text_of(word.text), word.start, word.end, word.probability) for word in words),
    )


def _transcript(one: Any) -> Transcript:
    return Transcript(
        tuple(_segment(one.segments[i]) for i in range(one.n_segments)),
        text_of(one.language) if one.language else None,
        one.language_probability,
        one.duration,
    )


class _Sounds:
    """Sounds that are open during a call."""

    def __init__(self, sounds: Sequence["Sound"], rate: int) -> None:
        self.kept: List[Any] = []
        self.opened: List[Any] = []
        try:
            for i, sound in enumerate(sounds):
                try:
                    self.opened.append(self._open(sound, rate))
                except TesseraError as error:
                    raise type(error)(f"sound {i}: {error}") if len(sounds) > 1 else error
        except BaseException:
            self.close()
            raise

    def _open(self, sound: "Sound", rate: int) -> Any:
        options = sized("tsr_audio_options")
        path = _native.audio_path()
        options.plugins_path = ffi.new("char[]", path) if path is not None else ffi.NULL
        self.kept += [options, options.plugins_path]
        made = ffi.new("tsr_audio **")
        if isinstance(sound, (str, os.PathLike)):
            check(lib.tsr_audio_open(os.fsencode(os.fspath(sound)), options, made))
            return made[0]
        data: Any = sound
        if not isinstance(sound, (bytes, bytearray, memoryview)):
            import numpy as np

            data = np.ascontiguousarray(sound, dtype="<f4")
            if data.ndim != 1:
                raise InvalidArgumentError(f"samples of shape {data.shape}; one axis is expected: mono")
            options.raw, options.rate, options.channels = lib.TSR_AUDIO_F32, rate, 1
        self.kept += [data, ffi.from_buffer("char[]", data)]
        check(lib.tsr_audio_view(b"the sound", self.kept[-1], len(self.kept[-1]), options, made))
        return made[0]

    def close(self) -> None:
        for one in self.opened:
            lib.tsr_audio_close(one)
        self.opened = []


class _Call:
    """What a call is told while sounds are heard."""

    def __init__(self, tell: Optional[Callable[[int, Segment], Any]]) -> None:
        self.tell = tell
        self.failure: List[BaseException] = []
        self.is_stopping = False

    def stop(self) -> None:
        self.is_stopping = True

    def on_segment(self, number: int, segment: Any) -> int:
        if self.tell is not None and not self.is_stopping:
            try:
                self.tell(number, _segment(segment))
            except BaseException as error:
                self.failure.append(error)
                self.stop()
        return 1 if self.is_stopping else 0


class Transcriber(Closable):
    """A model of speech (Whisper) on a device.

    One call computes at a time; others wait for it. Close it, or use it in a ``with`` statement; what is left is closed
    when Python ends."""

    def __init__(
        self,
        model: Union[str, "os.PathLike[str]"],
        device: Optional[str] = "auto",
        precision: Optional[str] = None,
        *,
        batch: int = 0,
        strict: bool = False,
    ) -> None:
        """Loads a model.

        model: a folder with config.json and model.safetensors.
        device: ``"auto"``, ``"cpu"``, ``"vulkan:0"`` (see ``devices()``); None: TESSERA_DEVICE, else auto.
        precision: the type of the weights on the device: ``"f32"``, ``"f16"``, ``"bf16"``, ``"int8"``, ``"int4"``;
            None: as stored.
        batch: windows, of as many sounds, that are computed together at most; 0: 4.
        strict: fail where the device lacks an operator, instead of computing it on another device."""
        self._transcriber: Any = None
        self._path = os.fspath(model)
        self._turn = threading.Lock()
        runtime = _native.runtime()
        super().__init__()
        try:
            options = sized("tsr_transcriber_options")
            name = ffi.new("char[]", _native.device_name(device).encode())
            options.weights, options.device, options.runtime = _native.precision_of(precision), name, runtime
            options.strict, options.batch = 1 if strict else 0, batch
            made = ffi.new("tsr_transcriber **")
            check(lib.tsr_transcriber_open(os.fsencode(self._path), options, made))
            self._transcriber = made[0]
        except BaseException:
            self.close()
            raise

    def _free(self) -> None:
        lib.tsr_transcriber_close(self._transcriber or ffi.NULL)
        self._transcriber = None

    def __repr__(self) -> str:
        return f"<tessera.Transcriber of {self._path!r}{', closed' if self._is_closed else ''}>"

    @property
    def languages(self) -> List[str]:
        """The codes of the model's languages; of one that knows a single language, none."""
        with self._calling():
            tokenizer = lib.tsr_transcriber_tokenizer(self._transcriber)
            n = lib.tsr_tokenizer_n_languages(tokenizer)
            return [text_of(lib.tsr_tokenizer_language(tokenizer, i)) for i in range(n)]

    def _options(self, wishes: Dict[str, Any], kept: List[Any]) -> Any:
        options = sized("tsr_transcribe_options")
        check(lib.tsr_transcribe_defaults(options))
        task, beam, temperatures = wishes.pop("task"), wishes.pop("beam"), wishes.pop("temperatures")
        if task not in _TASKS:
            raise InvalidArgumentError(f"task={task!r}: there are {', '.join(_TASKS)}")
        options.task = _TASKS[task]
        search = defaults_of(lib.tsr_transcriber_model(self._transcriber))
        search.beam = search.beam if beam is None else beam
        options.search = search
        kept.append(search)
        for name in ("language", "prompt"):
            text = wishes.pop(name)
            if text is not None:
                kept.append(ffi.new("char[]", text.encode("utf-8", "surrogatepass")))
                setattr(options, name, kept[-1])
        if temperatures is not None:
            most = lib.TSR_MOST_TEMPERATURES
            if not 1 <= len(temperatures) <= most:
                raise InvalidArgumentError(f"{len(temperatures)} temperatures; from 1 to {most} are expected")
            options.n_temperatures = len(temperatures)
            options.temperatures[0 : len(temperatures)] = list(temperatures)
        for name, value in wishes.items():
            if value is not None:
                setattr(options, name, int(value) if isinstance(value, bool) else value)
        return options

    def _hear(self, sounds: _Sounds, wishes: Dict[str, Any], call: _Call) -> List[Transcript]:
        n = len(sounds.opened)
        kept: List[Any] = []
        options = self._options(wishes, kept)

        @ffi.callback("int32_t (*)(void *, int32_t, const tsr_segment *)")  # type: ignore[misc]
        def on_segment(_user: Any, number: int, segment: Any) -> int:
            return call.on_segment(number, segment)

        options.segment = on_segment
        array = ffi.new("tsr_audio *[]", sounds.opened)
        found = ffi.new("tsr_transcript[]", n)
        on_other_thread(lambda: int(lib.tsr_transcribe(self._transcriber, n, array, options, found)), call.stop)
        try:
            if call.failure:
                raise call.failure[0]
            for i in range(n):
                if found[i].status:
                    message = text_of(found[i].error)
                    raise error_of(found[i].status, f"sound {i}: {message}" if n > 1 else message)
            return [_transcript(found[i]) for i in range(n)]
        finally:
            for i in range(n):
                lib.tsr_transcript_finish(ffi.addressof(found, i))

    @overload
    def transcribe(
        self,
        sound: "Sound",
        *,
        task: str = ...,
        language: Optional[str] = ...,
        prompt: Optional[str] = ...,
        prompt_stays: bool = ...,
        condition_on_previous: bool = ...,
        timestamps: bool = ...,
        words: bool = ...,
        beam: Optional[int] = ...,
        temperatures: Optional[Sequence[float]] = ...,
        best_of: Optional[int] = ...,
        compression_ratio_limit: Optional[float] = ...,
        average_logprob_limit: Optional[float] = ...,
        no_speech_limit: Optional[float] = ...,
        seed: int = ...,
        rate: int = ...,
        segment: Optional[Callable[[int, Segment], Any]] = ...,
    ) -> Transcript: ...

    @overload
    def transcribe(
        self,
        sound: Union[List["Sound"], Tuple["Sound", ...]],
        *,
        task: str = ...,
        language: Optional[str] = ...,
        prompt: Optional[str] = ...,
        prompt_stays: bool = ...,
        condition_on_previous: bool = ...,
        timestamps: bool = ...,
        words: bool = ...,
        beam: Optional[int] = ...,
        temperatures: Optional[Sequence[float]] = ...,
        best_of: Optional[int] = ...,
        compression_ratio_limit: Optional[float] = ...,
        average_logprob_limit: Optional[float] = ...,
        no_speech_limit: Optional[float] = ...,
        seed: int = ...,
        rate: int = ...,
        segment: Optional[Callable[[int, Segment], Any]] = ...,
    ) -> List[Transcript]: ...

    def transcribe(
        self,
        sound: Any,
        *,
        task: str = "transcribe",
        language: Optional[str] = None,
        prompt: Optional[str] = None,
        prompt_stays: bool = False,
        condition_on_previous: bool = True,
        timestamps: bool = True,
        words: bool = False,
        beam: Optional[int] = None,
        temperatures: Optional[Sequence[float]] = None,
        best_of: Optional[int] = None,
        compression_ratio_limit: Optional[float] = None,
        average_logprob_limit: Optional[float] = None,
        no_speech_limit: Optional[float] = None,
        seed: int = 0,
        rate: int = 16000,
        segment: Optional[Callable[[int, Segment], Any]] = None,
    ) -> Union[Transcript, List[Transcript]]:
        """What is said in a sound of any length, or in each sound of a list, whose windows are computed together.

        >>> str(transcriber.transcribe("speech.wav"))

        sound: the path of a file, the bytes of one, or a NumPy array of mono samples from -1 to 1, ``rate`` a second.
        task: ``"transcribe"``, or ``"translate"`` into English.
        language: a code or an English name; None: it is detected in the first window.
        prompt: text that precedes the first window, or with ``prompt_stays`` every window: names, spelling.
        condition_on_previous: a window is told the text before it.
        timestamps: the model writes them; without them each window is one segment.
        words: segments have words with their times.
        beam: hypotheses that the search keeps; None: as the model's folder asks.
        temperatures, best_of, compression_ratio_limit, average_logprob_limit, no_speech_limit: a text that is not good
            enough is searched again with the next temperature (docs/transcribe.md); None: Whisper's. A limit of NaN is
            none.
        seed: of the draws: the same gives the same text.
        segment: called with the number of a sound and each segment as soon as it is heard; an exception, such as an
            interrupt from the keyboard, ends the call.

        If a sound fails, the error is raised, and a list gives nothing else."""
        is_list = isinstance(sound, (list, tuple))
        wishes = {
            name: value
            for name, value in locals().items()
            if name not in ("self", "sound", "rate", "segment", "is_list")
        }
        call = _Call(segment)
        with self._calling(call.stop), self._turn, contextlib.closing(
            _Sounds(list(sound) if is_list else [sound], rate)
        ) as sounds:
            found = self._hear(sounds, wishes, call) if sounds.opened else []
        return found if is_list else found[0]


__all__ = ["Segment", "Transcriber", "Transcript", "Word"]
