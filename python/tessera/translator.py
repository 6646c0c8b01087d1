# SPDX-License-Identifier: Apache-2.0
"""Texts in, translations out."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import os
import queue
import threading
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Deque,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Sized,
    Tuple,
    Union,
    overload,
)

from . import _native
from ._lifetime import BeingCalled, Closable, is_called
from ._native import check, ffi, lib, on_other_thread, sized, text_of, wait_for
from .errors import BusyError, CancelledError, InvalidArgumentError, TesseraError, error_of
from .options import Options, Request, defaults_of, options_of
from .results import Translation, translation_of

if TYPE_CHECKING:
    from .attention import Attention

# A list of so many texts has the devices for itself: sorted by length, in batches that nothing joins. Shorter ones
# queue with the texts of all callers.
TOGETHER = 256
# Texts that translate_iter has in work at once.
WINDOW = 1024


@dataclasses.dataclass(frozen=True)
class Score:
    """How probable the model finds a translation."""

    sum: float
    """Of the tokens' log-probabilities, the end token included."""
    score: float
    """The sum divided by the number of tokens to the power of the length penalty."""
    ids: Tuple[int, ...]
    log_probabilities: Tuple[float, ...]
    """Of each token, given those before it."""


# ---- answers, which threads of the library bring --------------------------------------------------------------------


class _Job:
    """A text on its way."""

    __slots__ = ("text", "done", "piece", "ticket", "answer", "error", "key")

    def __init__(
        self, text: bytes, done: Callable[["_Job"], None], piece: Optional[Callable[[str], None]] = None
    ) -> None:
        self.text = text
        self.done = done
        self.piece = piece
        self.ticket: Any = None
        self.answer: Optional[Translation] = None
        self.error: Optional[BaseException] = None
        self.key = 0

    def result(self) -> Translation:
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        return self.answer


_jobs: Dict[int, _Job] = {}
_keys = itertools.count(1)


def _tell(job: _Job) -> None:
    try:
        job.done(job)
    except RuntimeError:  # nobody waits any more: an event loop that was closed
        pass


@ffi.callback("void (*)(void *, uint64_t, const tsr_translation *)")  # type: ignore[misc]
def _on_answer(user: Any, _ticket: int, answer: Any) -> None:
    with BeingCalled():
        job = _jobs.pop(int(ffi.cast("uintptr_t", user)))
        try:
            if answer.status:
                job.error = error_of(answer.status, text_of(answer.message))
            else:
                job.answer = translation_of(answer, job.text)
        except BaseException as error:
            job.error = error
        _tell(job)


@ffi.callback("void (*)(void *, uint64_t, const char *, size_t)")  # type: ignore[misc]
def _on_piece(user: Any, _ticket: int, text: Any, size: int) -> None:
    with BeingCalled():
        job = _jobs.get(int(ffi.cast("uintptr_t", user)))
        if job is not None and job.piece is not None:
            job.piece(ffi.unpack(text, size).decode("utf-8", "replace"))


# ---- the translator -------------------------------------------------------------------------------------------------


