# SPDX-License-Identifier: Apache-2.0
"""Recipes: the settings of a training, with the keys and defaults of ``tessera train``."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from .errors import FormatError, InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The settings of a training. None: the default, which ``tessera train --help`` tells; a task has its own."""

    source: Optional[str] = None
    """Sentences to train on, one a line; or WMT's SGM or XML."""

    target: Optional[str] = None
    """Their translations."""

    tsv: Optional[str] = None
    """Instead of ``source`` and ``target``: a file with both sides, TSV or XML."""

    speech: Optional[str] = None
    """Instead of ``source``: a list of sounds to train a model of speech on, and what is said in them."""

    language: Optional[str] = None
    """Of sounds that name none; none: the model hears one language."""

    valid_source: Optional[str] = None
    """Sentences to validate on; or a file with both sides."""

    valid_target: Optional[str] = None
    """Their translations."""

    vocab: Optional[str] = None
    """Folder with the tokenizer's files, as ``tessera vocab`` writes it."""

    out: Optional[str] = None
    """Folder of the model that is made; checkpoints and logs are in its train/."""

    device: Optional[str] = None
    """Where to compute (see ``devices()``); default: TESSERA_DEVICE, else auto."""

    comm: Optional[str] = None
    """How ranks find each other: a matter of ``mpirun tessera train``; here every training is alone."""

    shard_optimizer: Optional[bool] = None
    """Each rank keeps the optimizer's moments of its share of the parameters alone."""

    mels: Optional[int] = None
    """Of a model of speech: features of a frame."""

    source_positions: Optional[int] = None
    """Of a model of speech: positions of a window, of 0.02 s each."""

    whole_windows: Optional[float] = None
    """Share of the sounds that fill a whole window with silence."""

    timestamps: Optional[float] = None
    """Share of the sounds whose text stands between timestamps."""

    time_masks: Optional[int] = None
    """SpecAugment: stretches of each sound that are masked."""

    time_mask_width: Optional[int] = None
    """Frames of the widest stretch."""

    time_mask_share: Optional[float] = None
    """Share of a sound that a stretch has at most; 0: any."""

    mel_masks: Optional[int] = None
    """SpecAugment: bands of each sound's frequencies that are masked."""

    mel_mask_width: Optional[int] = None
    """Mels of the widest band."""

    task: Optional[str] = None
    """Train on random sequences instead of files."""

    vocab_size: Optional[int] = None
    """Of a task: number of ids, </s>, <unk> and <pad> included."""

    min_length: Optional[int] = None
    """Tokens of a task's sequences."""

    max_length: Optional[int] = None
    """Tokens of a task's sequences."""

    family: Optional[str] = None
    """Architecture and form of the model: ``"marian"`` or ``"nn_transformer"``; others need a model's folder to start
    from (``init``)."""

    d_model: Optional[int] = None
    """Width."""

    heads: Optional[int] = None
    """Attention heads."""

    d_ff: Optional[int] = None
    """Width of the feed-forward blocks."""

    encoder_layers: Optional[int] = None
    """Layers of the encoder."""

    decoder_layers: Optional[int] = None
    """Layers of the decoder."""

    activation: Optional[str] = None
    """Of the feed-forward blocks."""

    position_encoding: Optional[str] = None
    """Of nn_transformer, instead of sinusoidal_interleaved."""

    max_distance: Optional[int] = None
    """Of relative positions; larger distances are clamped to it."""

    norm_first: Optional[bool] = None
    """Norms before the sublayers instead of after them (nn_transformer)."""

    shared_embedding: Optional[bool] = None
    """One table of embeddings for both sides (marian, joint vocabulary)."""

    tied_logits: Optional[bool] = None
    """The logits' weights are the target's embeddings (marian)."""

    max_positions: Optional[int] = None
    """Longest sequence of the model, in tokens."""

    init: Optional[str] = None
    """How parameters begin: xavier (the default), family, or the folder of a model that is trained on."""

    dropout: Optional[float] = None
    """Rate on embeddings and sublayers."""

    attention_dropout: Optional[float] = None
    """Rate on the attention's weights."""

    activation_dropout: Optional[float] = None
    """Rate within the feed-forward blocks."""

    label_smoothing: Optional[float] = None
    """Share of the probability that is spread over the whole vocabulary."""

    batch_tokens: Optional[int] = None
    """Tokens of a batch's larger side, padding included."""

    accumulate: Optional[int] = None
    """Batches whose gradients make one update, on all ranks together; 0: one of each rank, here 1."""

    max_source: Optional[int] = None
    """Maximum tokens of a source; pairs with more are left out; 0: what fits."""

    max_target: Optional[int] = None
    """Maximum tokens of a target; pairs with more are left out; 0: what fits."""

    max_ratio: Optional[float] = None
    """Maximum ratio of the longer side to the shorter; pairs beyond it are left out; 0: any."""

    bucket: Optional[int] = None
    """Widths of batches are multiples of this number."""

    pool: Optional[int] = None
    """Pairs that are read, sorted and shuffled at once."""

    seed: Optional[int] = None
    """Seed of parameters, dropout and order."""

    optimizer: Optional[str] = None
    """With adamw, the weight decay is not part of the gradient."""

    beta1: Optional[float] = None
    """Of Adam."""

    beta2: Optional[float] = None
    """Of Adam."""

    epsilon: Optional[float] = None
    """Of Adam."""

    weight_decay: Optional[float] = None
    """Of the matrices."""

    max_norm: Optional[float] = None
    """Maximum norm of the gradients; larger gradients are scaled down to it; 0: never."""

    schedule: Optional[str] = None
    """How the learning rate changes after the warm-up; noam: inverse square root; linear and cosine: down to the
    floor, at the end of ``steps`` or ``minutes``."""

    rate: Optional[float] = None
    """Learning rate at the end of the warm-up; 0: 1 / sqrt(d_model * warmup)."""

    warmup: Optional[int] = None
    """Steps in which the learning rate rises."""

    floor: Optional[float] = None
    """The learning rate to which linear and cosine fall."""

    average: Optional[float] = None
    """Decay of an exponential average of the parameters; the average is what is validated and saved; 0: none."""

    average_last: Optional[int] = None
    """At the end, the mean of the last N saved states competes, too."""

    precision: Optional[str] = None
    """Type in which products read the matrices."""

    gradient_precision: Optional[str] = None
    """Type to which the gradients of each batch are rounded before they are added."""

    loss_scale: Optional[float] = None
    """Of f16: the first scale; it is halved when gradients overflow, and grows again."""

    recompute: Optional[str] = None
    """Layers: compute what is within a layer again for the gradients; less memory, more work."""

    steps: Optional[int] = None
    """Updates after which training ends; 0: any."""

    epochs: Optional[int] = None
    """Passes over the data after which training ends; 0: any."""

    minutes: Optional[float] = None
    """Minutes after which training ends; 0: any."""

    patience: Optional[int] = None
    """Validations without a better one after which training ends; 0: any."""

    until: Optional[float] = None
    """BLEU, or share of exact sequences (0 to 1), at which training ends; 0: any."""

    log_every: Optional[int] = None
    """Steps between rows of the log."""

    validate_every: Optional[int] = None
    """Steps between validations."""

    save_every: Optional[int] = None
    """Steps between checkpoints."""

    keep: Optional[int] = None
    """Number of checkpoints to keep besides the last and the best."""

    statistics: Optional[bool] = None
    """Write statistics of each layer's activations and gradients to the log and layers.csv."""

    criterion: Optional[str] = None
    """What makes a validation the best (exact: tasks only)."""

    bleu_beam: Optional[int] = None
    """Beam at validations; 1: greedy search."""

    bleu_sentences: Optional[int] = None
    """Number of sentences, from the first, that are translated at validations; 0: none."""

    save_precision: Optional[str] = None
    """Type of the weights in the finished model."""

    save_beam: Optional[int] = None
    """Beam that the model's folder asks for."""

    @staticmethod
    def read(path: Union[str, "os.PathLike[str]"]) -> "Recipe":
        """Reads a recipe.yaml: keys with values, maybe in sections."""
        return Recipe(**_read(pathlib.Path(path)))

    def value(self, name: str) -> Any:
        """What holds for a key: what was said, else its default."""
        said = getattr(self, name)
        key = KEYS[name]
        return said if said is not None else key.of_task if self.task and key.of_task is not None else key.default

    def check(self) -> None:
        """Raises InvalidArgumentError for a value that is out of its range."""
        for key in KEYS.values():
            value = getattr(self, key.name)
            if value is not None:
                key.check(value)

    def to_yaml(self) -> str:
        """All keys, as ``tessera train`` writes them into OUT/train/recipe.yaml."""
        return "".join(f"{key.name}: {key.text(self.value(key.name))}\n" for key in KEYS.values())


