# SPDX-License-Identifier: Apache-2.0
"""How good texts are: BLEU and chrF, as sacreBLEU 2 computes them, and the word error rate."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, List, Optional, Sequence, Tuple, Union

from ._native import check, ffi, lib, text_of
from .errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class Bleu:
    """BLEU, 0 to 100."""

    score: float
    precisions: Tuple[float, ...]
    """Percent, of n-grams of 1 to 4 words."""
    brevity_penalty: float
    hypothesis_length: int
    """Words."""
    reference_length: int
    signature: str
    """How the score was computed."""


@dataclasses.dataclass(frozen=True)
class Chrf:
    """chrF2, 0 to 100."""

    score: float
    precision: float
    recall: float
    signature: str


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Both scores of a corpus."""

    bleu: Bleu
    chrf: Chrf


@dataclasses.dataclass(frozen=True)
class WordErrors:
    """The word error rate of a corpus, and the errors that it counts."""

    score: float
    """Percent of the references' words; NaN if these have none."""
    substitutions: int
    deletions: int
    insertions: int
    reference_words: int
    hypothesis_words: int
    signature: str


def evaluate(hypotheses: Sequence[str], references: Sequence[Union[str, Sequence[str]]]) -> Evaluation:
    """Compares translations with their references: one of each, or a list of several."""
    made = ffi.new("tsr_scorer **")
    check(lib.tsr_scorer_create(lib.TSR_METRIC_BLEU | lib.TSR_METRIC_CHRF, made))
    scorer = made[0]
    try:
        _add(scorer, hypotheses, references, "evaluate")
        return Evaluation(_bleu(scorer), _chrf(scorer))
    finally:
        lib.tsr_scorer_destroy(scorer)


def word_errors(
    hypotheses: Sequence[str],
    references: Sequence[Union[str, Sequence[str]]],
    normalizer: Optional[str] = None,
    *,
    spellings: Optional[Union[str, "os.PathLike[str]"]] = None,
    letters: bool = False,
    remove_diacritics: bool = False,
) -> WordErrors:
    """Compares transcripts with what was said: one text of each, or a list of several.

    normalizer: ``"basic"`` or ``"english"``, Whisper's, which make alike what two writers may write differently; None:
        texts are compared as they stand.
    spellings: of ``"english"``: the file of its table, such as normalizer.json in the folder of a model.
    letters, remove_diacritics: of ``"basic"``: characters are counted instead of words; letters lose their marks."""
    kinds = {"basic": lib.TSR_NORMALIZER_BASIC, "english": lib.TSR_NORMALIZER_ENGLISH}
    if normalizer is not None and normalizer not in kinds:
        raise InvalidArgumentError(f"normalizer={normalizer!r}: there are {', '.join(kinds)}, and None")
    if normalizer is None and (spellings is not None or letters or remove_diacritics):
        raise InvalidArgumentError("word_errors: spellings, letters and remove_diacritics belong to a normalizer")
    normal, scorer = ffi.new("tsr_normalizer **"), ffi.new("tsr_scorer **")
    try:
        check(lib.tsr_scorer_create(lib.TSR_METRIC_WER, scorer))
        if normalizer is not None:
            flags = lib.TSR_NORMALIZE_LETTERS if letters else 0
            flags |= lib.TSR_NORMALIZE_DIACRITICS if remove_diacritics else 0
            path = ffi.NULL if spellings is None else ffi.new("char[]", os.fsencode(os.fspath(spellings)))
            check(lib.tsr_normalizer_create(kinds[normalizer], flags, path, normal))
            check(lib.tsr_scorer_set_normalizer(scorer[0], normal[0]))
        _add(scorer[0], hypotheses, references, "word_errors")
        found = ffi.new("tsr_wer *")
        check(lib.tsr_scorer_wer(scorer[0], found))
        return WordErrors(
            found.score,
            found.substitutions,
            found.deletions,
            found.insertions,
            found.reference_words,
            found.hypothesis_words,
            _signature(scorer[0], lib.TSR_METRIC_WER),
        )
    finally:
        lib.tsr_scorer_destroy(scorer[0])
        lib.tsr_normalizer_destroy(normal[0])


def _add(scorer: Any, hypotheses: Sequence[str], references: Sequence[Union[str, Sequence[str]]], name: str) -> None:
    if isinstance(hypotheses, str) or isinstance(references, str) or len(hypotheses) != len(references):
        raise InvalidArgumentError(f"{name}: as many references as hypotheses, please, each in a list")
    for hypothesis, reference in zip(hypotheses, references):
        texts = [reference] if isinstance(reference, str) else list(reference)
        held: List[Any] = []
        one = _spans([hypothesis], held)
        others = _spans(texts, held)
        check(lib.tsr_scorer_add_references(scorer, one[0], others, len(texts)))


def _spans(texts: Sequence[str], held: List[Any]) -> Any:
    spans = ffi.new("tsr_span[]", max(len(texts), 1))
    for i, text in enumerate(texts):
        data = text.encode("utf-8", "surrogatepass")
        held.append(ffi.from_buffer("char[]", data))
        spans[i].bytes, spans[i].size = held[-1], len(data)
    return spans


def _signature(scorer: Any, metric: int) -> str:
    text = ffi.new("char[]", 128)
    return text_of(lib.tsr_scorer_signature(scorer, metric, text, 128))


def _bleu(scorer: Any) -> Bleu:
    found = ffi.new("tsr_bleu *")
    check(lib.tsr_scorer_bleu(scorer, found))
    return Bleu(
        found.score,
        tuple(found.precisions),
        found.brevity_penalty,
        found.hypothesis_length,
        found.reference_length,
        _signature(scorer, lib.TSR_METRIC_BLEU),
    )


def _chrf(scorer: Any) -> Chrf:
    found = ffi.new("tsr_chrf *")
    check(lib.tsr_scorer_chrf(scorer, found))
    return Chrf(found.score, found.precision, found.recall, _signature(scorer, lib.TSR_METRIC_CHRF))
