# SPDX-License-Identifier: Apache-2.0
"""Programs of operators against NumPy, on two devices."""

import math
import re
import threading

import numpy as np
import pytest

import tessera
from conftest import ROOT

DEVICES = ["cpu", "reference"]
RANDOM = np.random.default_rng(5)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def run_of(build, device="cpu", **arrays):
    """Runs what `build(program, tensors)` returns of inputs that are these arrays."""
    program = tessera.Program()
    dtypes = {"float32": "f32", "int32": "i32", "float16": "f16", "int8": "i8"}
    tensors = {name: program.input(name, a.shape, dtypes[a.dtype.name]) for name, a in arrays.items()}
    found = build(program, **tensors)
    for i, tensor in enumerate(found if isinstance(found, tuple) else (found,)):
        program.output(f"y{i}", tensor)
    with program.compile(device) as run:
        results = run(**arrays)
    return [results[f"y{i}"] for i in range(len(results))]


def near(found, expected, atol=2e-5):
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=atol)


A, B, X = normal(2, 3, 4), normal(4, 5), normal(3, 6)
GAIN, BIAS = normal(6), normal(6)
MEAN, DEVIATION = X.mean(-1, keepdims=True), X - X.mean(-1, keepdims=True)
WINDOWS, PADDED = normal(2, 2, 4), np.pad(A, ((0, 0), (1, 1), (0, 0)))
IDS = np.array([[2, 0], [1, 9]], np.int32)
ROWS = np.concatenate([X, np.zeros((7, 6), np.float32)])[IDS]

CASES = {
    "matmul": (lambda p, a, b: a @ b, dict(a=A, b=B), A @ B),
    "matmul, bias": (
        lambda p, a, b, c: p.matmul(a, b, c, alpha=0.5, activation="relu"),
        dict(a=A, b=B, c=normal(5) * 0 + 0.25),
        np.maximum(0.5 * (A @ B) + 0.25, 0),
    ),
    "transposed": (lambda p, a, b: p.matmul(a, b.T), dict(a=X, b=X), X @ X.T),
    "add": (lambda p, a, b: a + b, dict(a=X, b=BIAS), X + BIAS),
    "mul": (lambda p, a, b: a * b, dict(a=X, b=BIAS), X * BIAS),
    "softmax": (lambda p, x, m: p.softmax(x, m), dict(x=X, m=BIAS), softmax(X + BIAS)),
    "log_softmax": (lambda p, x: p.log_softmax(x), dict(x=X), np.log(softmax(X))),
    "layernorm": (
        lambda p, x, g, b: p.layernorm(x, g, b, epsilon=0.01),
        dict(x=X, g=GAIN, b=BIAS),
        GAIN * DEVIATION / np.sqrt(X.var(-1, keepdims=True) + 0.01) + BIAS,
    ),
    "layernorm, unbiased": (
        lambda p, x, g: p.layernorm(x, g, epsilon=0.01, unbiased=True),
        dict(x=X, g=GAIN),
        GAIN * DEVIATION / (X.std(-1, ddof=1, keepdims=True) + 0.01),
    ),
    "rmsnorm": (
        lambda p, x, g: p.rmsnorm(x, g, epsilon=0.01),
        dict(x=X, g=GAIN),
        GAIN * X / np.sqrt((X * X).mean(-1, keepdims=True) + 0.01),
    ),
    "relu": (lambda p, x: p.relu(x), dict(x=X), np.maximum(X, 0)),
    "gelu": (
        lambda p, x: p.gelu(x),
        dict(x=X),
        np.vectorize(lambda v: v * (1 + math.erf(v / math.sqrt(2))) / 2)(X.astype(float)),
    ),
    "gelu, tanh": (
        lambda p, x: p.gelu(x, tanh=True),
        dict(x=X),
        0.5 * X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3))),
    ),
    "silu": (lambda p, x: p.silu(x), dict(x=X), X / (1 + np.exp(-X))),
    "embedding": (lambda p, t, i: p.embedding(t, i, alpha=2.0), dict(t=X, i=IDS), 2 * ROWS),
    "copy": (lambda p, x: p.copy(x, "f16"), dict(x=X), X.astype(np.float16)),
    "conv1d": (
        lambda p, x, w, b: p.conv1d(x, w, b, stride=2, padding=1),
        dict(x=A, w=WINDOWS, b=GAIN[:2]),
        np.stack([np.einsum("bki,oki->bo", PADDED[:, t : t + 2], WINDOWS) for t in (0, 2)], 1) + GAIN[:2],
    ),
    "rotate": (
        lambda p, x, t: p.rotate(x, t, alpha=-1.0),
        dict(x=X, t=GAIN),
        np.concatenate([X[:, :3] * GAIN[:3] + X[:, 3:] * GAIN[3:], X[:, 3:] * GAIN[:3] - X[:, :3] * GAIN[3:]], -1),
    ),
    "gather": (lambda p, x, i: p.gather(x, i, -1), dict(x=X, i=np.array([5, 1, 1], np.int32)), X[:, [5, 1, 1]]),
    "scatter_add": (
        lambda p, x, i: p.scatter_add(x, i, 0, 4, alpha=2.0),
        dict(x=X, i=np.array([3, 1, 3], np.int32)),
        2 * np.stack([X[1] * 0, X[1], X[1] * 0, X[0] + X[2]]),
    ),
    "concat": (lambda p, a, b: p.concat([a, b, a], 1), dict(a=X, b=X[:, :2]), np.concatenate([X, X[:, :2], X], 1)),
    "reduce_sum": (lambda p, a: p.reduce_sum(a, [0, -1]), dict(a=A), A.sum((0, 2), keepdims=True)),
    "sum_of_squares": (lambda p, x: p.sum_of_squares(x), dict(x=X), [(X * X).sum()]),
    "cross_entropy": (
        lambda p, x, i: p.cross_entropy(x, i),
        dict(x=X, i=np.array([4, -1, 0], np.int32)),
        -np.log(softmax(X))[[0, 1, 2], [4, 0, 0]] * [1, 0, 1],
    ),
    "views": (
        lambda p, a: p.copy(p.expand(p.slice(p.permute(p.reshape(a, (2, 2, 6)), (1, 2, 0)), 1, 2, 1), (2, 3, 2))),
        dict(a=A),
        np.broadcast_to(A.reshape(2, 2, 6).transpose(1, 2, 0)[:, 2:3], (2, 3, 2)),
    ),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_operator(case, device):
    build, arrays, expected = CASES[case]
    near(run_of(build, device, **arrays)[0], expected)


