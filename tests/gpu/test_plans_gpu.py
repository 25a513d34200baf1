"""Every function of moye.kernels that repeats its calls: planned and called again, it writes what it wrote at first.

Before each call outputs are NaN again, and so is the memory that calls have in common.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading

import pytest
import torch

import moye.kernels
from moye.kernels import gemm
from moye.runtime import rooms
from moye.runtime.replayed import Replayed


def randn(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda").to(dtype)


def nan(*shape, dtype=torch.bfloat16):
    return torch.full(shape, torch.nan, device="cuda", dtype=dtype)


def integers(high, *shape, dtype=torch.int64):
    return torch.randint(0, high, shape, device="cuda", dtype=dtype)


def product(M, N, K, dtype):
    return (randn(M, K, dtype=dtype), randn(N, K, dtype=dtype), nan(M, N, dtype=dtype)), {}


def forward(*shape, **options):
    return (nan(*shape), *(randn(*shape) for _ in range(3))), options


def backward(batch, length, heads, dim, **options):
    out, q, k, v = forward(batch, length, heads, dim)[0]
    lse = nan(batch, heads, length, dtype=torch.float32)
    rules = {name: x for name, x in options.items() if name != "deterministic"}
    moye.kernels.attention(out, q, k, v, lse=lse, **rules)
    return (*(nan(*q.shape) for _ in range(3)), randn(*q.shape), q, k, v, out, lse), options


def offsets():
    return torch.tensor([0, 130, 130, 300, 777], device="cuda", dtype=torch.int32)


def sequences():
    return (nan(777, 4, 64), *(randn(777, 4, 64) for _ in range(3)), offsets(), offsets()), {"causal": True}


def sequences_backward():
    out, q, k, v = (nan(777, 4, 64), *(randn(777, 4, 64) for _ in range(3)))
    lse = nan(4, 777, dtype=torch.float32)
    moye.kernels.attention_varlen(out, q, k, v, offsets(), offsets(), lse=lse)
    return (*(nan(777, 4, 64) for _ in range(3)), randn(777, 4, 64), q, k, v, out, lse, offsets(), offsets()), {}


def paged():
    table = torch.randperm(64, device="cuda").to(torch.int32).reshape(2, 32)
    return (nan(2, 1, 8, 64), randn(2, 1, 8, 64), randn(64, 64, 2, 64), randn(64, 64, 2, 64), table,
            torch.tensor([2000, 777], device="cuda", dtype=torch.int32)), {}


def losses(rows, columns):
    return nan(rows, dtype=torch.float32), randn(rows, columns), integers(columns, rows)


def norm_backward(rows, columns, means):
    numbers = [torch.rand(rows, device="cuda") for _ in range(1 + means)]
    return (nan(rows, columns), randn(rows, columns), randn(rows, columns), randn(columns), *numbers), {
        "dweight": nan(columns)}


def linear(gradients):
    x, W = randn(300, 256), randn(5000, 256)
    more = {"dx": nan(300, 256), "dW": nan(5000, 256)} if gradients else {}
    return (nan(dtype=torch.float32), x, W, integers(5000, 300)), {"chunk": 128, **more}


def probabilities():
    return nan(64, 3000), randn(64, 3000), torch.softmax(randn(64, 3000).float(), 1).bfloat16()


F16, F32 = torch.float16, torch.float32
CASES = {                                               # name, kind: a maker of arguments and options
    ("gemm", "one launch"): lambda: product(128, 512, 256, torch.bfloat16),
    ("gemm", "parts in memory"): lambda: product(64, 64, 32768, F16),
    ("gemm", "parts of fp32"): lambda: product(64, 64, 8192, F32),
    ("gemm", "copied"): lambda: product(123, 333, 777, torch.bfloat16),
    ("attention", "short"): lambda: forward(2, 300, 4, 64, causal=True),
    ("attention", "long"): lambda: forward(2, 4096, 16, 128, causal=True),
    ("attention_backward", "atomic"): lambda: backward(2, 300, 4, 64, causal=True),
    ("attention_backward", "in order"): lambda: backward(2, 700, 4, 128, deterministic=True),
    ("attention_varlen", ""): sequences,
    ("attention_varlen_backward", ""): sequences_backward,
    ("paged_attention", ""): paged,
    ("embedding", ""): lambda: ((nan(500, 64), randn(1000, 64), integers(1000, 500)), {}),
    ("embedding_backward", "few"): lambda: ((nan(1000, 64), randn(500, 64), integers(1000, 500)), {}),
    ("embedding_backward", "sorted"): lambda: ((nan(1000, 64), randn(20000, 64), integers(1000, 20000)), {}),
    ("swiglu", ""): lambda: ((nan(100, 512), randn(100, 1024)), {}),
    ("geglu", ""): lambda: ((nan(100, 512), randn(100, 512), randn(100, 512)), {}),
    ("_gradients", ""): lambda: (("swiglu_backward", "silu", *(nan(100, 512) for _ in range(2)),
                                  *(randn(100, 512) for _ in range(3))), {}),
    ("_permute", ""): lambda: (("permute", nan(300, 7, 200), randn(200, 7, 300), True), {}),
    ("_reduce", "rows"): lambda: ((nan(100, dtype=F32), randn(100, 3000), "sum", 1), {}),
    ("_reduce", "all"): lambda: ((nan(1, dtype=F32)[0], randn(3000, 3000), "norm2"), {}),
    ("rope", ""): lambda: ((nan(2, 64, 4, 64), randn(2, 64, 4, 64), randn(64, 32, dtype=F32),
                            randn(64, 32, dtype=F32)), {}),
    ("cross_entropy", ""): lambda: (losses(300, 5000), {"reduction": "none", "dlogits": nan(300, 5000)}),
    ("cross_entropy", "mean"): lambda: ((nan(dtype=F32), *losses(300, 5000)[1:]), {}),
    ("cross_entropy_backward", ""): lambda: ((nan(300, 5000), randn(dtype=F32), randn(300, 5000),
                                              integers(5000, 300), randn(300, dtype=F32)), {}),
    ("linear_cross_entropy", "loss"): lambda: linear(False),
    ("linear_cross_entropy", "gradients"): lambda: linear(True),
    ("rms_norm", ""): lambda: ((nan(100, 4096), randn(100, 4096), randn(4096)), {}),
    ("layer_norm", ""): lambda: ((nan(100, 4096), randn(100, 4096), randn(4096), randn(4096)), {}),
    ("rms_norm_backward", ""): lambda: norm_backward(1000, 4096, False),
    ("layer_norm_backward", ""): lambda: norm_backward(1000, 4096, True),
    ("softmax", ""): lambda: ((nan(64, 3000), randn(64, 3000)), {}),
    ("log_softmax", ""): lambda: ((nan(64, 3000), randn(64, 3000)), {}),
    ("softmax_backward", ""): lambda: (probabilities(), {}),
    ("log_softmax_backward", ""): lambda: (probabilities(), {}),
    ("cumsum", "rows"): lambda: ((nan(100, 3000, dtype=F32), randn(100, 3000, dtype=F32)), {}),
    ("cumsum", "one"): lambda: ((nan(3000000, dtype=F32), randn(3000000, dtype=F32)), {}),
    ("top_k", ""): lambda: ((nan(30, 50), integers(9, 30, 50), randn(30, 30000)), {}),
}


def replayed():
    """All of them by name, wherever they are defined."""
    found = {}
    for module in pkgutil.walk_packages(moye.kernels.__path__, "moye.kernels."):
        for x in vars(importlib.import_module(module.name)).values():
            if isinstance(x, Replayed):
                found[x.function.__name__] = x
    return found


def arrays_of(args, options):
    return [x for x in (*args, *options.values()) if isinstance(x, torch.Tensor)]


def test_none_is_missing():
    assert {name for name, _ in CASES} == set(replayed())


def poisoned(arrays, before):
    """The arguments as they were, and NaN in all that calls have in common."""
    for x, was in zip(arrays, before, strict=True):
        x.copy_(was)
    for memory in rooms._common.values():
        memory.fill_(0xff)


def agree(arrays, wanted):
    for x, exactly in zip(arrays, wanted, strict=True):
        torch.testing.assert_close(x, exactly, rtol=2e-2, atol=2e-2, equal_nan=True)


@pytest.mark.parametrize(("name", "kind"), CASES, ids=" ".join)
def test_again_and_again(name, kind):
    function = replayed()[name]
    torch.manual_seed(0)
    calls = [CASES[name, kind]() for _ in range(2)]
    arrays = [arrays_of(*call) for call in calls]
    before = [[x.clone() for x in some] for some in arrays]
    for args, options in calls:
        function.function(*args, **options)
    wanted = [[x.clone() for x in some] for some in arrays]
    assert any(not torch.equal(x, was) for x, was in zip(wanted[0], before[0], strict=True))
    plan = function.plan(*calls[0][0], **calls[0][1])
    for _ in range(3):
        poisoned(arrays[0], before[0])
        plan()
        agree(arrays[0], wanted[0])
    poisoned(arrays[1], before[1])
    plan(*arrays[1])
    agree(arrays[1], wanted[1])
    for which in (0, 1, 0, 1, 0, 1):
        poisoned(arrays[which], before[which])
        function(*calls[which][0], **calls[which][1])
        agree(arrays[which], wanted[which])


@pytest.mark.parametrize("planned", [False, True], ids=["call", "plan"])
@pytest.mark.parametrize("kind", ["copied", "parts in memory"])
def test_threads_on_one_stream(kind, planned):
    """What one thread copies for its second kernel is its own."""
    torch.manual_seed(0)
    made = [CASES["gemm", kind]()[0] for _ in range(4)]
    wanted = [(A.double() @ B.double().T).to(C.dtype) for A, B, C in made]
    call = gemm.plan(*made[0]) if planned else gemm
    call(*made[0])
    wrong = []

    def work(which):
        A, B, C = made[which]
        for _ in range(200):
            call(A, B, C)
            found = C.clone()
            if not torch.allclose(found.double(), wanted[which].double(), rtol=2e-2, atol=2e-1 * A.shape[1] ** 0.5):
                wrong.append(which)
    threads = [threading.Thread(target=work, args=(which,)) for which in range(len(made))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
