# SPDX-License-Identifier: Apache-2.0
"""What a translation gives."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from ._native import ffi, text_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

Span = Tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One translation of a text."""

    text: str
    score: float = dataclasses.field(compare=False)
    """Of the search; NaN where none was computed. Hypotheses are equal if their tokens are."""
    ids: Tuple[int, ...]
    """Its tokens, special ones included."""
    is_cut: bool
    """It ended because it had reached the maximum length."""
    attention: Optional["Array"] = dataclasses.field(default=None, repr=False, compare=False)
    """With the option ``attention``, of a text in one part: [tokens, source tokens], each row's sum is 1."""
    spans: Optional[Tuple[Span, ...]] = dataclasses.field(default=None, repr=False)
    """With ``alignment``: where each token lies in ``text``; empty for special tokens."""
    aligned: Optional[Tuple[int, ...]] = dataclasses.field(default=None, repr=False)
    """With ``alignment``: the number of each token's source token in ``source_ids``, or -1."""


@dataclasses.dataclass(frozen=True)
class Translation:
    """The translations of one text. As a string it is the best one's text."""

    hypotheses: Tuple[Hypothesis, ...]
    n_parts: int
    """Parts that the text was translated in; 0: there was nothing to translate."""
    n_source_tokens: int
    is_source_cut: bool
    """Only the text's beginning was translated."""
    seconds: float = dataclasses.field(compare=False)
    """From the request to the answer."""
    source_ids: Optional[Tuple[int, ...]] = dataclasses.field(default=None, repr=False)
    """With the option ``alignment``: the text's tokens."""
    source_spans: Optional[Tuple[Span, ...]] = dataclasses.field(default=None, repr=False)
    """Likewise: where each lies in the text."""

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        """Its score."""
        return self.hypotheses[0].score

    def __str__(self) -> str:
        return self.text


def array_of(pointer: Any, *shape: int) -> "Array":
    """A copy of floats of the library's."""
    import numpy as np

    n = 1
    for extent in shape:
        n *= extent
    return np.frombuffer(ffi.buffer(pointer, 4 * n), dtype=np.float32).reshape(shape).copy()


def _spans(pointer: Any, n: int, text: bytes) -> Tuple[Span, ...]:
    """Places in bytes as places in characters."""
    at: List[int] = []
    characters = 0
    for byte in text:
        characters += byte & 0xC0 != 0x80
        at.append(characters - 1)
    at.append(characters)
    return tuple((at[pointer[i].begin], at[pointer[i].end]) for i in range(n))


def _hypothesis(h: Any) -> Hypothesis:
    text = text_of(h.text)
    n = h.n_ids
    if h.spans == ffi.NULL and h.attention == ffi.NULL:
        return Hypothesis(text, h.score, tuple(ffi.unpack(h.ids, n)) if n else (), h.is_cut != 0)
    return Hypothesis(
        text,
        h.score,
        tuple(ffi.unpack(h.ids, n)) if n else (),
        h.is_cut != 0,
        array_of(h.attention, n, h.n_source) if h.attention != ffi.NULL else None,
        _spans(h.spans, n, ffi.string(h.text)) if h.spans != ffi.NULL else None,
        tuple(ffi.unpack(h.aligned, n)) if h.aligned != ffi.NULL and n else None,
    )


def translation_of(answer: Any, text: bytes) -> Translation:
    """The library's answer, which has no error, to a text."""
    n, hypotheses = answer.n_source_ids, answer.hypotheses
    has_spans = answer.source_spans != ffi.NULL and n > 0
    return Translation(
        tuple([_hypothesis(hypotheses[i]) for i in range(answer.n_hypotheses)]),
        answer.n_parts,
        answer.n_source_tokens,
        answer.is_source_cut != 0,
        answer.seconds,
        tuple(ffi.unpack(answer.source_ids, n)) if has_spans else None,
        _spans(answer.source_spans, n, text) if has_spans else None,
    )
