# SPDX-License-Identifier: Apache-2.0
"""What one can ask of a translation."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Optional

from ._native import check, ffi, lib, sized
from .errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class Options:
    """How to translate. None means: as the model's folder asks.

    Every method that translates takes these by name, ``translate(text, beam=4)``, or as one object,
    ``translate(text, Options(beam=4))``."""

    beam: Optional[int] = None
    """Hypotheses that the search keeps; 1 is greedy search."""
    hypotheses: int = 1
    """Translations of each text that are returned, best first: at most ``beam``; any number if they are drawn."""
    alternatives: int = 0
    """Above 1: so many translations that differ in their first word, or in the first after ``prefix``."""
    scores: bool = False
    """True: greedy search and sampling compute scores, too. Without it theirs are NaN."""
    max_length: Optional[int] = None
    """Most tokens of a translation, with the start token and the end token."""
    min_length: Optional[int] = None
    """Fewest tokens of a translation, counted likewise."""
    length_penalty: Optional[float] = None
    """The exponent of the number of tokens by which a score is divided."""
    patience: Optional[float] = None
    """``beam * patience`` finished hypotheses are enough."""
    coverage_penalty: Optional[float] = None
    """How much a score falls if source tokens get little attention."""
    repetition_penalty: Optional[float] = None
    """Above 1: tokens that the translation has already become less probable."""
    no_repeat_ngram: Optional[int] = None
    """n: no n tokens occur twice in a row of tokens."""
    sample: Optional[bool] = None
    """True: each token is drawn at random; ``beam`` is then 1."""
    temperature: Optional[float] = None
    """Sampling: logits are divided by it."""
    top_k: Optional[int] = None
    """Sampling: only the k most probable tokens are drawn."""
    top_p: Optional[float] = None
    """Sampling: only the most probable tokens are drawn that have this probability together."""
    seed: int = 0
    """Sampling: the same seed draws the same translations, on every device."""
    source_language: Optional[str] = None
    """A code of the model's languages, such as ``"eng_Latn"``; None: the translator's."""
    target_language: Optional[str] = None
    """Likewise of the translation."""
    prefix: Optional[str] = None
    """What the translation begins with: whole words."""
    long_input: str = "cut"
    """What to do with a text that has more tokens than the model takes: ``"cut"``, ``"split"`` into parts, or
    ``"error"``."""
    max_source: int = 0
    """Most tokens of a source, if the model takes more; 0: as many as it takes."""
    timeout: float = 0.0
    """Seconds after which an unfinished text raises DeadlineError; 0: no limit."""
    replace_unknown: Optional[bool] = None
    """True: an unknown token is replaced by the source token that it attended to most."""
    attention: bool = False
    """True: hypotheses come with their attention."""
    attention_layer: int = 0
    """The decoder's layer of that attention, from 1; 0: the last."""
    alignment: bool = False
    """True: hypotheses come with the source token of each token, and all with their places in the texts."""


_FIELDS = frozenset(field.name for field in dataclasses.fields(Options))
_LONG_INPUT = {"cut": lib.TSR_LONG_CUT, "split": lib.TSR_LONG_SPLIT, "error": lib.TSR_LONG_ERROR}
# Options that are fields of the search's, under the same or another name.
_SEARCH = {
    "beam": "beam",
    "hypotheses": "n_best",
    "alternatives": "alternatives",
    "seed": "seed",
    "attention_layer": "attention_layer",
    "max_length": "max_length",
    "min_length": "min_length",
    "length_penalty": "length_penalty",
    "patience": "patience",
    "coverage_penalty": "coverage_penalty",
    "repetition_penalty": "repetition_penalty",
    "no_repeat_ngram": "no_repeat_ngram",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
}


def options_of(options: Optional[Options], changes: Dict[str, Any]) -> Options:
    """The options, with those that are given by name."""
    unknown = sorted(set(changes) - _FIELDS)
    if unknown:
        raise TypeError(f"there is no option {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}")
    return dataclasses.replace(options or Options(), **changes) if changes else options or Options()


def defaults_of(model: Any) -> Any:
    """The search that a model's folder asks for, of lengths that the model has."""
    search = sized("tsr_generate_options")
    check(lib.tsr_generate_defaults(model, search))
    search.n_best = 1
    positions = lib.tsr_model_config(model).max_positions
    if 0 < positions < search.max_length:
        search.max_length = positions
    return search


class Request:
    """Options as the library takes them."""

    def __init__(self, model: Any, options: Options) -> None:
        if options.long_input not in _LONG_INPUT:
            raise InvalidArgumentError(f"long_input={options.long_input!r}: there are {', '.join(_LONG_INPUT)}")
        self.options = options
        self.search = defaults_of(model)
        self._fill_search()
        check(lib.tsr_generate_check(model, self.search))
        self.template = sized("tsr_translation_request")
        self._kept = [self.search]
        self._fill_template()

    def _set(self, into: Any, field: str, name: str) -> None:
        """Gives a field the option of that name, unless that is None."""
        value = getattr(self.options, name)
        if value is None:
            return
        try:
            setattr(into, field, value)
        except (OverflowError, TypeError) as error:
            kind = InvalidArgumentError if isinstance(error, OverflowError) else TypeError
            raise kind(f"{name}={value!r}: {error}") from None

    def _fill_search(self) -> None:
        options, search = self.options, self.search
        for name, field in _SEARCH.items():
            self._set(search, field, name)
        if options.sample is not None:
            search.sample = 1 if options.sample else 0
        if options.beam is not None:
            if search.beam > 1 and options.sample is None:
                search.sample = 0
        elif search.sample:
            search.beam = 1
        elif search.n_best > search.beam:
            search.beam = search.n_best
        if search.alternatives:
            search.n_best = 1
        search.scores = 1 if options.scores else 0
        search.attention = 1 if options.attention else 0

    def _text(self, text: Optional[str]) -> Any:
        if text is None:
            return ffi.NULL
        held = ffi.new("char[]", text.encode("utf-8", "surrogatepass"))
        self._kept.append(held)
        return held

    def _fill_template(self) -> None:
        options, template = self.options, self.template
        template.search = self.search
        template.long_input = _LONG_INPUT[options.long_input]
        template.source_language = self._text(options.source_language)
        template.target_language = self._text(options.target_language)
        template.prefix = self._text(options.prefix)
        template.number = -1
        self._set(template, "timeout", "timeout")
        self._set(template, "max_source", "max_source")
        template.alignment = template.spans = 1 if options.alignment else 0
        if options.replace_unknown is not None:
            template.replace_unknown = 1 if options.replace_unknown else -1
