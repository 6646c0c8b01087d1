# SPDX-License-Identifier: Apache-2.0
"""A second face, with CTranslate2's names: a program that translates with ctranslate2.Translator runs by changing one
import.

    from tessera import ctranslate2

    translator = ctranslate2.Translator("folder")
    translator.translate_batch([["▁Hello", "</s>"]], beam_size=4)[0].hypotheses[0]

The model is a folder of CTranslate2's, or any other that ``tessera.Translator`` takes. What is not there is refused by
its name."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import secrets
import struct
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _native
from ._lifetime import Closable, called
from ._native import check, ffi, lib, on_other_thread, sized, text_of
from .errors import FormatError, InvalidArgumentError, UnsupportedError
from .results import array_of

Tokens = Sequence[str]

_COMPUTE_TYPES = {
    "default": 0,
    "auto": 0,
    "float32": lib.TSR_F32,
    "float16": lib.TSR_F16,
    "bfloat16": lib.TSR_BF16,
    "int8": lib.TSR_I8,
    "int8_float32": lib.TSR_I8,
    "int8_float16": lib.TSR_I8,
    "int8_bfloat16": lib.TSR_I8,
}
# Texts of one search; between two of them the keyboard may interrupt.
_CHUNK = 1024

_seeds = itertools.count(secrets.randbits(32) << 20)
_jobs_lock = threading.Lock()


def set_random_seed(seed: int) -> None:
    """Calls that sample draw the same from now on, whenever this is called with the same number."""
    global _seeds
    with _jobs_lock:
        _seeds = itertools.count(seed << 20)


@dataclasses.dataclass
class TranslationResult:
    """The translations of one text."""

    hypotheses: List[List[str]]
    scores: List[float] = dataclasses.field(default_factory=list)
    """With return_scores."""
    attention: List[List[List[float]]] = dataclasses.field(default_factory=list)
    """With return_attention: of each hypothesis, each token, each source token."""

    def __len__(self) -> int:
        return len(self.hypotheses)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        found: Dict[str, Any] = {"tokens": self.hypotheses[index]}
        if self.scores:
            found["score"] = self.scores[index]
        if self.attention:
            found["attention"] = self.attention[index]
        return found


@dataclasses.dataclass
class ScoringResult:
    """How probable a model finds the tokens of a translation, the end token included."""

    tokens: List[str]
    log_probs: List[float]


@dataclasses.dataclass
class GenerationStepResult:
    """A token, as ``callback`` receives it."""

    step: int
    batch_id: int
    token_id: int
    hypothesis_id: int
    token: str
    is_last: bool


class AsyncTranslationResult:
    """A result that is on its way."""

    def __init__(self, future: "concurrent.futures.Future[List[Any]]", index: int) -> None:
        self._future, self._index = future, index

    def done(self) -> bool:
        """Whether it is there."""
        return self._future.done()

    def result(self) -> Any:
        """Waits for it."""
        return self._future.result()[self._index]


AsyncScoringResult = AsyncTranslationResult


# ---- what a folder says ---------------------------------------------------------------------------------------------


def _scalars(path: pathlib.Path) -> Dict[str, int]:
    """The whole numbers of one element that model.bin has beside its tensors."""
    found: Dict[str, int] = {}
    formats = {(0, 1): "<b", (1, 1): "<b", (2, 2): "<h", (3, 4): "<i"}
    with path.open("rb") as file:

        def take(form: str) -> int:
            data = file.read(struct.calcsize(form))
            if len(data) < struct.calcsize(form):
                raise FormatError(f"{path}: ends within its list of tensors")
            return int(struct.unpack(form, data)[0])

        def name() -> str:
            return file.read(take("<H"))[:-1].decode("utf-8", "replace")

        version = take("<I")
        if version >= 2:
            name()
            take("<I")
        for _ in range(take("<I")):
            key, rank = name(), take("<B")
            for _ in range(rank):
                take("<I")
            kind = take("<B")
            size = take("<I") if version >= 4 else take("<I") * kind
            form = formats.get((kind, size)) if version >= 4 else {1: "<b", 2: "<h"}.get(size if rank == 0 else 0)
            if rank == 0 and form:
                found[key] = take(form)
            else:
                file.seek(size, os.SEEK_CUR)
    return found


def _vocabulary(folder: pathlib.Path, side: str) -> Optional[List[str]]:
    for stem in (f"{side}_vocabulary", "shared_vocabulary"):
        path = folder / f"{stem}.json"
        if path.exists():
            return list(json.loads(path.read_text(encoding="utf-8")))
        path = folder / f"{stem}.txt"
        if path.exists():
            lines = path.read_bytes().decode("utf-8", "replace").split("\n")
            lines = lines[:-1] if lines[-1] == "" else lines
            return [line[:-1] for line in lines] if all(line.endswith("\r") for line in lines) else lines
    return None


class _Vocabulary:
    """Tokens of a side and their ids."""

    def __init__(self, tokens: List[str], unk: str) -> None:
        self.tokens = tokens if unk in tokens else tokens + [unk]
        self.ids: Dict[str, int] = {}
        for i, token in enumerate(self.tokens):
            self.ids.setdefault(token, i)
        self.unk = unk
        self.unk_id = self.ids[unk]

    def id(self, token: str) -> int:
        return self.ids.get(token, self.unk_id)

    def known_id(self, token: Union[str, int]) -> int:
        if isinstance(token, int):
            return token
        if token not in self.ids:
            raise InvalidArgumentError(f"the vocabulary has no token {token!r}")
        return self.ids[token]


class _Folder:
    """What the caller of CTranslate2 leaves to the model's folder."""

    def __init__(self, path: str, model: Any) -> None:
        folder = pathlib.Path(path)
        config_file, binary = folder / "config.json", folder / "model.bin"
        is_ctranslate2 = binary.exists() and (folder / "model.safetensors").exists() is False
        config: Dict[str, Any] = {}
        scalars: Dict[str, int] = {}
        if is_ctranslate2:
            scalars = _scalars(binary)
            if config_file.exists():
                config = json.loads(config_file.read_text(encoding="utf-8"))
        self.adds_bos = bool(config.get("add_source_bos", scalars.get("with_source_bos", 0)))
        self.adds_eos = bool(config.get("add_source_eos", scalars.get("with_source_eos", 0)))
        self.bos, self.eos = config.get("bos_token", "<s>"), config.get("eos_token", "</s>")
        unk = config.get("unk_token", "<unk>")
        lists = [_vocabulary(folder, side) for side in ("source", "target")]
        if not is_ctranslate2 or None in lists:
            lists, unk = self._of_tokenizer(model)
        self.source, self.target = (_Vocabulary(list(tokens or []), unk) for tokens in lists)
        layers = lib.tsr_model_config(model).decoder_layers
        layer = scalars.get("decoder/alignment_layer", scalars.get("alignment_layer", -1))
        self.attention_layer = layer + layers + 1 if layer < 0 else layer + 1
        self.attention_heads = scalars.get("decoder/alignment_heads", scalars.get("alignment_heads", 1))

    def _of_tokenizer(self, model: Any) -> Tuple[List[Optional[List[str]]], str]:
        made = ffi.new("tsr_tokenizer **")
        check(lib.tsr_tokenizer_open(model, made))
        try:
            info = ffi.new("tsr_tokenizer_info *")
            check(lib.tsr_tokenizer_get_info_sized(made[0], info, ffi.sizeof("tsr_tokenizer_info")))
            lists: List[Optional[List[str]]] = []
            sizes = {lib.TSR_SIDE_SOURCE: info.source_vocabulary, lib.TSR_SIDE_TARGET: info.target_vocabulary}
            for side, n in sizes.items():
                lists.append([text_of(lib.tsr_tokenizer_token(made[0], side, i)) for i in range(n)])
            unk, eos = info.unk_id, info.eos_id
            target = lists[1] or []
            self.eos = target[eos] if 0 <= eos < len(target) else self.eos
            return lists, target[unk] if 0 <= unk < len(target) else "<unk>"
        finally:
            lib.tsr_tokenizer_close(made[0])