class _Key(NamedTuple):
    name: str
    kind: str
    default: Any
    of_task: Any
    allowed: Optional[Tuple[Any, ...]]
    """Choices; the least and the largest number."""
    effect: str
    """What another value does to a training that goes on: "free", "fixed": it changes its numbers; "total": where the
    learning rate falls until the end."""

    def check(self, value: Any) -> None:
        types: Any = {"int": int, "float": (int, float), "bool": bool}.get(self.kind, str)
        if not isinstance(value, types) or (isinstance(value, bool) and self.kind != "bool"):
            raise InvalidArgumentError(f"{self.name}={value!r}: {self.kind} was expected")
        if self.allowed is None:
            return
        if self.kind == "choice" and value not in self.allowed:
            raise InvalidArgumentError(f"{self.name}={value!r}: one of {', '.join(self.allowed).lstrip(', ')}")
        if self.kind != "choice" and not self.allowed[0] <= value <= self.allowed[1]:
            raise InvalidArgumentError(f"{self.name}={value!r}: {self.allowed[0]:g} to {self.allowed[1]:g}")

    def text(self, value: Any) -> str:
        """As YAML has it, so that it reads back as the same."""
        if self.kind == "bool":
            return "true" if value else "false"
        if self.kind == "float":
            short = f"{value:.15g}"
            return short if float(short) == value else f"{value:.17g}"
        if self.kind == "text" or value == "":
            escaped = re.sub(r'(["\\\\])', r"\\\1", value)
            return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\x{ord(c.group()):02X}", escaped) + '"'
        return str(value)

    def parse(self, text: str) -> Any:
        """What a text of YAML means. Raises ValueError."""
        if self.kind == "bool":
            return {"true": True, "yes": True, "false": False, "no": False}[text]
        return int(text) if self.kind == "int" else float(text) if self.kind == "float" else text


