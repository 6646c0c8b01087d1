# SPDX-License-Identifier: Apache-2.0
#
# For bench-torch: operators in PyTorch, by the names and shapes of `tessera bench ops`.
import time

ENOUGH_OPERANDS = 64 << 20  # bytes: calls take turns with as many operands, as in `tessera bench ops`
MOST_OPERANDS = 64


def extents(shape):
    return [int(part) for part in shape.split("x")]


def attention(torch, q, k, v):
    """q [1, H, L, K]"""
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)
    scores = torch.matmul(q, k.transpose(-2, -1)) * q.shape[-1] ** -0.5  # PyTorch 1
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def rmsnorm(torch, x, gain):
    if hasattr(torch.nn.functional, "rms_norm"):
        return torch.nn.functional.rms_norm(x, (x.shape[-1],), gain, 1e-5)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * gain


def operator(torch, name, shape):
    """The shapes of its operands, and a function of them."""
    f, e = torch.nn.functional, extents(shape)
    if name == "matmul":
        return [(e[1], e[2]), (e[0], e[2])], f.linear
    if name == "logits_topk":
        return [(e[1], e[2]), (e[0], e[2])], lambda x, w: torch.topk(f.linear(x, w), e[3])
    if name == "attention":
        q, k = (1, e[2], e[0], e[3]), (1, e[2], e[1], e[3])
        return [q, k, k], lambda q, k, v: attention(torch, q, k, v)
    if name == "conv1d":
        operands = [(1, e[2], e[1]), (e[0], e[2], 3), (e[0],)]
        return operands, lambda x, w, b: f.conv1d(x, w, b, stride=e[3], padding=1)
    matrix, row = (e[0], e[1]), (e[1],)
    return {
        "softmax": ([matrix], lambda x: torch.softmax(x, dim=-1)),
        "layernorm": ([matrix, row, row], lambda x, g, b: f.layer_norm(x, row, g, b)),
        "rmsnorm": ([matrix, row], lambda x, g: rmsnorm(torch, x, g)),
        "add": ([matrix, matrix], torch.add),
        "add_norm": ([matrix, row, row, matrix], lambda x, g, b, r: f.layer_norm(x + r, row, g, b)),
        "gelu": ([matrix], f.gelu),
        "topk": ([matrix], lambda x: torch.topk(x, e[-1])),
        "copy": ([matrix], torch.clone),
    }[name]


def seconds_of_operator(torch, device, dtype, name, shape, least):
    """Mean seconds of one call, over at least `least` seconds; None where PyTorch lacks it in this type."""
    shapes, run = operator(torch, name, shape)
    generator = torch.Generator().manual_seed(1)
    size = sum(4 * torch.Size(one).numel() for one in shapes)
    count = max(1, min(MOST_OPERANDS, ENOUGH_OPERANDS // size))
    operands = [[torch.rand(one, generator=generator).to(device, dtype) for one in shapes] for _ in range(count)]

    def synchronise():
        if device == "cuda":
            torch.cuda.synchronize()

    with torch.inference_mode():
        try:
            run(*operands[0])
        except RuntimeError:  # no half precision on a CPU
            return None
        for one in operands:
            run(*one)
        synchronise()
        calls, start = 0, time.perf_counter()
        while True:
            for one in operands:
                run(*one)
            synchronise()
            calls += count
            taken = time.perf_counter() - start
            if taken >= least:
                return taken / calls
