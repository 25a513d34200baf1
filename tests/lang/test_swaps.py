"""Register tensors that change places in a loop: right in the simulator, without moves on the GPU, or refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import moye as mo
from moye.cuda.compiler.sass import parse_sass
from moye.errors import TraceError

MMA = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, 64))
ROWS = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (64, 64))


@mo.kernel
def fibonacci(x, n):
    a, b = mo.fragment((4,), mo.float32), mo.fragment((4,), mo.float32)
    a.fill(1)
    b.fill(2)
    for _ in range(n):
        a[...] = a + b
        a, b = b, a
    x[mo.thread_idx().x, 0], x[mo.thread_idx().x, 1] = a[0], b[3]


@pytest.mark.parametrize("n", range(6))
def test_two_change_places(n):
    x, (a, b) = np.zeros((32, 2), np.float32), (1, 2)
    for _ in range(n):
        a, b = b, a + b
    assert mo.check(fibonacci)[1, 32](x, n).ok and (x == [a, b]).all()


def test_the_loop_has_no_moves():
    program = fibonacci.compile(np.zeros((32, 2), np.float32), 5, block=32, arch="sm_90a")
    assert "#pragma unroll 2" in program.source
    code = parse_sass(program.sass)
    first, last = next((i.target, at) for at, i in enumerate(code) if i.target is not None and i.target < at)
    assert [i.name for i in code[first:last]].count("FADD") == 4, program.sass       # of two elements
    assert not [i.name for i in code[first:last] if "MOV" in i.name]


@mo.kernel
def three(x, n, how: mo.Constexpr):
    a, b, c = (mo.fragment((2,), mo.int32) for _ in range(3))
    a.fill(1)
    b.fill(20)
    c.fill(300)
    i = mo.int32(0)
    if how == "while":
        while i < n:
            a[...] = a + 1
            a, b, c = b, c, a
            i += 1
    elif how == "continue":
        for i in range(n):
            a[...] = a + 1
            a, b, c = b, c, a
            if i % 2 == 0:
                continue
            b[...] = b + 7
    elif how == "tuple":
        held = tuple(mo.fragment((2,), mo.int32) for _ in range(3))
        for j in mo.static_range(3):
            held[j][...] = (a, b, c)[j]
        for _ in range(n):
            held[0][...] = held[0] + 1
            held = (held[1], held[2], held[0])
        a, b, c = held
    elif how == "late":
        for _ in range(n):
            a[...] = a + 1
            last = a.with_layout(mo.make_layout((1, 2)))
            a, b, c = b, c, a
        if n > 0:
            last[0, 0] = last[0, 0] + 1000
    else:
        for _ in range(n):
            a[...] = a + 1
            a, b, c = b, c, a
    x[mo.thread_idx().x, 0], x[mo.thread_idx().x, 1], x[mo.thread_idx().x, 2] = a[0], b[0], c[0]


@pytest.mark.parametrize("n", range(5))
@pytest.mark.parametrize("how", ["", "while", "continue", "tuple"])
def test_three_go_round(n, how):
    x, held = np.zeros((32, 3), np.int32), [1, 20, 300]
    for i in range(n):
        held = [*held[1:], held[0] + 1]
        if how == "continue" and i % 2:
            held[1] += 7
    assert mo.check(three)[1, 32](x, n, how).ok and (x == held).all(), (x[0], held)


@mo.kernel
def scores(out, n):
    """The scores of one step are computed while those of the step before are used."""
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(mo.bfloat16, ROWS), mo.shared_array(mo.bfloat16, ROWS)
    for i in range(tid, 4096, 128):
        sA[i // 64, i % 64] = (i % 3).to(mo.bfloat16)
        sB[i // 64, i % 64] = (i % 5).to(mo.bfloat16)
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = MMA.get_slice(tid)
    tA, tB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    now, then = MMA.partition_fragment_C((64, 64)), MMA.partition_fragment_C((64, 64))
    total = MMA.partition_fragment_C((64, 64))
    total.fill(0)
    then.fill(1)
    for k in range(n):
        mo.warpgroup_arrive()
        mo.gemm(MMA, tA, tB, now, accumulate=False)
        mo.warpgroup_commit_batch()
        total[...] = total + then * (k + 1)
        mo.warpgroup_wait(0)
        now, then = then, now
    mo.copyto(thr.partition_C(out), total)


def test_accumulators():
    out = np.zeros((64, 64), np.float32)
    i = np.arange(4096).reshape(64, 64)
    for n in (1, 2, 5):
        report = mo.check(scores)[1, 128](out, n)
        product = (i % 3).astype(np.float32) @ (i % 5).astype(np.float32).T
        assert report.ok and np.array_equal(out, 1 + product * (n * (n + 1) // 2 - 1)), report
    program = scores.compile(mo.TensorLike(mo.float32, (64, 64)), 5, block=128, arch="sm_90a")
    products = [match.start() for match in re.finditer("HGMMA", program.sass)]
    between = program.sass[products[0]:products[7]]     # two turns, as if written one after the other
    assert program.spills == 0 and not re.search(r"\bMOV R\d+, R\d+|IMAD\.MOV\S* R\d+, RZ, RZ, R\d+", between)


# --- what is refused -------------------------------------------------------------------------------------------------


@mo.kernel
def wrong(x, n, how: mo.Constexpr):
    a, b = mo.fragment((4,), mo.float32), mo.fragment((4,), mo.float32)
    other = a.with_layout(mo.make_layout((2, 2))) if how == "view" else a if how == "name" else None
    for _ in range(n):
        if how == "lost":
            a = b
        else:
            a, b = b, a
    x[0] = a[0] if other is None else other[1]


@pytest.mark.parametrize(("how", "told"), [
    ("view", "another variable, made before the loop, is a view of a"),
    ("name", "another variable, made before the loop, is a view of a"),
    ("lost", "the variable 'a' changes its structure")])
def test_other_names_of_the_registers(how, told):
    with pytest.raises(TraceError, match=told):
        wrong.compile(np.zeros(1, np.float32), 3, how, block=32, arch="sm_80")


def test_arguments_that_change_places_are_refused_with_a_way():
    @mo.kernel
    def ping_pong(a, b, n):
        for _ in range(n):
            b[mo.thread_idx().x] = a[mo.thread_idx().x] + 1
            a, b = b, a

    x = np.zeros(32, np.float32)
    with pytest.raises(TraceError, match="changes its structure") as refused:
        ping_pong.trace(x, x, 3, block=32)
    assert "step(a, b) under if turn % 2 == 0" in refused.value.hint

    @mo.jit
    def step(source, target):
        target[mo.thread_idx().x] = source[mo.thread_idx().x] + 1

    @mo.kernel
    def in_turns(a, b, n):
        for turn in range(n):
            if turn % 2 == 0:
                step(a, b)
            else:
                step(b, a)

    a, b = np.zeros(32, np.float32), np.zeros(32, np.float32)
    assert mo.check(in_turns)[1, 32](a, b, 3).ok
    assert (b == 3).all()
    assert (a == 2).all()