@pytest.mark.parametrize("device", DEVICES)
def test_topk(device):
    values, places = run_of(lambda p, x: p.topk(x, 2), device, x=X)
    order = np.argsort(-X, axis=-1)[:, :2]
    near(values, np.take_along_axis(X, order, -1))
    assert places.dtype == np.int32 and (places == order).all()


@pytest.mark.parametrize("device", DEVICES)
def test_attention(device):
    q, k, v = normal(2, 3, 2, 4), normal(2, 5, 2, 4), normal(2, 5, 2, 6)
    lengths, additive = np.array([4, 5], np.int32), normal(2, 1, 3, 5)
    scores = np.einsum("blhk,bshk->bhls", q, k) / 2 + additive
    hidden = np.arange(5) >= np.minimum(lengths[:, None], 5)
    scores = np.where(hidden[:, None, None], -np.inf, scores)
    scores = np.where(np.arange(5) > np.arange(3)[:, None], -np.inf, scores)

    def build(p, q, k, v, n, m):
        masking = tessera.Masking(lengths=n, additive=m, causal=True)
        y, w = p.attention(q, k, v, masking, weights=True)
        x = p.matmul(p.permute(q, (0, 2, 1, 3)), p.permute(k, (0, 2, 3, 1)), alpha=0.5)
        return y, w, p.mask(x, masking)

    y, weights, masked = run_of(build, device, q=q, k=k, v=v, n=lengths, m=additive)
    near(weights, softmax(scores))
    near(y, np.einsum("bhls,bshj->blhj", softmax(scores), v))
    near(masked, scores)


@pytest.mark.parametrize("device", DEVICES)
def test_whole_numbers(device):
    weights = RANDOM.integers(-127, 128, (4, 5)).astype(np.int8)
    scales = np.abs(normal(5)) / 127
    found = run_of(lambda p, a, w, s: p.matmul(a, w, scales=s), device, a=A, w=weights, s=scales)[0]
    near(found, A @ (weights * scales), atol=0.05)
    table = run_of(
        lambda p, w, s, i: p.embedding(w, i, scales=s), device, w=weights, s=scales[:4], i=np.array([3, 0], np.int32)
    )[0]
    near(table, (weights * scales[:4, None])[[3, 0]])


def test_types():
    program = tessera.Program()
    half = program.constant("half", np.array([1.0, 1 / 3]), "bf16")
    assert half.dtype == "bf16" and half.shape == (2,)
    program.output("same", half)
    program.output("wide", program.copy(half, "f32"))
    with program.compile("cpu") as run:
        found = run()
    assert found["same"].dtype == np.float32
    assert found["same"].tolist() == found["wide"].tolist() == [1.0, 0.333984375]
    assert program.constant("whole", [1, 2]).dtype == "i32" and program.constant("real", 0.5).dtype == "f32"


@pytest.mark.parametrize("factors", ["f16", "bf16"])
def test_rounded_factors(factors):
    """A permission, of which the result is near either way."""
    found = run_of(lambda p, a, b: p.matmul(a, b, factors=factors), a=A, b=B)[0]
    near(found, A @ B, atol=0.05)
    program = tessera.Program()
    a, b = program.input("a", A.shape), program.constant("b", B, factors)
    program.output("y", program.matmul(a, b, factors=factors))
    with program.compile("cpu") as run:
        near(run(a=A)["y"], A @ B, atol=0.05)


