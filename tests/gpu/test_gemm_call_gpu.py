"""Repeated products and plans of them on a GPU: values, streams, captured graphs, torch.compile, sizes that are new.

Products here cover the ways of a call: one launch, parts of the sum that meet in memory, operands that are copied
first, two kernels one after the other.
"""

from __future__ import annotations

import threading

import pytest
import torch

from moye.errors import ArgumentError
from moye.kernels import WarpgroupConfig, gemm
from moye.kernels.gemm.sm90.kernel import gemm_sm90_kernel

KINDS = {                                               # M, N, K, dtype, options
    "one": (128, 512, 256, torch.bfloat16, {}),
    "fused": (128, 512, 256, torch.float16, {"activation": "relu", "bias": True, "residual": True}),
    "in_memory": (64, 64, 32768, torch.float16, {}),
    "copied": (123, 333, 777, torch.bfloat16, {}),
    "narrow": (123, 333, 77, torch.bfloat16, {}),
    "fp32": (100, 200, 300, torch.float32, {}),
    "fp32_parts": (64, 64, 8192, torch.float32, {}),
    "fp64": (64, 64, 128, torch.float64, {"beta": 1.0}),
}


def operands(kind, seed=0):
    M, N, K, dtype, options = KINDS[kind]
    torch.manual_seed(seed)
    A, B, C, residual = (torch.randint(-3, 4, shape, device="cuda").to(dtype)
                         for shape in ((M, K), (N, K), (M, N), (M, N)))
    more = dict(options)
    if "bias" in more:
        more["bias"] = residual[0].clone()
    if "residual" in more:
        more["residual"] = residual
    return A, B, C, more


def expected(A, B, C, more):
    wanted = A.double() @ B.double().T + more.get("beta", 0) * C.double()
    for name in ("bias", "residual"):
        if name in more:
            wanted = wanted + more[name].double()
    return (wanted.relu() if "activation" in more else wanted).to(C.dtype)


def close(C, wanted):
    torch.testing.assert_close(C.double(), wanted.double(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_calls_again_and_with_other_arrays(kind):
    for seed in range(6):
        A, B, C, more = operands(kind, seed)
        wanted = expected(A, B, C, more)
        assert gemm(A, B, C, **more) is C
        close(C, wanted)
    if kind != "fp64":
        assert gemm._ways                               # torch's check is in use


@pytest.mark.parametrize("kind", KINDS)
def test_plans(kind):
    A, B, C, more = operands(kind)
    wanted, before = expected(A, B, C, more), C.clone()
    plan = gemm.plan(A, B, C, **more)
    torch.testing.assert_close(C, before)
    plan()
    close(C, wanted)
    X, Y, Z, other = operands(kind, 1)
    wanted = expected(X, Y, Z, other)
    plan(X, Y, Z, **{name: x for name, x in other.items() if name in ("bias", "residual")})
    close(Z, wanted)
    with pytest.raises(ArgumentError, match="and the plan is for"):
        plan(X[1:], Y, Z)


@pytest.mark.parametrize("planned", [False, True], ids=["call", "plan"])
@pytest.mark.parametrize("kind", KINDS)
def test_captured_graphs(kind, planned):
    """A graph is replayed with other data, also while the same product runs on another stream."""
    A, B, C, more = operands(kind)
    before = C.clone()
    call = gemm.plan(A, B, C, **more) if planned else lambda: gemm(A, B, C, **more)
    for _ in range(4):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    side = torch.cuda.Stream()
    for seed in (1, 2, 3):
        X, Y, _, _ = operands(kind, seed)
        A.copy_(X)
        B.copy_(Y)
        C.copy_(before)
        wanted = expected(A, B, C, more)
        other = operands(kind, seed + 10)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            for _ in range(3):
                gemm(*other[:3], **other[3])
        graph.replay()
        torch.cuda.synchronize()
        close(C, wanted)


@pytest.mark.parametrize("kind", ["one", "in_memory", "copied", "fp32_parts"])
def test_streams_at_once(kind):
    """One plan on two streams: each has a workspace of its own."""
    made = [operands(kind, seed) for seed in range(2)]
    plan = gemm.plan(*made[0][:3], **made[0][3])
    streams = [torch.cuda.Stream() for _ in made]
    torch.cuda.synchronize()
    for _ in range(20):
        for stream, (A, B, C, _) in zip(streams, made, strict=True):
            with torch.cuda.stream(stream):
                plan(A, B, C)
    torch.cuda.synchronize()
    for A, B, C, more in made:
        close(C, expected(A, B, C, more))


def test_threads():
    wrong = []

    def work(seed):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for i in range(30):
                A, B, C, more = operands(("one", "copied", "in_memory")[i % 3], seed)
                wanted = expected(A, B, C, more)
                gemm(A, B, C, **more)
                stream.synchronize()
                if not torch.allclose(C.double(), wanted.double(), rtol=1e-2, atol=1e-2):
                    wrong.append((seed, i))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_moved_tensor_is_found():
    """The same tensor with other memory, another shape, other strides."""
    A, B, C, _ = operands("one")
    plan = gemm.plan(A, B, C)
    for _ in range(4):
        gemm(A, B, C)
    A.data = torch.ones_like(A)
    wanted = expected(A, B, C, {})
    gemm(A, B, C)
    close(C, wanted)
    C.zero_()
    plan()
    close(C, wanted)
    A.data = torch.ones(128, 264, device="cuda", dtype=A.dtype)[:, :256]
    C.zero_()
    gemm(A, B, C)
    close(C, wanted)
    with pytest.raises(ArgumentError, match="array 1 has strides"):
        plan()


@pytest.mark.parametrize("options", [{}, {"mode": "reduce-overhead"}], ids=["compiled", "in_graphs"])
def test_torch_compile(options):
    def layer(A, B, C, D, W):
        gemm(A, B, C, activation="relu")
        gemm(C + 1, W, D)
        return D * 2
    A, B, C, _ = operands("one")
    W = torch.randint(-1, 2, (64, 512), device="cuda").to(A.dtype)
    compiled = torch.compile(layer, fullgraph=True, **options)
    for seed in range(5):
        A.copy_(operands("one", seed)[0])
        D, E = (torch.zeros(128, 64, device="cuda", dtype=A.dtype) for _ in range(2))
        found = compiled(A, B, C, D, W).clone()
        close(found, layer(A, B, C, E, W))
        close(D, E)


def test_no_compile_for_a_new_size():
    """Extents and strides are arguments of the kernel: all sizes of one configuration have one program, or two where
    blocks have one tile each, or more.
    """
    config = WarpgroupConfig(128, 128, 64, 4)
    for sizes in (((2048, 2048, 2048), (2056, 2048, 2048), (4096, 1000, 512), (512, 8192, 264)),
                  ((7, 64, 8192), (1000, 1024, 512), (8, 4096, 256))):
        known = None
        for M, N, K in sizes:
            A, B, C = (torch.ones(shape, device="cuda", dtype=torch.bfloat16) for shape in ((M, K), (N, K), (M, N)))
            gemm(A, B, C, config=config)
            assert (C == K).all()
            known = known or len(gemm_sm90_kernel._specialised)
        assert len(gemm_sm90_kernel._specialised) == known
