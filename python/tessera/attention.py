# SPDX-License-Identifier: Apache-2.0
"""What each token of a sentence attends to."""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import pathlib
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from ._native import check, ffi, lib, text_of
from .errors import InvalidArgumentError
from .options import defaults_of
from .results import array_of

if TYPE_CHECKING:
    from .results import Array
    from .translator import Translator

_FOLDER = pathlib.Path(__file__).resolve().parent
_KINDS = (
    ("encoder", "Encoder", "encoder.layers.{}.self_attention.weights", "source", "source"),
    ("decoder", "Decoder, masked", "decoder.layers.{}.self_attention.weights", "target", "target"),
    ("cross", "Cross", "decoder.layers.{}.cross_attention.weights", "target", "source"),
)


@dataclasses.dataclass(frozen=True)
class Attention:
    """The weights of all layers and heads; each row's sum is 1. In a notebook it shows itself as a page."""

    source: str
    target: str
    source_tokens: Tuple[str, ...]
    target_tokens: Tuple[str, ...]
    """What the decoder reads: its start token, then the target but for its last token."""
    next_tokens: Tuple[str, ...]
    """What it is to give at each of these places."""
    encoder: "Array" = dataclasses.field(repr=False)
    """[layers, heads, source tokens, source tokens]; without layers if the model has no encoder, likewise the next."""
    decoder: "Array" = dataclasses.field(repr=False)
    """[layers, heads, target tokens, target tokens]."""
    cross: "Array" = dataclasses.field(repr=False)
    """[layers, heads, target tokens, source tokens]."""
    model: str = dataclasses.field(repr=False)
    device: str = dataclasses.field(repr=False)
    is_given: bool = dataclasses.field(default=False, repr=False)
    """Whether the target was given; else it is the model's own translation."""

    def to_html(self) -> str:
        """A page that needs nothing else, as ``tessera attention --out`` writes it."""
        kinds = []
        for name, title, _, queries, keys in _KINDS:
            weights: "Array" = getattr(self, name)
            if weights.shape[0]:
                packed = base64.b64encode(weights.astype("<f4").tobytes()).decode()
                kind: Dict[str, Any] = {"id": name, "title": title, "queries": queries, "keys": keys, "weights": packed}
                kinds.append({**kind, "layers": weights.shape[0], "heads": weights.shape[1]})
        data = {
            "about": [["Model", self.model], ["Device", self.device], ["Source", self.source]]
            + [["Target" if self.is_given else "Translation", self.target]],
            "source": {"tokens": self.source_tokens, "labels": _labels(self.source_tokens)},
            "target": {
                "tokens": self.target_tokens,
                "labels": _labels(self.target_tokens),
                "next": self.next_tokens,
            },
            "kinds": kinds,
        }
        title = html.escape(self.source).replace("&#x27;", "&#39;")
        text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
        return (
            "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\n"
            "<meta name='viewport' content='width=device-width'>\n"
            f"<title>{title}</title>\n"
            f"<style>{_page('page.css')}{_page('attention.css')}</style></head><body>\n<h1>Attention</h1>\n"
            f"<script type='application/json' id='data'>{text}</script>\n{_page('attention.html')}</body></html>\n"
        )

    def _repr_html_(self) -> str:
        height = 420 + 22 * max(len(self.source_tokens), len(self.target_tokens))
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: {height}px; border: 0"></iframe>'


def _page(name: str) -> str:
    """A part of the page: it lies with the library, or where it is in the source tree."""
    for folder in (_FOLDER / "lib" / "pages", _FOLDER.parent.parent / "tools" / "tessera" / "pages"):
        if (folder / name).exists():
            return (folder / name).read_text(encoding="utf-8")
    raise FileNotFoundError(f"{name} is not installed with the package")


def _labels(tokens: Tuple[str, ...]) -> List[str]:
    """Tokens as they are read best: words without the mark of their beginning, an open box for a mark alone. If there
    are marks, pieces that go on with a word have a dot instead."""
    marks = ("\u2581", "\u0120")
    has_marks = any(token.startswith(marks) for token in tokens)
    labels = []
    for i, token in enumerate(tokens):
        if token.startswith(marks):
            labels.append(token[1:] or "\u2423")
        else:
            labels.append("\u00b7" + token if has_marks and i > 0 and not token.startswith("<") else token)
    return labels


def attention_of(translator: "Translator", text: str, target: Optional[str]) -> Attention:
    """Teacher forcing of one sentence."""
    is_given = target is not None
    source = translator._cut(translator.tokenize(text))
    config = lib.tsr_model_config(translator._model)
    if not text.strip():
        raise InvalidArgumentError("attention: the text is empty")
    if config.decoder_layers == 0:
        following, target, read = [], "", []
    else:
        if target is None:
            found = translator.translate(text).hypotheses[0]
            following, target = list(found.ids), found.text
        else:
            following = translator._cut(translator.tokenize(target, target=True))
        following = following or [config.eos_id]
        start = translator._start()
        start = start if start >= 0 else config.decoder_start_id
        read = [start if start >= 0 else source[0]] + following[:-1]
    what = (lib.TSR_INSPECT_SELF_ATTENTION if read or config.encoder_layers else 0) | lib.TSR_INSPECT_CROSS_ATTENTION
    held = [ffi.new("int32_t[]", ids or [0]) for ids in (source, [len(source)], read)]
    inspection = ffi.new("tsr_inspection *")
    arrays: Dict[str, Any] = {}

    def work(transformer: Any) -> int:
        return int(
            lib.tsr_transformer_inspect(
                transformer,
                what,
                1,
                len(source),
                held[0],
                held[1],
                len(read),
                held[2] if read else ffi.NULL,
                inspection,
            )
        )

    translator._use(work)
    try:
        extents = {"source": len(source), "target": len(read)}
        for name, _, pattern, queries, keys in _KINDS:
            arrays[name] = _stack(inspection, pattern, extents[queries], extents[keys])
    finally:
        lib.tsr_inspection_finish(inspection)
    return Attention(
        text,
        target,
        tuple(translator.tokens(source, source=True)),
        tuple(translator.tokens(read)),
        tuple(translator.tokens(following)),
        model=translator._path,
        device=translator.device,
        is_given=is_given,
        **arrays,
    )


def _stack(inspection: Any, pattern: str, n_queries: int, n_keys: int) -> "Array":
    """The layers of a kind as one array."""
    import numpy as np

    layers: List[Any] = []
    while True:
        tensor = lib.tsr_inspection_find(inspection, pattern.format(len(layers)).encode())
        if tensor == ffi.NULL:
            break
        layers.append(array_of(tensor.values, *list(tensor.shape.extent)[1:4])[:, :n_queries, :n_keys])
    return np.stack(layers) if layers else np.zeros((0, 0, n_queries, n_keys), dtype=np.float32)


__all__ = ["Attention"]
