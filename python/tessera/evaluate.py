# SPDX-License-Identifier: Apache-2.0
"""How good translations are: BLEU and chrF, as sacreBLEU 2 computes them."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Sequence, Tuple, Union

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


def evaluate(hypotheses: Sequence[str], references: Sequence[Union[str, Sequence[str]]]) -> Evaluation:
    """Compares translations with their references: one of each, or a list of several."""
    if isinstance(hypotheses, str) or isinstance(references, str) or len(hypotheses) != len(references):
        raise InvalidArgumentError("evaluate: as many references as hypotheses, please, each in a list")
    made = ffi.new("tsr_scorer **")
    check(lib.tsr_scorer_create(lib.TSR_METRIC_BLEU | lib.TSR_METRIC_CHRF, made))
    scorer = made[0]
    try:
        for hypothesis, reference in zip(hypotheses, references):
            texts = [reference] if isinstance(reference, str) else list(reference)
            held: List[Any] = []
            one = _spans([hypothesis], held)
            others = _spans(texts, held)
            check(lib.tsr_scorer_add_references(scorer, one[0], others, len(texts)))
        return Evaluation(_bleu(scorer), _chrf(scorer))
    finally:
        lib.tsr_scorer_destroy(scorer)


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
