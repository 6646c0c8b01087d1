# SPDX-License-Identifier: Apache-2.0
"""Operators on NumPy arrays, run on any device.

    program = Program()
    x = program.input("x", (4, 8))
    w = program.constant("w", weights)
    program.output("y", program.softmax(x @ w))
    with program.compile("vulkan:0") as run:
        y = run(x=array)["y"]

A program is a list of operators over tensors whose shapes are fixed; it is compiled for a device once and run many
times. ``docs/operators.md`` has the table of operators; what each means is written in the header tessera/ops.h."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _native
from ._lifetime import Closable
from ._native import check, ffi, lib, sized, text_of
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

_DTYPES = {"f32": lib.TSR_F32, "f16": lib.TSR_F16, "bf16": lib.TSR_BF16, "i8": lib.TSR_I8, "i32": lib.TSR_I32}
_NAMES = {number: name for name, number in _DTYPES.items()}
# NumPy has no bf16: its values go in and come out as float32.
_NUMPY = {"f32": "<f4", "f16": "<f2", "bf16": "<f4", "i8": "i1", "i32": "<i4"}
_ACTIVATIONS = {
    None: lib.TSR_ACTIVATION_NONE,
    "relu": lib.TSR_ACTIVATION_RELU,
    "gelu": lib.TSR_ACTIVATION_GELU_ERF,
    "gelu_tanh": lib.TSR_ACTIVATION_GELU_TANH,
    "silu": lib.TSR_ACTIVATION_SILU,
}


def _chosen(what: str, value: Any, choices: Dict[Any, int]) -> int:
    if value not in choices:
        raise InvalidArgumentError(f"{what}={value!r}: there are {', '.join(str(name) for name in choices)}")
    return choices[value]


def _shape(extents: Sequence[int]) -> Any:
    return lib.tsr_shape_make(len(extents), ffi.new("int64_t[]", [int(extent) for extent in extents] or [0]))


def _bytes_of(array: "ArrayLike", dtype: str, shape: Tuple[int, ...], name: str) -> bytes:
    """An array as the library stores it."""
    import numpy as np

    values = np.ascontiguousarray(array, dtype=_NUMPY[dtype])
    if values.shape != shape and not (shape == () and values.size == 1):
        raise InvalidArgumentError(f"{name}: the shape is {values.shape}, and {shape} was expected")
    if dtype != "bf16":
        return values.tobytes()
    made = ffi.new("uint16_t[]", max(values.size, 1))
    data = values.tobytes()
    check(lib.tsr_convert(lib.TSR_F32, ffi.from_buffer(data), lib.TSR_BF16, made, values.size))
    return bytes(ffi.buffer(made, 2 * values.size))


def _array_of(data: Any, dtype: str, shape: Tuple[int, ...]) -> "Array":
    """What the library stores as an array."""
    import numpy as np

    if dtype != "bf16":
        return np.frombuffer(data, dtype=_NUMPY[dtype]).reshape(shape).copy()
    n = len(data) // 2
    made = ffi.new("float[]", max(n, 1))
    check(lib.tsr_convert(lib.TSR_BF16, ffi.from_buffer(data), lib.TSR_F32, made, n))
    return np.frombuffer(ffi.buffer(made, 4 * n), dtype="<f4").reshape(shape).copy()


class Tensor:
    """A tensor of a program. ``a @ b``, ``a + b`` and ``a * b`` append lines."""

    __slots__ = ("program", "_ref")

    def __init__(self, program: "Program", ref: int) -> None:
        self.program = program
        self._ref = ref

    @property
    def shape(self) -> Tuple[int, ...]:
        """The extents, outermost first."""
        found = lib.tsr_ref_shape(self.program._program, self._ref)
        return tuple(found.extent[i] for i in range(found.rank))

    @property
    def dtype(self) -> str:
        """``"f32"``, ``"f16"``, ``"bf16"``, ``"i8"`` or ``"i32"``."""
        return _NAMES[lib.tsr_ref_dtype(self.program._program, self._ref)]

    @property
    def T(self) -> "Tensor":
        """With the last two axes swapped, at no cost."""
        return self.program.transpose(self, -2, -1)

    def __matmul__(self, other: "Tensor") -> "Tensor":
        return self.program.matmul(self, other)

    def __add__(self, other: "Tensor") -> "Tensor":
        return self.program.add(self, other)

    def __mul__(self, other: "Tensor") -> "Tensor":
        return self.program.mul(self, other)

    def __repr__(self) -> str:
        return f"<tessera.Tensor {self.dtype} {list(self.shape)}>"


@dataclasses.dataclass(frozen=True)
class Masking:
    """What of the keys may be seen, and what is added to scores: shared by ``mask`` and ``attention``."""

    additive: Optional[Tensor] = None
    """f32, broadcasts to [B, H, L, S]; -inf excludes."""
    lengths: Optional[Tensor] = None
    """[B] or [1] i32: keys from there on are excluded."""
    position: Optional[Tensor] = None
    """[B] or [1] i32: where the first query stands among the keys."""
    relative: Optional[Tensor] = None
    """[n, H] f32: a bias for each distance, or each bucket of distances."""
    causal: bool = False
    bidirectional: bool = False
    max_distance: int = 0
    clamped: bool = False


class Program:
    """A list of operators. The first error of a line is raised and stays: make a new program then."""

    def __init__(self) -> None:
        made = ffi.new("tsr_program **")
        check(lib.tsr_program_create(made))
        self._program: Any = ffi.gc(made[0], lib.tsr_program_destroy)
        self._constants: Dict[str, Tuple[Tensor, bytes]] = {}
        self._inputs: Dict[str, Tensor] = {}
        self._states: Dict[str, Tensor] = {}
        self._outputs: Dict[str, Tensor] = {}

    def _take(self, ref: int) -> Tensor:
        check(lib.tsr_program_status(self._program))
        return Tensor(self, ref)

    def _ref(self, tensor: Optional[Tensor]) -> int:
        if tensor is None:
            return 0
        if tensor.program is not self:
            raise InvalidArgumentError("the tensor is one of another program")
        return tensor._ref

    def __str__(self) -> str:
        """The listing, a line for each operator."""
        text = ffi.new("char[]", 4096)
        n = lib.tsr_program_line_count(self._program)
        return "\n".join(text_of(lib.tsr_program_print_line(self._program, i, text, 4096)) for i in range(n))

    def __len__(self) -> int:
        return int(lib.tsr_program_line_count(self._program))

    # ---- tensors that are there before the first line

    def input(self, name: str, shape: Sequence[int], dtype: str = "f32") -> Tensor:
        """What each run is given."""
        number = _chosen("dtype", dtype, _DTYPES)
        made = self._take(lib.tsr_input(self._program, name.encode(), number, _shape(shape)))
        self._inputs[name] = made
        return made

    def constant(self, name: str, values: "ArrayLike", dtype: Optional[str] = None) -> Tensor:
        """Values that never change, such as weights. dtype: None: as the array has it; double becomes f32."""
        import numpy as np

        array = np.asarray(values)
        known = {"float64": "f32", "float32": "f32", "float16": "f16", "int8": "i8", "int32": "i32", "int64": "i32"}
        wanted = dtype if dtype else known.get(array.dtype.name) or str(array.dtype.name)
        number = _chosen("dtype", wanted, _DTYPES)
        made = self._take(lib.tsr_constant(self._program, name.encode(), number, _shape(array.shape)))
        self._constants[name] = made, _bytes_of(array, wanted, array.shape, name)
        return made

    def state(self, name: str, shape: Sequence[int], dtype: str = "f32") -> Tensor:
        """What lines write, and the next run finds; zeros at first."""
        number = _chosen("dtype", dtype, _DTYPES)
        made = self._take(lib.tsr_state(self._program, name.encode(), number, _shape(shape)))
        self._states[name] = made
        return made

    def output(self, name: str, x: Tensor) -> Tensor:
        """Names a result that a run returns."""
        made = self._take(lib.tsr_output(self._program, name.encode(), self._ref(x)))
        self._outputs[name] = made
        return made

    # ---- views: other extents and strides, and no line

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """The same elements with other extents."""
        return self._take(lib.tsr_reshape(self._program, self._ref(x), _shape(shape)))

    def permute(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """Axis i of the result is axis order[i] of x."""
        if sorted(order) != list(range(len(x.shape))):
            raise InvalidArgumentError(f"order={list(order)}: no permutation of {len(x.shape)} axes")
        return self._take(lib.tsr_permute(self._program, self._ref(x), ffi.new("int32_t[]", list(order) or [0])))

    def transpose(self, x: Tensor, axis_a: int, axis_b: int) -> Tensor:
        """Two axes swapped; negative ones count from the last."""
        return self._take(lib.tsr_transpose(self._program, self._ref(x), axis_a, axis_b))

    def slice(self, x: Tensor, axis: int, start: int, count: int) -> Tensor:
        """Elements start .. start+count-1 along an axis."""
        return self._take(lib.tsr_slice(self._program, self._ref(x), axis, start, count))

    def expand(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Axes of extent 1 repeated, leading axes added."""
        return self._take(lib.tsr_expand(self._program, self._ref(x), _shape(shape)))

    # ---- operators

    def matmul(
        self,
        a: Tensor,
        b: Tensor,
        bias: Optional[Tensor] = None,
        *,
        scales: Optional[Tensor] = None,
        alpha: float = 1.0,
        activation: Optional[str] = None,
        factors: Optional[str] = None,
    ) -> Tensor:
        """activation(alpha * a @ b + bias).

        scales: of the columns of b, which is i8 then; of f16, of its groups, and b has weights of four bits.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"``, ``"silu"``. factors: ``"f16"`` or ``"bf16"``: both
        factors may be rounded to that type."""
        operands = (self._program, self._ref(a), self._ref(b))
        rest = (self._ref(bias), alpha, _chosen("activation", activation, _ACTIVATIONS))
        if scales is not None:
            return self._take(lib.tsr_matmul_i8(*operands, self._ref(scales), *rest))
        if factors is None:
            return self._take(lib.tsr_matmul(*operands, *rest))
        if factors == b.dtype:
            return self._take(lib.tsr_matmul_reduced_precision(*operands, *rest))
        return self._take(lib.tsr_matmul_rounded(*operands, *rest, _chosen("factors", factors, _DTYPES)))

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """a + b, broadcasting."""
        return self._take(lib.tsr_add(self._program, self._ref(a), self._ref(b)))

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        """a * b, broadcasting."""
        return self._take(lib.tsr_mul(self._program, self._ref(a), self._ref(b)))

    def softmax(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """softmax(x + mask) along the last axis; a row that is wholly excluded gives zeros."""
        return self._take(lib.tsr_softmax(self._program, self._ref(x), self._ref(mask)))

    def log_softmax(self, x: Tensor) -> Tensor:
        """The logarithm of the softmax along the last axis."""
        return self._take(lib.tsr_log_softmax(self._program, self._ref(x)))

    def layernorm(
        self, x: Tensor, gain: Tensor, bias: Optional[Tensor] = None, *, epsilon: float = 1e-5, unbiased: bool = False
    ) -> Tensor:
        """gain * (x - mean) / sqrt(variance + epsilon) + bias along the last axis; ``unbiased``: divided by the
        unbiased standard deviation + epsilon."""
        make: Callable[..., int] = lib.tsr_layernorm_std if unbiased else lib.tsr_layernorm
        return self._take(make(self._program, self._ref(x), self._ref(gain), self._ref(bias), epsilon))

    def rmsnorm(self, x: Tensor, gain: Tensor, *, epsilon: float = 1e-6) -> Tensor:
        """gain * x / sqrt(mean(x^2) + epsilon) along the last axis."""
        return self._take(lib.tsr_rmsnorm(self._program, self._ref(x), self._ref(gain), epsilon))

    def relu(self, x: Tensor) -> Tensor:
        """max(x, 0)."""
        return self._take(lib.tsr_relu(self._program, self._ref(x)))

    def gelu(self, x: Tensor, *, tanh: bool = False) -> Tensor:
        """gelu(x), or with ``tanh`` its usual approximation."""
        kind = _ACTIVATIONS["gelu_tanh" if tanh else "gelu"]
        return self._take(lib.tsr_gelu(self._program, self._ref(x), kind))

    def silu(self, x: Tensor) -> Tensor:
        """x / (1 + exp(-x))."""
        return self._take(lib.tsr_silu(self._program, self._ref(x)))

    def _masking(self, masking: Optional[Masking], into: Any) -> None:
        if masking is None:
            return
        for name in ("additive", "lengths", "position", "relative"):
            setattr(into, name, self._ref(getattr(masking, name)))
        into.causal, into.bidirectional = int(masking.causal), int(masking.bidirectional)
        into.max_distance, into.clamped = masking.max_distance, int(masking.clamped)

    def mask(self, x: Tensor, masking: Masking) -> Tensor:
        """Scores [B, H, L, S] with the masking applied: excluded elements are -inf."""
        made = ffi.new("tsr_masking *")
        self._masking(masking, made)
        return self._take(lib.tsr_mask(self._program, self._ref(x), made))

    def attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        masking: Optional[Masking] = None,
        *,
        alpha: Optional[float] = None,
        rows: Optional[Tensor] = None,
        seed: Optional[Tensor] = None,
        rate: float = 0.0,
        stream: int = 0,
        factors: Optional[str] = None,
        softcap: float = 0.0,
        weights: bool = False,
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        """Fused attention: q [B, L, H, K], k [B, S, H, K], v [B, S, H, J] give [B, L, H, J]; with ``weights`` also the
        weights, [B, H, L, S].

        alpha: the factor of the scores; None: 1 / sqrt(K). rows: [B, S] i32, which row of k and v each key is.
        seed, rate, stream: of a dropout of the weights. softcap: a bound of the scores before the masking. k and v may
        have fewer heads than q, a divisor of their number."""
        args = ffi.new("tsr_attention_args *")
        args.q, args.k, args.v, args.rows = self._ref(q), self._ref(k), self._ref(v), self._ref(rows)
        self._masking(masking, args.masking)
        args.alpha = q.shape[-1] ** -0.5 if alpha is None else alpha
        args.seed, args.rate, args.stream = self._ref(seed), rate, stream
        args.reduced_precision = 0 if factors is None else _chosen("factors", factors, _DTYPES)
        args.softcap = softcap
        also = ffi.new("tsr_ref *")
        args.weights = also if weights else ffi.NULL
        made = self._take(lib.tsr_attention(self._program, args))
        return (made, Tensor(self, also[0])) if weights else made

    def embedding(
        self, table: Tensor, ids: Tensor, *, scales: Optional[Tensor] = None, alpha: float = 1.0
    ) -> Tensor:
        """alpha * table[ids]; scales: of the rows of a table of i8; of f16, of the groups of one of four bits."""
        if scales is not None:
            return self._take(
                lib.tsr_embedding_i8(self._program, self._ref(table), self._ref(scales), self._ref(ids), alpha)
            )
        return self._take(lib.tsr_embedding(self._program, self._ref(table), self._ref(ids), alpha))

    def copy(self, x: Tensor, dtype: Optional[str] = None) -> Tensor:
        """x, contiguous, as another type."""
        number = _chosen("dtype", dtype or x.dtype, _DTYPES)
        return self._take(lib.tsr_copy(self._program, self._ref(x), number))

    def conv1d(
        self, x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, *, stride: int = 1, padding: int = 0
    ) -> Tensor:
        """The convolution of x [batch, time, in] with weight [out, kernel, in], `padding` rows of zeros around x."""
        return self._take(
            lib.tsr_conv1d(self._program, self._ref(x), self._ref(weight), self._ref(bias), stride, padding)
        )

    def rotate(self, x: Tensor, turns: Tensor, *, alpha: float = 1.0) -> Tensor:
        """x with its columns i and K/2 + i turned as pairs, by the cosines and alpha times the sines in the halves of
        ``turns``, which broadcasts."""
        return self._take(lib.tsr_rotate(self._program, self._ref(x), self._ref(turns), alpha))

    def append(self, state: Tensor, x: Tensor, position: Optional[Tensor] = None) -> Tensor:
        """state[b, position[b] + l] = x[b, l]; returns the state as it is after the line."""
        return self._take(lib.tsr_append(self._program, self._ref(state), self._ref(x), self._ref(position)))

    def update(self, state: Tensor, x: Tensor) -> Tensor:
        """state[..] = x; returns the state as it is after the line."""
        return self._take(lib.tsr_update(self._program, self._ref(state), self._ref(x)))

    def gather(self, x: Tensor, index: Tensor, axis: int) -> Tensor:
        """x[.., index[m], ..] along an axis."""
        return self._take(lib.tsr_gather(self._program, self._ref(x), self._ref(index), axis))

    def scatter_add(self, x: Tensor, index: Tensor, axis: int, extent: int, *, alpha: float = 1.0) -> Tensor:
        """alpha * the sums of x[.., m, ..] over all m of one index[m], along an axis that has ``extent`` then."""
        return self._take(
            lib.tsr_scatter_add(self._program, self._ref(x), self._ref(index), axis, extent, alpha)
        )

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """The tensors one after another along an axis."""
        refs = ffi.new("tsr_ref[]", [self._ref(tensor) for tensor in tensors] or [0])
        return self._take(lib.tsr_concat(self._program, refs, len(tensors), axis))

    def topk(self, x: Tensor, k: int) -> Tuple[Tensor, Tensor]:
        """The k largest along the last axis, largest first, and their places."""
        places = ffi.new("tsr_ref *")
        made = self._take(lib.tsr_topk(self._program, self._ref(x), k, places))
        return made, Tensor(self, places[0])

    def reduce_sum(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """The sum over axes, which become extent 1; negative ones count from the last."""
        rank = len(x.shape)
        bits = 0
        for axis in axes:
            if not -rank <= axis < rank:
                raise InvalidArgumentError(f"axes={list(axes)}: the tensor has {rank} axes")
            bits |= 1 << axis % rank
        return self._take(lib.tsr_reduce_sum(self._program, self._ref(x), bits))

    def sum_of_squares(self, x: Tensor, plus: Optional[Tensor] = None) -> Tensor:
        """The sum of all x^2, and ``plus``: [1]."""
        return self._take(lib.tsr_sum_of_squares(self._program, self._ref(x), self._ref(plus)))

    def dropout(self, x: Tensor, seed: Tensor, rate: float, stream: int = 0) -> Tensor:
        """Elements dropped by chance, the same on every device; seed: [2] i32."""
        return self._take(lib.tsr_dropout(self._program, self._ref(x), self._ref(seed), rate, stream))

    def cross_entropy(self, logits: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """The loss of each row of logits [T, V], [T]; a label outside the vocabulary is ignored."""
        return self._take(
            lib.tsr_cross_entropy(self._program, self._ref(logits), self._ref(labels), smoothing, ffi.NULL)
        )

    def gradients(
        self, loss: Tensor, parameters: Sequence[Tensor], loss_gradient: Tensor
    ) -> List[Optional[Tensor]]:
        """Appends the lines of the gradients of sum(loss_gradient * loss); None for a parameter on which the loss does
        not depend. loss_gradient: f32, broadcasts to the loss, such as an input of one element."""
        refs = ffi.new("tsr_ref[]", [self._ref(parameter) for parameter in parameters] or [0])
        found = ffi.new("tsr_ref[]", max(len(parameters), 1))
        check(
            lib.tsr_gradients(
                self._program, self._ref(loss), self._ref(loss_gradient), refs, len(parameters), ffi.NULL, found
            )
        )
        return [Tensor(self, found[i]) if found[i] else None for i in range(len(parameters))]

    # ---- running

    def compile(self, device: Optional[str] = "auto", *, strict: bool = False) -> "Executable":
        """The program for a device. strict: fail where the device lacks an operator, instead of computing it on
        another device."""
        return Executable(self, device, strict)


class Executable(Closable):
    """A program on a device. Calling it runs it once: inputs by name as arrays, outputs by name as arrays.

    Any number of threads may call it; they take turns. What the program's states hold stays from run to run. bf16 goes
    in and comes out as float32."""

    def __init__(self, program: Program, device: Optional[str], strict: bool) -> None:
        self._inputs = _layouts(program._inputs)
        self._outputs = _layouts(program._outputs)
        self._states = _layouts(program._states)
        self._device: Any = None
        self._executable: Any = None
        self._buffers: List[Any] = []
        self._running = threading.Lock()
        runtime = _native.runtime()
        super().__init__()
        try:
            made = ffi.new("tsr_device **")
            check(lib.tsr_device_open(runtime, _native.device_name(device).encode(), made))
            self._device = made[0]
            options = sized("tsr_compile_options")
            bindings = ffi.new("tsr_binding[]", max(len(program._constants), 1))
            for i, (tensor, data) in enumerate(program._constants.values()):
                bindings[i].tensor, bindings[i].buffer = tensor._ref, self._upload(data)
            options.bindings, options.n_bindings = bindings, len(program._constants)
            options.strict = 1 if strict else 0
            made = ffi.new("tsr_executable **")
            check(lib.tsr_executable_create(self._device, program._program, options, made))
            self._executable = made[0]
        except BaseException:
            self.close()
            raise

    def _upload(self, data: bytes) -> Any:
        made = ffi.new("tsr_buffer **")
        check(lib.tsr_buffer_create(self._device, len(data), lib.TSR_BUFFER_DEVICE, made))
        self._buffers.append(made[0])
        check(lib.tsr_buffer_write(made[0], 0, len(data), ffi.from_buffer(data)))
        return made[0]

    def _free(self) -> None:
        lib.tsr_executable_destroy(self._executable or ffi.NULL)
        for buffer in self._buffers:
            lib.tsr_buffer_destroy(buffer)
        lib.tsr_device_close(self._device or ffi.NULL)

    def __call__(self, **inputs: "ArrayLike") -> Dict[str, "Array"]:
        """Runs the program once."""
        if set(inputs) != set(self._inputs):
            raise InvalidArgumentError(
                f"inputs {', '.join(sorted(inputs)) or 'none'}: the program has {', '.join(sorted(self._inputs))}"
            )
        data = {name: _bytes_of(value, *self._inputs[name][1:], name) for name, value in inputs.items()}
        with self._calling(), self._running:
            for name, values in data.items():
                self._write(self._inputs[name][0], values)
            check(lib.tsr_executable_run(self._executable))
            return {name: self._read(*layout) for name, layout in self._outputs.items()}

    def read(self, name: str) -> "Array":
        """What a state holds."""
        with self._calling(), self._running:
            return self._read(*self._state(name))

    def write(self, name: str, values: "ArrayLike") -> None:
        """Changes what a state holds."""
        ref, dtype, shape = self._state(name)
        with self._calling(), self._running:
            self._write(ref, _bytes_of(values, dtype, shape, name))

    def _state(self, name: str) -> Tuple[int, str, Tuple[int, ...]]:
        if name not in self._states:
            raise InvalidArgumentError(f"the program has no state {name!r}")
        return self._states[name]

    def _write(self, ref: int, data: bytes) -> None:
        check(lib.tsr_executable_write(self._executable, ref, ffi.from_buffer(data), len(data)))

    def _read(self, ref: int, dtype: str, shape: Tuple[int, ...]) -> "Array":
        n = int(lib.tsr_dtype_size(_DTYPES[dtype]))
        for extent in shape:
            n *= extent
        data = bytearray(n)
        check(lib.tsr_executable_read(self._executable, ref, ffi.from_buffer(data), n))
        return _array_of(data, dtype, shape)


def _layouts(tensors: Dict[str, Tensor]) -> Dict[str, Tuple[int, str, Tuple[int, ...]]]:
    return {name: (tensor._ref, tensor.dtype, tensor.shape) for name, tensor in tensors.items()}


__all__ = ["Executable", "Masking", "Program", "Tensor"]