# ---- the translator -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Settings:
    """The arguments of translate_batch that the search hears of."""

    n_batch: int
    return_end_token: bool
    return_scores: bool
    return_attention: bool
    replace_unknowns: bool
    max_input_length: int
    ends: Tuple[int, ...]
    callback: Optional[Callable[[GenerationStepResult], Optional[bool]]]
    kept: List[Any]
    """What the search points to."""


def _never_close() -> None:
    """The thread of a pool may hold its translator last; to close that would wait for the thread."""
    called.now = True


class Translator(Closable):
    """Translates tokens. Any number of threads may call it; their calls are searched one after another."""

    def __init__(
        self,
        model_path: Union[str, "os.PathLike[str]"],
        device: str = "cpu",
        *,
        device_index: Union[int, List[int]] = 0,
        compute_type: Union[str, Mapping[str, str]] = "default",
        inter_threads: int = 1,
        intra_threads: int = 0,
        max_queued_batches: int = 0,
        flash_attention: bool = False,
        tensor_parallel: bool = False,
        files: Optional[object] = None,
    ) -> None:
        """Loads a model.

        device: ``"cpu"``, ``"auto"``, or a name of Tessera's such as ``"vulkan:0"``.
        compute_type: ``"default"`` (as stored), ``"float32"``, ``"float16"``, ``"bfloat16"``, ``"int8"``,
        ``"int8_float32"`` ...
        inter_threads, intra_threads, max_queued_batches: accepted; the library uses all processors by itself."""
        for name, value, usual in (
            ("device_index", device_index, 0),
            ("flash_attention", flash_attention, False),
            ("tensor_parallel", tensor_parallel, False),
            ("files", files, None),
        ):
            if value != usual:
                raise UnsupportedError(f"{name}={value!r} is not there")
        if device == "cuda":
            raise UnsupportedError("device='cuda' is not there: 'auto' finds a GPU through its Vulkan driver")
        if not isinstance(compute_type, str):
            compute_type = compute_type.get(device, "default")
        if compute_type not in _COMPUTE_TYPES:
            raise UnsupportedError(f"compute_type={compute_type!r} is not there; {', '.join(_COMPUTE_TYPES)} are")
        self.device = device
        self.compute_type = compute_type
        self.model_path = os.fspath(model_path)
        self._model: Any = None
        self._device: Any = None
        self._transformer: Any = None
        self._searching = threading.Lock()
        self._pool: Optional[concurrent.futures.ThreadPoolExecutor] = None
        runtime = _native.runtime()
        super().__init__()
        try:
            made = ffi.new("tsr_model **")
            check(lib.tsr_model_open(os.fsencode(self.model_path), made))
            self._model = made[0]
            check(lib.tsr_model_check_weights(self._model))
            self._folder = _Folder(self.model_path, self._model)
            made = ffi.new("tsr_device **")
            check(lib.tsr_device_open(runtime, device.encode(), made))
            self._device = made[0]
            options = sized("tsr_transformer_options")
            options.weights = _COMPUTE_TYPES[compute_type]
            made = ffi.new("tsr_transformer **")
            check(lib.tsr_transformer_create(self._model, self._device, options, made))
            self._transformer = made[0]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Waits for the calls that run, and frees the model. Does nothing a second time."""
        if self._pool is not None:
            self._pool.shutdown()
        super().close()

    def _free(self) -> None:
        lib.tsr_transformer_destroy(self._transformer or ffi.NULL)
        lib.tsr_device_close(self._device or ffi.NULL)
        lib.tsr_model_close(self._model or ffi.NULL)

    def _later(self, work: Callable[[], List[Any]], n: int) -> List[AsyncTranslationResult]:
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(1, "tessera", initializer=_never_close)
        future = self._pool.submit(work)
        return [AsyncTranslationResult(future, i) for i in range(n)]

    # ---- translate

    def translate_batch(
        self,
        source: Sequence[Tokens],
        target_prefix: Optional[Sequence[Optional[Tokens]]] = None,
        *,
        max_batch_size: int = 0,
        batch_type: str = "examples",
        asynchronous: bool = False,
        beam_size: int = 2,
        patience: float = 1,
        num_hypotheses: int = 1,
        length_penalty: float = 1,
        coverage_penalty: float = 0,
        repetition_penalty: float = 1,
        no_repeat_ngram_size: int = 0,
        disable_unk: bool = False,
        suppress_sequences: Optional[Sequence[Tokens]] = None,
        end_token: Optional[Union[str, Sequence[str], Sequence[int]]] = None,
        return_end_token: bool = False,
        max_input_length: int = 1024,
        max_decoding_length: int = 256,
        min_decoding_length: int = 1,
        use_vmap: bool = False,
        return_scores: bool = False,
        return_attention: bool = False,
        return_alternatives: bool = False,
        min_alternative_expansion_prob: float = 0,
        sampling_topk: int = 1,
        sampling_topp: float = 1,
        sampling_temperature: float = 1,
        replace_unknowns: bool = False,
        callback: Optional[Callable[[GenerationStepResult], Optional[bool]]] = None,
    ) -> List[Any]:
        """Translates lists of tokens: a TranslationResult for each, or with ``asynchronous`` an
        AsyncTranslationResult."""
        if use_vmap:
            raise UnsupportedError("use_vmap is not there")
        if min_alternative_expansion_prob:
            raise UnsupportedError("min_alternative_expansion_prob is not there")
        if callback and beam_size != 1:
            raise InvalidArgumentError("callback: only with beam_size=1")
        if sampling_topk != 1 and beam_size != 1:
            raise UnsupportedError("sampling_topk is not there with beam_size above 1")
        _check_batch_type(batch_type)
        folder = self._folder
        search = sized("tsr_generate_options")
        with self._calling():
            check(lib.tsr_generate_defaults(self._model, search))
            kept: List[Any] = []
            search.search = lib.TSR_SEARCH_CTRANSLATE2
            search.beam, search.n_best = beam_size, num_hypotheses
            search.patience, search.length_penalty = patience, length_penalty
            search.coverage_penalty, search.repetition_penalty = coverage_penalty, repetition_penalty
            search.no_repeat_ngram = no_repeat_ngram_size
            search.max_length = self._most(max_decoding_length) + 1
            search.min_length = min_decoding_length + 1
            search.forced_bos_id = search.forced_eos_id = -1
            search.scores = 1 if return_scores else 0
            search.sample = 1 if sampling_topk != 1 else 0
            search.top_k, search.top_p, search.temperature = sampling_topk, sampling_topp, sampling_temperature
            if not search.sample:
                search.top_k, search.top_p, search.temperature = 0, 0, 0
            if return_alternatives and num_hypotheses > 1:
                search.alternatives, search.n_best = num_hypotheses, 1
            if return_attention or replace_unknowns:
                search.attention, search.attention_layer = 1, folder.attention_layer
                search.attention_heads = (1 << folder.attention_heads) - 1
            with _jobs_lock:
                search.seed = next(_seeds) & 0xFFFFFFFFFFFFFFFF
            _suppress(search, kept, folder.target, disable_unk, suppress_sequences or ())
            ends = self._ends(end_token)
            if ends:
                kept.append(ffi.new("int32_t[]", ends))
                search.eos, search.n_eos = kept[-1], len(ends)
            settings = _Settings(
                max_batch_size if batch_type == "examples" else 0,
                return_end_token,
                return_scores,
                return_attention,
                replace_unknowns,
                max_input_length,
                tuple(ends) or (lib.tsr_model_config(self._model).eos_id,),
                callback,
                kept,
            )
        sources = [list(tokens) for tokens in source]
        prefixes = [list(tokens or ()) for tokens in target_prefix] if target_prefix is not None else None
        if prefixes is not None and len(prefixes) != len(sources):
            raise InvalidArgumentError(f"target_prefix: {len(prefixes)} for {len(sources)} sources")

        def work() -> List[Any]:
            with self._calling():
                return self._translate(sources, prefixes, search, settings)

        return list(self._later(work, len(sources))) if asynchronous else work()

    def _most(self, length: int) -> int:
        positions: int = lib.tsr_model_config(self._model).max_positions
        return min(length, positions) if positions > 0 else length

    def _ends(self, end_token: Optional[Union[str, Sequence[str], Sequence[int]]]) -> List[int]:
        if end_token is None:
            return []
        every: Sequence[Union[str, int]] = [end_token] if isinstance(end_token, str) else list(end_token)
        return [self._folder.target.known_id(token) for token in every]

    def _source_ids(self, tokens: Tokens, max_input_length: int) -> List[int]:
        folder = self._folder
        ids = [folder.source.id(token) for token in tokens]
        ids = ([folder.source.id(folder.bos)] if folder.adds_bos else []) + ids
        ids += [folder.source.id(folder.eos)] if folder.adds_eos else []
        if 0 < max_input_length < len(ids):
            is_ended = ids[-1] == folder.source.id(folder.eos)
            ids = ids[: max_input_length - is_ended] + (ids[-1:] if is_ended else [])
        return ids

    def _translate(
        self,
        sources: List[List[str]],
        prefixes: Optional[List[List[str]]],
        search: Any,
        settings: _Settings,
    ) -> List[Any]:
        folder = self._folder
        ids = [self._source_ids(tokens, settings.max_input_length) for tokens in sources]
        given = [[folder.target.id(token) for token in prefix] for prefix in prefixes] if prefixes else None
        has_start = lib.tsr_model_config(self._model).decoder_start_id >= 0
        # Without a start token of the model's, a prefix brings it; of one search all texts have the same.
        groups: Dict[int, List[int]] = {}
        for i in range(len(ids)):
            if not has_start and not (given and given[i]):
                raise InvalidArgumentError(f"target_prefix: text {i} has none, and the model no start token")
            groups.setdefault(-1 if has_start or not given else given[i][0], []).append(i)
        found: List[Any] = [None] * len(ids)
        for start, group in groups.items():
            for at in range(0, len(group), _CHUNK):
                chunk = group[at : at + _CHUNK]
                search.decoder_start_id = start if start >= 0 else lib.tsr_model_config(self._model).decoder_start_id
                begins = [given[i][start >= 0 :] for i in chunk] if given else None
                results = self._search([ids[i] for i in chunk], begins, search, settings, chunk, sources)
                for i, result in zip(chunk, results):
                    found[i] = result
        return found

    def _search(
        self,
        ids: List[List[int]],
        prefixes: Optional[List[List[int]]],
        search: Any,
        settings: _Settings,
        numbers: List[int],
        sources: List[List[str]],
    ) -> List[TranslationResult]:
        pointers, lengths, held = _lists_of(ids)
        begins = _lists_of(prefixes or [])
        has_prefix = any(prefixes or ())
        search.prefix = begins[0] if has_prefix else ffi.NULL
        search.prefix_lengths = begins[1] if has_prefix else ffi.NULL
        search.first_sentence = numbers[0] if numbers else 0
        failure: List[BaseException] = []
        tell = self._token_function(settings, numbers, failure)
        search.token = tell or ffi.NULL
        generation = ffi.new("tsr_generation *")

        def work() -> int:
            return int(
                lib.tsr_generate(
                    self._transformer,
                    len(ids),
                    pointers,
                    lengths,
                    settings.n_batch,
                    search,
                    ffi.NULL,
                    ffi.NULL,
                    generation,
                )
            )

        with self._searching:
            on_other_thread(work, lambda: None)
        del held
        try:
            if failure:
                raise failure[0]
            n = generation.n_best
            return [
                self._result(generation.hypotheses, i * n, n, sources[number], settings)
                for i, number in enumerate(numbers)
            ]
        finally:
            lib.tsr_generation_finish(generation)

    def _token_function(self, settings: _Settings, numbers: List[int], failure: List[BaseException]) -> Any:
        if settings.callback is None:
            return None
        callback: Callable[[GenerationStepResult], Optional[bool]] = settings.callback
        tokens = self._folder.target.tokens

        @ffi.callback("int32_t (*)(void *, const tsr_token *)")  # type: ignore[misc]
        def tell(_user: Any, token: Any) -> int:
            if failure:
                return 1
            try:
                step = GenerationStepResult(
                    token.step,
                    numbers[token.sentence],
                    token.id,
                    token.hypothesis,
                    tokens[token.id],
                    token.is_last != 0,
                )
                return 1 if callback(step) else 0
            except BaseException as error:
                failure.append(error)
                return 1

        return tell

    def _result(
        self, hypotheses: Any, first: int, n: int, source: List[str], settings: _Settings
    ) -> TranslationResult:
        result = TranslationResult([])
        vocabulary = self._folder.target
        for k in range(first, first + n):
            h = hypotheses[k]
            ids = list(ffi.unpack(h.ids, h.n_ids)) if h.n_ids > 0 else []
            weights = array_of(h.attention, h.n_ids, h.n_source) if h.attention != ffi.NULL else None
            if ids and ids[-1] in settings.ends and not settings.return_end_token:
                ids.pop()
            tokens = [vocabulary.tokens[i] for i in ids]
            if settings.replace_unknowns and weights is not None:
                for at, i in enumerate(ids):
                    if i == vocabulary.unk_id:
                        tokens[at] = self._source_token(source, int(weights[at].argmax()))
            result.hypotheses.append(tokens)
            if settings.return_scores:
                result.scores.append(h.score)
            if settings.return_attention and weights is not None:
                result.attention.append([[float(weight) for weight in row] for row in weights[: len(ids)]])
        return result

    def _source_token(self, source: List[str], at: int) -> str:
        at -= self._folder.adds_bos
        return source[at] if 0 <= at < len(source) else str(self._folder.eos if at > 0 else self._folder.bos)

    def translate_iterable(
        self,
        source: Iterable[Tokens],
        target_prefix: Optional[Iterable[Optional[Tokens]]] = None,
        max_batch_size: int = 32,
        batch_type: str = "examples",
        **kwargs: Any,
    ) -> Iterator[TranslationResult]:
        """The same for any number of texts, in their order, with a bounded number of them in memory. ``kwargs`` are
        those of translate_batch."""
        _check_batch_type(batch_type)
        if kwargs.pop("asynchronous", False):
            raise UnsupportedError("asynchronous is not there in translate_iterable")
        pairs: Iterator[Tuple[Tokens, Optional[Tokens]]] = (
            zip(source, itertools.repeat(None)) if target_prefix is None else zip(source, target_prefix)
        )
        while True:
            chunk = list(itertools.islice(pairs, _CHUNK))
            if not chunk:
                return
            prefixes = None if target_prefix is None else [prefix for _, prefix in chunk]
            yield from self.translate_batch(
                [tokens for tokens, _ in chunk],
                prefixes,
                max_batch_size=max_batch_size,
                batch_type=batch_type,
                **kwargs,
            )

    # ---- score

    def score_batch(
        self,
        source: Sequence[Tokens],
        target: Sequence[Tokens],
        *,
        max_batch_size: int = 0,
        batch_type: str = "examples",
        max_input_length: int = 1024,
        offset: int = 0,
        asynchronous: bool = False,
    ) -> List[Any]:
        """The log-probabilities of given translations: a ScoringResult for each."""
        if offset:
            raise UnsupportedError("offset is not there")
        if len(source) != len(target):
            raise InvalidArgumentError(f"target: {len(target)} for {len(source)} sources")
        _check_batch_type(batch_type)
        sources = [list(tokens) for tokens in source]
        targets = [list(tokens) for tokens in target]
        n_batch = max_batch_size if batch_type == "examples" else 0

        def work() -> List[Any]:
            found: List[Any] = []
            for at in range(0, len(sources), _CHUNK):
                part = slice(at, at + _CHUNK)
                with self._calling():
                    found += self._score(sources[part], targets[part], n_batch, max_input_length)
            return found

        return list(self._later(work, len(sources))) if asynchronous else work()

    def _score(
        self, sources: List[List[str]], targets: List[List[str]], n_batch: int, max_input_length: int
    ) -> List[ScoringResult]:
        folder = self._folder
        config = lib.tsr_model_config(self._model)
        ids = [self._source_ids(tokens, max_input_length) for tokens in sources]
        wanted = [[folder.target.id(token) for token in tokens] + [config.eos_id] for tokens in targets]
        groups: Dict[int, List[int]] = {}
        for i, tokens in enumerate(wanted):
            groups.setdefault(-1 if config.decoder_start_id >= 0 else tokens[0], []).append(i)
        found: List[Any] = [None] * len(ids)
        for start, group in groups.items():
            rest = [wanted[i][start >= 0 :] for i in group]
            from_lists, to_lists = _lists_of([ids[i] for i in group]), _lists_of(rest)
            options = sized("tsr_score_options")
            options.n_batch, options.length_penalty = n_batch, 1
            held = ffi.new("int32_t *", max(start, 0))
            options.decoder_start_id = held if start >= 0 else ffi.NULL
            scores = ffi.new("tsr_scores *")

            def work() -> int:
                lists = (*from_lists[:2], *to_lists[:2])
                return int(
                    lib.tsr_score(self._transformer, len(group), *lists, options, ffi.NULL, ffi.NULL, scores)
                )

            with self._searching:
                on_other_thread(work, lambda: None)
            for k, i in enumerate(group):
                of = scores.targets[k]
                tokens = [folder.target.tokens[id] for id in rest[k]]
                found[i] = ScoringResult(tokens, list(ffi.unpack(of.tokens, of.n_tokens)) if of.n_tokens else [])
            lib.tsr_scores_finish(scores)
        return found


def _check_batch_type(batch_type: str) -> None:
    if batch_type not in ("examples", "tokens"):
        raise InvalidArgumentError(f"batch_type={batch_type!r}: 'examples' or 'tokens'")


def _lists_of(lists: Sequence[Sequence[int]]) -> Tuple[Any, Any, List[Any]]:
    """Pointers to lists of ids, their lengths, and what has to live as long."""
    held = [ffi.new("int32_t[]", list(ids) or [0]) for ids in lists]
    return ffi.new("int32_t *[]", held), ffi.new("int32_t[]", [len(ids) for ids in lists]), held


def _suppress(
    search: Any, kept: List[Any], vocabulary: _Vocabulary, disable_unk: bool, sequences: Iterable[Tokens]
) -> None:
    """Tokens and sequences of them that never come out."""
    single = [vocabulary.unk_id] if disable_unk else []
    words: List[int] = []
    for tokens in sequences:
        ids = [vocabulary.known_id(token) for token in tokens]
        if len(ids) == 1:
            single += ids
        elif ids:
            words += [len(ids)] + ids
    if single:
        kept.append(ffi.new("int32_t[]", single))
        search.suppressed, search.n_suppressed = kept[-1], len(single)
    if words:
        kept.append(ffi.new("int32_t[]", words))
        search.words, search.n_words = kept[-1], len(words)


__all__ = [
    "AsyncScoringResult",
    "AsyncTranslationResult",
    "GenerationStepResult",
    "ScoringResult",
    "TranslationResult",
    "Translator",
    "set_random_seed",
]