@pytest.mark.parametrize("device", DEVICES)
def test_states(device):
    program = tessera.Program()
    cache, total = program.state("cache", (1, 4, 2)), program.state("total", (2,))
    x, at = program.input("x", (1, 1, 2)), program.input("at", (1,), "i32")
    program.append(cache, x, at)
    program.update(total, program.reshape(x, (2,)))
    program.output("sum", program.reduce_sum(x, [2]))
    with program.compile(device) as run:
        for i in range(3):
            assert run(x=[[[i, 1]]], at=[i])["sum"].tolist() == [[[i + 1]]]
        assert run.read("cache").tolist() == [[[0, 1], [1, 1], [2, 1], [0, 0]]]
        run.write("cache", np.ones((1, 4, 2)))
        run(x=[[[7, 8]]], at=[3])
        assert run.read("cache").tolist() == [[[1, 1], [1, 1], [1, 1], [7, 8]]]
        assert run.read("total").tolist() == [7, 8]
        with pytest.raises(tessera.InvalidArgumentError, match="no state 'x'"):
            run.read("x")


@pytest.mark.parametrize("device", DEVICES)
def test_gradients(device):
    """Against finite differences."""
    w, labels = normal(6, 4), np.array([3, 0, 1], np.int32)
    program = tessera.Program()
    x, weights = program.input("x", X.shape), program.input("w", w.shape)
    unused, one = program.input("u", (2,)), program.input("one", (1,))
    loss = program.cross_entropy(program.matmul(x, weights, activation="gelu"), program.constant("labels", labels))
    program.output("loss", program.reduce_sum(loss, [0]))
    found = program.gradients(loss, [weights, unused], one)
    assert found[1] is None
    program.output("dw", found[0])
    with program.compile(device) as run:

        def loss_of(matrix):
            return run(x=X, w=matrix, u=[0, 0], one=[1.0])

        first = loss_of(w)["dw"]
        for at in ((0, 0), (2, 3), (5, 1)):
            step = np.zeros_like(w)
            step[at] = 1e-2
            slope = (loss_of(w + step)["loss"] - loss_of(w - step)["loss"]) / 2e-2
            assert first[at] == pytest.approx(slope[0], abs=2e-3)


def test_dropout():
    seed = np.array([3, 4], np.int32)
    ones = np.ones((40, 50), np.float32)
    drop = [run_of(lambda p, x, s: p.dropout(x, s, 0.25), device, x=ones, s=seed)[0] for device in DEVICES]
    assert (drop[0] == drop[1]).all() and 0.2 < (drop[0] == 0).mean() < 0.3


def test_listing():
    program = tessera.Program()
    x = program.input("x", (2, 3))
    program.output("y", program.relu(x @ x.T))
    assert len(program) == 2 and "matmul" in str(program) and "relu" in str(program)
    assert repr(x) == "<tessera.Tensor f32 [2, 3]>"


def test_every_operator():
    """Each operator of the library's is a method, but for gradients and the optimiser."""
    header = (ROOT / "include" / "tessera" / "backend.h").read_text(encoding="utf-8")
    names = {name.lower() for name in re.findall(r"\bTSR_OP_(\w+) = \d+", header)} - {"count", "adam"}
    assert len(names) > 30
    missing = [name for name in names if not name.endswith("_gradient") and not hasattr(tessera.Program, name)]
    assert not missing


def test_errors():
    program = tessera.Program()
    x, other = program.input("x", (2, 3)), tessera.Program().input("x", (3, 2))
    with pytest.raises(tessera.InvalidArgumentError, match="another program"):
        program.matmul(x, other)
    for work in (
        lambda: program.input("y", (2,), "f8"),
        lambda: program.matmul(x, x.T, activation="step"),
        lambda: program.permute(x, (0, 0)),
        lambda: program.reduce_sum(x, [2]),
    ):
        with pytest.raises(tessera.InvalidArgumentError):
            work()
    with program.compile("cpu") as run:
        with pytest.raises(tessera.InvalidArgumentError, match="the program has x"):
            run()
        with pytest.raises(tessera.InvalidArgumentError, match=r"x: the shape is \(3, 2\), and \(2, 3\) was expected"):
            run(x=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="the executable is closed"):
        run(x=np.zeros((2, 3)))
    with pytest.raises(tessera.NoDeviceError):
        program.compile("nothing")
    with pytest.raises(tessera.ShapeError, match="matmul"):
        program.matmul(x, x)
    with pytest.raises(tessera.ShapeError):  # it stays
        program.compile("cpu")


def test_threads():
    program = tessera.Program()
    x = program.input("x", (8, 8))
    program.output("y", x @ x)
    wrong = []
    with program.compile("cpu") as run:

        def work(k):
            for _ in range(20):
                if run(x=np.full((8, 8), k))["y"][0, 0] != 8 * k * k:
                    wrong.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