_KEYS: List[_Key] = [
    _Key("source", "text", "", None, None, "fixed"),
    _Key("target", "text", "", None, None, "fixed"),
    _Key("tsv", "text", "", None, None, "fixed"),
    _Key("speech", "text", "", None, None, "fixed"),
    _Key("language", "text", "en", None, None, "fixed"),
    _Key("valid_source", "text", "", None, None, "fixed"),
    _Key("valid_target", "text", "", None, None, "fixed"),
    _Key("vocab", "text", "", None, None, "fixed"),
    _Key("out", "text", "", None, None, "free"),
    _Key("device", "text", "", None, None, "free"),
    _Key("comm", "choice", "", None, ("", "mpi", "none"), "free"),
    _Key("shard_optimizer", "bool", False, None, None, "free"),
    _Key("mels", "int", 80, None, (1, 1024), "fixed"),
    _Key("source_positions", "int", 1500, None, (1, 32768), "fixed"),
    _Key("whole_windows", "float", 1.0, None, (0.0, 1.0), "fixed"),
    _Key("timestamps", "float", 0.0, None, (0.0, 1.0), "fixed"),
    _Key("time_masks", "int", 0, None, (0, 1000), "fixed"),
    _Key("time_mask_width", "int", 40, None, (0, 65536), "fixed"),
    _Key("time_mask_share", "float", 0.2, None, (0.0, 1.0), "fixed"),
    _Key("mel_masks", "int", 0, None, (0, 1000), "fixed"),
    _Key("mel_mask_width", "int", 20, None, (0, 1024), "fixed"),
    _Key("task", "choice", "", None, ("", "copy", "reverse", "sort"), "fixed"),
    _Key("vocab_size", "int", 16, None, (4, 1048576), "fixed"),
    _Key("min_length", "int", 1, None, (1, 65536), "fixed"),
    _Key("max_length", "int", 10, None, (1, 65536), "fixed"),
    _Key(
        "family",
        "choice",
        "marian",
        None,
        ("marian", "nn_transformer", "bart", "pegasus", "t5", "mt5", "umt5", "t5gemma", "whisper"),
        "fixed",
    ),
    _Key("d_model", "int", 256, 64, (1, 65536), "fixed"),
    _Key("heads", "int", 8, 4, (1, 1024), "fixed"),
    _Key("d_ff", "int", 1024, 256, (1, 262144), "fixed"),
    _Key("encoder_layers", "int", 3, 2, (1, 1024), "fixed"),
    _Key("decoder_layers", "int", 3, 2, (1, 1024), "fixed"),
    _Key("activation", "choice", "relu", None, ("relu", "gelu", "gelu_new", "swish"), "fixed"),
    _Key(
        "position_encoding",
        "choice",
        "",
        None,
        ("", "sinusoidal_interleaved", "sinusoidal_halves", "learned", "relative", "none"),
        "fixed",
    ),
    _Key("max_distance", "int", 16, None, (1, 1048576), "fixed"),
    _Key("norm_first", "bool", False, None, None, "fixed"),
    _Key("shared_embedding", "bool", True, None, None, "fixed"),
    _Key("tied_logits", "bool", True, None, None, "fixed"),
    _Key("max_positions", "int", 256, 64, (8, 1048576), "fixed"),
    _Key("init", "text", "", None, None, "fixed"),
    _Key("dropout", "float", 0.1, 0.0, (0.0, 0.99), "fixed"),
    _Key("attention_dropout", "float", 0.0, None, (0.0, 0.99), "fixed"),
    _Key("activation_dropout", "float", 0.0, None, (0.0, 0.99), "fixed"),
    _Key("label_smoothing", "float", 0.1, 0.0, (0.0, 0.99), "fixed"),
    _Key("batch_tokens", "int", 2500, 1024, (1, 16777216), "fixed"),
    _Key("accumulate", "int", 0, None, (0, 65536), "fixed"),
    _Key("max_source", "int", 128, 0, (0, 65536), "fixed"),
    _Key("max_target", "int", 128, 0, (0, 65536), "fixed"),
    _Key("max_ratio", "float", 0.0, None, (0.0, 1000000.0), "fixed"),
    _Key("bucket", "int", 4, None, (1, 4096), "fixed"),
    _Key("pool", "int", 131072, 8192, (1, 268435456), "fixed"),
    _Key("seed", "int", 1, None, (0, 9000000000000000), "fixed"),
    _Key("optimizer", "choice", "adam", None, ("adam", "adamw"), "fixed"),
    _Key("beta1", "float", 0.9, None, (0.0, 0.999999), "fixed"),
    _Key("beta2", "float", 0.98, None, (0.0, 0.999999), "fixed"),
    _Key("epsilon", "float", 1e-09, None, (1e-30, 1.0), "fixed"),
    _Key("weight_decay", "float", 0.0, None, (0.0, 1000.0), "fixed"),
    _Key("max_norm", "float", 0.0, 1.0, (0.0, 1000000000.0), "fixed"),
    _Key("schedule", "choice", "noam", None, ("constant", "noam", "linear", "cosine"), "fixed"),
    _Key("rate", "float", 0.0, 0.001, (0.0, 1e+38), "fixed"),
    _Key("warmup", "int", 1000, 200, (0, 1000000000), "fixed"),
    _Key("floor", "float", 0.0, None, (0.0, 1e+38), "fixed"),
    _Key("average", "float", 0.0, 0.99, (0.0, 0.9999999), "fixed"),
    _Key("average_last", "int", 0, None, (0, 1000), "free"),
    _Key("precision", "choice", "f32", None, ("f32", "f16", "bf16"), "fixed"),
    _Key("gradient_precision", "choice", "f32", None, ("f32", "bf16"), "fixed"),
    _Key("loss_scale", "float", 65536.0, None, (1.0, 1e+38), "fixed"),
    _Key("recompute", "choice", "none", None, ("none", "layers"), "fixed"),
    _Key("steps", "int", 0, None, (0, 1000000000), "total"),
    _Key("epochs", "int", 0, None, (0, 1000000000), "free"),
    _Key("minutes", "float", 0.0, None, (0.0, 1000000.0), "total"),
    _Key("patience", "int", 0, None, (0, 1000000000), "free"),
    _Key("until", "float", 0.0, None, (0.0, 100.0), "free"),
    _Key("log_every", "int", 50, None, (1, 1000000000), "free"),
    _Key("validate_every", "int", 500, 100, (1, 1000000000), "free"),
    _Key("save_every", "int", 500, None, (1, 1000000000), "free"),
    _Key("keep", "int", 0, None, (0, 1000), "free"),
    _Key("statistics", "bool", False, None, None, "free"),
    _Key("criterion", "choice", "", None, ("", "loss", "bleu", "exact"), "free"),
    _Key("bleu_beam", "int", 1, None, (1, 64), "free"),
    _Key("bleu_sentences", "int", 500, None, (0, 1000000000), "free"),
    _Key("save_precision", "choice", "f16", "f32", ("f32", "f16", "bf16"), "free"),
    _Key("save_beam", "int", 4, 1, (1, 64), "free"),
]
KEYS: Dict[str, _Key] = {key.name: key for key in _KEYS}