class Translator(Closable):
    """A model on a device, and threads of the library's own that translate.

    Any number of threads and tasks may use it at once; their texts share batches. Close it, or use it in a ``with``
    statement; what is left is closed when Python ends."""

    def __init__(
        self,
        model: Union[str, "os.PathLike[str]"],
        device: Union[str, Sequence[str], None] = "auto",
        precision: Optional[str] = None,
        *,
        split: bool = False,
        source_language: Optional[str] = None,
        target_language: Optional[str] = None,
        batch: int = 0,
        workers: int = 0,
        queue_size: int = 0,
        strict: bool = False,
        alignment_layer: int = 0,
    ) -> None:
        """Loads a model.

        model: a folder with config.json and model.safetensors, a folder of CTranslate2, or a package of Argos.
        device: ``"auto"``, ``"cpu"``, ``"vulkan:0"`` (see ``devices()``); None: TESSERA_DEVICE, else auto. Several in a
            list translate side by side.
        split: the model is split over the devices of such a list, layer by layer, as their memory allows: for a model
            that none of them can hold.
        precision: the type of the weights on the device: ``"f32"``, ``"f16"``, ``"bf16"``, ``"int8"``, ``"int4"``;
            None: as stored.
        source_language, target_language: codes of a multilingual model, unless a call names others.
        batch: texts in a batch at most; 0: as many as suit the device. workers: batches side by side; 0: likewise.
        queue_size: texts that may wait; 0: 100,000.
        strict: fail where the device lacks an operator, instead of computing it on another device.
        alignment_layer: the decoder's layer that aligns, from 1; 0: the last but one; -1: it is looked for."""
        self._translator: Any = None
        self._model: Any = None
        self._tokenizer: Any = None
        self._requests: Dict[Options, Request] = {}
        self._path = os.fspath(model)
        runtime = _native.runtime()
        super().__init__()
        devices = [device] if device is None or isinstance(device, str) else list(device)
        if not devices:
            raise InvalidArgumentError("device=[]: there is no device in this list")
        try:
            self._open(
                runtime,
                [_native.device_name(one) for one in devices],
                split,
                _native.precision_of(precision),
                source_language,
                target_language,
                {"batch": batch, "workers": workers, "queue": queue_size, "alignment_layer": alignment_layer},
                strict,
            )
        except BaseException:
            self.close()
            raise

    def _open(
        self,
        runtime: Any,
        devices: List[str],
        split: bool,
        weights: int,
        source: Optional[str],
        target: Optional[str],
        numbers: Dict[str, int],
        strict: bool,
    ) -> None:
        made = ffi.new("tsr_model **")
        check(lib.tsr_model_open(os.fsencode(self._path), made))
        self._model = made[0]
        check(lib.tsr_model_check_weights(self._model))
        made = ffi.new("tsr_tokenizer **")
        check(lib.tsr_tokenizer_open(self._model, made))
        self._tokenizer = made[0]
        if source or target:
            codes = [code.encode() if code else ffi.NULL for code in (source, target)]
            check(lib.tsr_tokenizer_set_languages(self._tokenizer, *codes))
        options = sized("tsr_translator_options")
        texts = [ffi.new("char[]", name.encode()) for name in devices]
        names = ffi.new("char *[]", texts)
        options.devices = names
        options.n_devices = len(texts)
        options.split = 1 if split else 0
        options.runtime = runtime
        options.weights = weights
        options.strict = 1 if strict else 0
        for field, value in numbers.items():
            setattr(options, field, value)
        made = ffi.new("tsr_translator **")
        check(lib.tsr_translator_create(self._model, self._tokenizer, options, made))
        self._translator = made[0]

    def _free(self) -> None:
        lib.tsr_translator_close(self._translator or ffi.NULL)
        lib.tsr_tokenizer_close(self._tokenizer or ffi.NULL)
        lib.tsr_model_close(self._model or ffi.NULL)
        self._translator = self._tokenizer = self._model = None

    def __repr__(self) -> str:
        return f"<tessera.Translator of {self._path!r}{', closed' if self._is_closed else f' on {self.device}'}>"

    def _request(self, options: Options) -> Request:
        request = self._requests.get(options)
        if request is None:
            request = Request(self._model, options)
            if len(self._requests) > 100:
                self._requests.clear()
            self._requests[options] = request
        return request

    @property
    def device(self) -> str:
        """The name of the device that translates now, or of the first."""
        return self.devices[0]

    @property
    def devices(self) -> List[str]:
        """The names of all its devices, and of those that failed."""
        names: List[str] = []
        with self._calling():
            info = ffi.new("tsr_translator_device *")
            size = ffi.sizeof("tsr_translator_device")
            while lib.tsr_translator_get_device_sized(self._translator, len(names), info, size) == lib.TSR_OK:
                names.append(text_of(info.name))
        return names

    @property
    def languages(self) -> List[str]:
        """The codes of a multilingual model's languages; else none."""
        with self._calling():
            n = lib.tsr_tokenizer_n_languages(self._tokenizer)
            return [text_of(lib.tsr_tokenizer_language(self._tokenizer, i)) for i in range(n)]

    # ---- one by one, through the queue

    def _submit(self, job: _Job, request: Request, number: int) -> None:
        """Hands a text over. Raises BusyError if the queue is full."""
        with self._calling():
            one = ffi.new("tsr_translation_request *", request.template[0])
            held = ffi.from_buffer("char[]", job.text)
            one.text, one.text_size, one.number = held, len(job.text), number
            job.key = next(_keys)
            user = ffi.cast("void *", job.key)
            if job.piece is not None:
                one.piece, one.piece_user = _on_piece, user
            job.ticket = ffi.new("uint64_t *")
            _jobs[job.key] = job
            status = lib.tsr_translator_submit(self._translator, one, _on_answer, user, job.ticket)
            if status:
                _jobs.pop(job.key, None)
                check(status)

    def _cancel(self, job: _Job) -> None:
        if job.ticket is not None and not self._is_closed:
            with contextlib.suppress(ValueError), self._calling():
                lib.tsr_translator_cancel(self._translator, job.ticket[0])

    def _queued(self, texts: Iterable[str], request: Request, window: int) -> Iterator[Translation]:
        """Translations in the order of their texts, of which at most ``window`` are in work."""
        jobs: Deque[_Job] = collections.deque()
        events: Dict[_Job, threading.Event] = {}
        source = enumerate(texts)
        is_over = False
        try:
            while jobs or not is_over:
                while not is_over and len(jobs) < window:
                    item = next(source, None)
                    is_over = item is None
                    if item is None:
                        break
                    job = _Job(_bytes_of(item[1]), lambda done: events[done].set())
                    events[job] = threading.Event()
                    while True:
                        try:
                            self._submit(job, request, item[0])
                            break
                        except BusyError:
                            waiting = next((known for known in jobs if not events[known].is_set()), None)
                            events[waiting or job].wait(0.1 if waiting else 0.01)
                    jobs.append(job)
                if jobs:
                    first = jobs[0]
                    wait_for(events[first])
                    jobs.popleft()
                    del events[first]
                    yield first.result()
        finally:
            for job in jobs:
                self._cancel(job)
            if not is_called():
                for job in jobs:  # the library does not touch them any more
                    events[job].wait()

    # ---- many together

    def _together(self, texts: Sequence[str], request: Request) -> List[Translation]:
        n = len(texts)
        encoded = [_bytes_of(text) for text in texts]
        held = [ffi.from_buffer("char[]", text) for text in encoded]
        requests = ffi.new("tsr_translation_request[]", n)
        answers = ffi.new("tsr_translation *[]", n)
        template = request.template[0]
        stop = ffi.new("int32_t *")
        for i in range(n):
            requests[i] = template
            one = requests[i]
            one.text, one.text_size = held[i], len(encoded[i])

        def work() -> int:
            return int(
                lib.tsr_translator_translate_together(self._translator, n, requests, stop, answers)
            )

        def end() -> None:
            stop[0] = 1

        try:
            with self._calling(end):
                on_other_thread(work, end)
            failed = [i for i in range(n) if answers[i].status]
            if failed:
                self._raise(answers, failed, n)
            return [translation_of(answers[i], encoded[i]) for i in range(n)]
        finally:
            for i in range(n):
                lib.tsr_translation_free(answers[i])

    @staticmethod
    def _raise(answers: Any, failed: List[int], n: int) -> None:
        """The error of the text that the others were given up for."""
        first = next((i for i in failed if answers[i].status != lib.TSR_ERR_CANCELLED), failed[0])
        message = text_of(answers[first].message)
        is_about_text = answers[first].is_about_text and n > 1
        raise error_of(answers[first].status, f"text {first}: {message}" if is_about_text else message)

    # ---- what one can ask

    @overload
    def translate(  # type: ignore[misc]
        self, text: str, options: Optional[Options] = None, **changes: Any
    ) -> Translation: ...

    @overload
    def translate(
        self, text: Iterable[str], options: Optional[Options] = None, **changes: Any
    ) -> List[Translation]: ...

    def translate(
        self, text: Union[str, Iterable[str]], options: Optional[Options] = None, **changes: Any
    ) -> Union[Translation, List[Translation]]:
        """Translates a text, or all texts of a list.

        >>> str(translator.translate("Hello!", beam=4))

        What can be asked for is listed in ``Options``. If a text fails, the error is raised, and a list gives nothing
        else. An interrupt from the keyboard stops the search at the end of a step."""
        request = self._prepare(options, changes)
        if isinstance(text, str):
            return next(self._queued([text], request, 1))
        texts = list(text)
        if len(texts) < TOGETHER:
            return list(self._queued(texts, request, len(texts) + 1))
        return self._together(texts, request)

    def _prepare(self, options: Optional[Options], changes: Dict[str, Any]) -> Request:
        with self._calling():
            return self._request(options_of(options, changes))

    def translate_iter(
        self,
        texts: Iterable[str],
        options: Optional[Options] = None,
        *,
        window: int = WINDOW,
        progress: bool = False,
        **changes: Any,
    ) -> Iterator[Translation]:
        """Translates what an iterable gives, in its order, with at most ``window`` texts in memory.

        progress: True: shows a bar, if tqdm is installed."""
        if window < 1:
            raise InvalidArgumentError(f"window={window}: at least 1")
        found = self._queued(texts, self._prepare(options, changes), window)
        return _with_bar(found, texts) if progress else found

    def stream(self, text: str, options: Optional[Options] = None, **changes: Any) -> Iterator[str]:
        """Gives the best translation in pieces, as soon as each is certain; together they are its text."""
        request = self._prepare(options, changes)
        pieces: "queue.SimpleQueue[Optional[str]]" = queue.SimpleQueue()
        job = _Job(_bytes_of(text), lambda _: pieces.put(None), pieces.put)

        def run() -> Iterator[str]:
            self._submit(job, request, 0)
            is_over = False
            try:
                while True:
                    try:
                        piece = pieces.get(timeout=0.1)  # as wait_for
                    except queue.Empty:
                        continue
                    is_over = piece is None
                    if piece is None:
                        job.result()
                        return
                    yield piece
            finally:
                if not is_over:
                    self._cancel(job)
                    while not is_called() and pieces.get() is not None:
                        pass

        return run()

    async def translate_async(self, text: str, options: Optional[Options] = None, **changes: Any) -> Translation:
        """Translates a text; tasks that wait at the same time share batches. Cancelling the task gives the text up."""
        request = self._prepare(options, changes)
        loop = asyncio.get_running_loop()
        future: "asyncio.Future[None]" = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        job = _Job(_bytes_of(text), lambda _: _in_loop(loop, wake))
        while True:
            try:
                self._submit(job, request, 0)
                break
            except BusyError:
                await asyncio.sleep(0.01)
        try:
            await future
        except asyncio.CancelledError:
            self._cancel(job)
            raise
        return job.result()

    @overload
    def score(  # type: ignore[misc]
        self, source: str, target: str, *, length_penalty: float = 1.0
    ) -> Score: ...

    @overload
    def score(self, source: Sequence[str], target: Sequence[str], *, length_penalty: float = 1.0) -> List[Score]: ...

    def score(
        self, source: Union[str, Sequence[str]], target: Union[str, Sequence[str]], *, length_penalty: float = 1.0
    ) -> Union[Score, List[Score]]:
        """How probable the model finds a given translation of a text, or those of a list."""
        if isinstance(source, str) and isinstance(target, str):
            return self._scores([source], [target], length_penalty)[0]
        if isinstance(source, str) or isinstance(target, str) or len(source) != len(target):
            raise InvalidArgumentError("score: as many targets as sources, please")
        chunk = 256
        found: List[Score] = []
        for at in range(0, len(source), chunk):
            found += self._scores(source[at : at + chunk], target[at : at + chunk], length_penalty)
        return found

    def _scores(self, sources: Sequence[str], targets: Sequence[str], length_penalty: float) -> List[Score]:
        with self._calling():
            source = [self._cut(self._encode(text, lib.tsr_tokenizer_encode)) for text in sources]
            target = [self._cut(self._encode(text, lib.tsr_tokenizer_encode_target)) for text in targets]
        options = sized("tsr_score_options")
        options.length_penalty = length_penalty
        start = self._start()
        held = ffi.new("int32_t *", start)
        options.decoder_start_id = held if start >= 0 else ffi.NULL
        lists = [_lists_of(source), _lists_of(target)]
        scores = ffi.new("tsr_scores *")

        def work() -> int:
            return int(
                lib.tsr_translator_score(
                    self._translator, len(source), *lists[0][:2], *lists[1][:2], options, ffi.NULL, ffi.NULL, scores
                )
            )

        with self._calling():
            on_other_thread(work, lambda: None)
        try:
            return [
                Score(
                    scores.targets[i].sum,
                    scores.targets[i].score,
                    tuple(target[i]),
                    tuple(ffi.unpack(scores.targets[i].tokens, scores.targets[i].n_tokens)) if target[i] else (),
                )
                for i in range(len(source))
            ]
        finally:
            lib.tsr_scores_finish(scores)

    def _start(self) -> int:
        """The token that the decoder starts with, if a language was chosen or the folder names one; else -1."""
        info = self._text_info()
        with self._calling():
            search = defaults_of(self._model)
        if info.decoder_start_id >= 0:
            return int(info.decoder_start_id)
        return int(search.decoder_start_id)

    def _text_info(self) -> Any:
        with self._calling():
            info = ffi.new("tsr_tokenizer_info *")
            check(lib.tsr_tokenizer_get_info_sized(self._tokenizer, info, ffi.sizeof("tsr_tokenizer_info")))
            return info

    def _use(self, work: Callable[[Any], int]) -> None:
        """Calls ``work`` with the transformer, when the batches that run have ended."""

        @ffi.callback("tsr_status (*)(void *, tsr_transformer *)")  # type: ignore[misc]
        def use(_user: Any, transformer: Any) -> int:
            try:
                return work(transformer)
            except BaseException as error:
                failure.append(error)
                return int(lib.TSR_ERR_CANCELLED)

        failure: List[BaseException] = []
        with self._calling():
            try:
                on_other_thread(lambda: int(lib.tsr_translator_use(self._translator, 0, use, ffi.NULL)), lambda: None)
            except TesseraError:
                if failure:
                    raise failure[0] from None
                raise

    def attention(self, text: str, target: Optional[str] = None) -> "Attention":
        """What the model attends to when it translates a text, or when it is told to write ``target``."""
        from .attention import attention_of

        return attention_of(self, text, target)

    # ---- tokens

    def _encode(self, text: str, encode: Any) -> List[int]:
        data = _bytes_of(text)
        ids, n = ffi.new("int32_t **"), ffi.new("int32_t *")
        check(encode(self._tokenizer, ffi.from_buffer("char[]", data), len(data), ids, n))
        try:
            return list(ffi.unpack(ids[0], n[0])) if n[0] else []
        finally:
            lib.tsr_free(ids[0])

    def _cut(self, ids: List[int]) -> List[int]:
        """As many tokens as the model has positions; the last one stays."""
        most = lib.tsr_model_config(self._model).max_positions
        return ids[: most - 1] + ids[-1:] if 0 < most < len(ids) else ids

    def tokenize(self, text: str, *, target: bool = False) -> List[int]:
        """The ids of a text, with the special tokens that the model expects; with ``target``, of a translation."""
        with self._calling():
            return self._encode(text, lib.tsr_tokenizer_encode_target if target else lib.tsr_tokenizer_encode)

    def detokenize(self, ids: Sequence[int], *, source: bool = False) -> str:
        """The text of a translation's ids; with ``source``, of a source's. Special tokens are left out."""
        with self._calling():
            text = ffi.new("char **")
            side = lib.TSR_SIDE_SOURCE if source else lib.TSR_SIDE_TARGET
            check(lib.tsr_tokenizer_decode_side(self._tokenizer, side, ffi.new("int32_t[]", ids), len(ids), text))
            try:
                return text_of(text[0])
            finally:
                lib.tsr_free(text[0])

    def tokens(self, ids: Sequence[int], *, source: bool = False) -> List[str]:
        """Ids as the vocabulary spells them."""
        with self._calling():
            side = lib.TSR_SIDE_SOURCE if source else lib.TSR_SIDE_TARGET
            return [text_of(lib.tsr_tokenizer_token(self._tokenizer, side, i)) for i in ids]


def _bytes_of(text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"a text must be a str, not {type(text).__name__}")
    return text.encode("utf-8", "surrogatepass")


def _lists_of(lists: Sequence[Sequence[int]]) -> Tuple[Any, Any, List[Any]]:
    """Pointers to lists of ids, their lengths, and what has to live as long."""
    held = [ffi.new("int32_t[]", list(ids) or [0]) for ids in lists]
    return ffi.new("int32_t *[]", held), ffi.new("int32_t[]", [len(ids) for ids in lists]), held


def _in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(function)


def _with_bar(found: Iterator[Translation], texts: Iterable[str]) -> Iterator[Translation]:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return found
    bar: Iterator[Translation] = iter(tqdm(found, total=len(texts) if isinstance(texts, Sized) else None))
    return bar


__all__ = ["Score", "Translator", "CancelledError"]