def _unescape(found: "re.Match[str]") -> str:
    return chr(int(found.group(1), 16)) if found.group(1) else found.group(2)


def _scalar(text: str) -> str:
    """A scalar of YAML, without quotes and comment. Raises ValueError."""
    quoted = re.match(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?$', text)
    if quoted:
        return re.sub(r"\\(?:x([0-9A-F]{2})|(.))", _unescape, quoted.group(1))
    quoted = re.match(r"'((?:[^']|'')*)'\s*(?:#.*)?$", text)
    if quoted:
        return quoted.group(1).replace("''", "'")
    if text[:1] in "\"'[{&*!|>%@`":
        raise ValueError
    return re.sub(r"(^|\s+)#.*$", "", text).strip()


def _read(path: pathlib.Path) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#") or line.strip() == "---":
            continue
        match = re.match(r"\s*(\w+):(?:\s+(.*))?$", line)
        if not match:
            raise FormatError(f"{path}:{number}: a key and a value were expected, found '{line.strip()}'")
        name, rest = match.group(1), (match.group(2) or "").strip()
        if not rest or rest.startswith("#"):
            continue  # a section begins
        if name not in KEYS:
            raise FormatError(f"{path}:{number}: there is no key '{name}'")
        try:
            found[name] = KEYS[name].parse(_scalar(rest))
        except (KeyError, ValueError):
            raise FormatError(f"{path}:{number}: {name}: {KEYS[name].kind} was expected, found '{rest}'") from None
    return found
