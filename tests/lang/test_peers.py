"""Shared memory of other blocks of the cluster: what is recorded, what the verifier says, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from matrix_kernels import one_warp
from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import IRError
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, Literal, Ref, Value
from moye.ir.text import to_text
from moye.ir.verify import verify
from moye.layout import make_layout
from moye.sim.flow.uniformity import BLOCK, FULL, analyse

X = mo.TensorLike(mo.float32, (4, 256))
SEEN = []


def note(*values):
    """What a kernel holds while it is traced."""
    SEEN.append(values)


def maps(func):
    return [op for op in func.body.walk() if isinstance(op, ops.MapShared)]


# --- what is recorded ------------------------------------------------------------------------------------------------


@mo.kernel
def exchanges(x, n):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, mo.ComposedLayout(mo.Swizzle(2, 0, 3), 0, mo.make_layout((8, 16))))
    s[tid % 8, tid // 8] = x[0, tid]
    mo.cluster_sync()
    for p in mo.static_range(2):
        x[1, tid] = mo.map_shared_rank(s, p)[tid // 16, tid % 16]
        x[2, tid] = mo.map_shared_rank(s[:, 3], p)[tid % 8]
    peer = mo.map_shared_rank(s, rank ^ 1)
    x[3, tid] = peer[tid % 8, n]
    mo.cluster_sync()


def test_one_address_for_each_tensor_and_rank():
    """Views of one tensor share it, and so do calls with one rank."""
    func = exchanges.trace(X, 3, block=128, cluster=2)
    assert [op.rank.value if isinstance(op.rank, Literal) else "dynamic" for op in maps(func)] == [0, 1, "dynamic"]
    assert {op.buffer for op in maps(func)} == set(func.shared_buffers)
    loads = [op for op in func.body.walk() if isinstance(op, ops.Load) and op.ref.buffer.space is Space.CLUSTER]
    assert [op.ref.buffer.base for op in loads] == [maps(func)[i].result for i in (0, 0, 1, 1, 2)]
    assert all(op.ref.swizzle == mo.Swizzle(2, 0, 3) and op.ref.buffer.root is func.shared_buffers[0] for op in loads)
    assert f"s@%{len(maps(func))}" not in to_text(func) and "Load ref=s@%" in to_text(func)


def test_the_same_tensor_elsewhere():
    @mo.kernel
    def looks(x):
        s = mo.shared_array(mo.float16, mo.make_layout((8, 16), (1, 12)), align=64)
        there = mo.map_shared_rank(s, 1)
        note(s, there, mo.recast(there, mo.uint32), there[:, 2], mo.tile(there, (4, 4), (1, 2)))

    looks.trace(X, block=32, cluster=4)
    s, peer, words, column, tile = SEEN.pop()
    assert (peer.layout, peer.dtype, peer.swizzle, peer.alignment) == (s.layout, s.dtype, s.swizzle, 64)
    assert (words.dtype, str(words.layout), str(column.layout), column.offset) == \
        (mo.uint32, "(4,16):(1,6)", "(8):(1)", 24)
    assert (str(tile.layout), tile.offset) == ("(4,4):(1,12)", 4 + 8 * 12)
    assert {t.space for t in (peer, words, column, tile)} == {Space.CLUSTER}
    assert repr(peer) == "there: dsmem float16 (8,16):(1,12)"


def test_a_rank_without_users_is_dropped():
    @mo.kernel
    def unused(x):
        mo.map_shared_rank(mo.shared_array(mo.float32, 4), mo.cluster_rank())[0]
        x[0, 0] = 1

    assert not maps(unused.trace(X, block=32, cluster=2))


def test_what_varies_with_what():
    @mo.kernel
    def ranks(x):
        s = mo.shared_array(mo.float32, 4)
        x[0, 0] = mo.map_shared_rank(s, 1)[0]
        x[1, 0] = mo.map_shared_rank(s, mo.thread_idx().x // 32)[0]

    func = ranks.trace(X, block=64, cluster=2)
    levels = analyse(func)
    assert [levels.of(op.result) for op in maps(func)] == [BLOCK, FULL]
    assert [levels.of(op.result) for op in func.body.walk() if isinstance(op, ops.Load)] == [BLOCK, FULL]


def test_a_mapped_tensor_in_a_loop():
    """Its offset is carried, its address stays; another block's is another structure."""
    @mo.kernel
    def walks(x, n):
        s = mo.shared_array(mo.float32, (8, 4))
        there = mo.map_shared_rank(s, 1)
        column = there[:, 0]
        for k in range(n):
            column[0] = k
            column = there[:, k % 4]

    @mo.kernel
    def changes(x, n):
        s = mo.shared_array(mo.float32, 8)
        t = mo.map_shared_rank(s, 0)
        for k in range(n):
            t[0] = k
            t = mo.map_shared_rank(s, k % 2)

    verify(walks.trace(X, 3, block=32, cluster=2))
    with pytest.raises(mo.TraceError, match=r"a view of s in block 0 with .* before this loop, a view of s in block"):
        changes.trace(X, 3, block=32, cluster=2)


def test_what_a_branch_mapped_does_not_leave_it():
    @mo.kernel
    def leaks(x, n):
        kept, s = [], mo.shared_array(mo.float32, 8)
        for k in range(n):
            kept.append(mo.map_shared_rank(s, k))
        kept[0][0] = 1

    with pytest.raises(mo.TraceError, match="the list kept changes its parts in a loop"):
        leaks.trace(X, 3, block=32, cluster=2)


# --- the verifier ----------------------------------------------------------------------------------------------------


def i32(n):
    return Literal(n, dt.int32)


OWN = Buffer("s", Space.SHARED, dt.float32, 8, make_layout(8), align=16)
BASE = Value(dt.uint32)
PEER = Buffer("s", Space.CLUSTER, dt.float32, 8, make_layout(8), align=16, owner=OWN, base=BASE)
MAP = ops.MapShared(result=BASE, buffer=OWN, rank=i32(0))
BASE.op = MAP


def check(*body):
    func = Func("f", [], Block([ops.Alloc(buffer=OWN), *body]), (32, 1, 1), buffers=[OWN], cluster_dim=(2, 1, 1))
    return verify(func)


def load(**options):
    value = Value(dt.float32)
    value.op = ops.Load(result=value, ref=Ref(PEER, i32(0), dt.float32), **options)
    return value.op


def test_a_good_program():
    check(MAP, load(), ops.Store(ref=Ref(PEER, i32(1), dt.float32), value=Literal(1.0, dt.float32)))


@pytest.mark.parametrize(("body", "rule"), [
    (lambda: (load(),), "used but not defined"),
    (lambda: (MAP, load(order="acquire")), "an ordered load from dsmem s"),
    (lambda: (MAP, ops.Store(ref=Ref(PEER, i32(1), dt.float32), value=Literal(1.0, dt.float32), order="release")),
     "an ordered store into dsmem s"),
    (lambda: (MAP, ops.Atomic(result=Value(dt.float32), kind="add", ref=Ref(PEER, i32(0), dt.float32),
                              value=Literal(1.0, dt.float32), order="release")), "an atomic release gpu in dsmem s"),
    (lambda: (ops.MapShared(result=Value(dt.uint32), buffer=PEER, rank=i32(0)),), "maps dsmem s"),
    (lambda: (ops.MapShared(result=Value(dt.int32), buffer=OWN, rank=i32(0)),), "to an address of int32"),
    (lambda: (ops.MapShared(result=Value(dt.uint32), buffer=OWN, rank=Literal(0, dt.int64)),), "its rank is int64"),
], ids=["base", "load", "store", "atomic", "mapped", "address", "rank"])
def test_broken(body, rule):
    with pytest.raises(IRError, match=rule):
        check(*body())


# --- what is refused -------------------------------------------------------------------------------------------------

HALF = mo.smem_layout_atom(mo.float16, "k")
ARRAY = np.zeros((64, 64), np.float16)
LOAD = mo.make_tma_copy(mo.TmaLoad(), ARRAY, HALF)
STORE = mo.make_tma_copy(mo.TmaStore(), ARRAY, HALF)
LDMATRIX, STMATRIX = one_warp(mo.LdMatrix(4), mo.float16), one_warp(mo.StMatrix(4), mo.float16)
WGMMA = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64), mo.make_layout((1, 1)))


def peer(dtype=mo.float16, layout=HALF):
    return mo.map_shared_rank(mo.shared_array(dtype, layout), 1)


@mo.kernel
def tma_load(tma):
    bars = mo.mbarrier_array(1)
    mo.copyto(tma, peer(), mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(bars, 0))


@mo.kernel
def tma_load_at_its_barrier(tma):
    bars = mo.map_shared_rank(mo.mbarrier_array(1), 1)
    mo.copyto(tma, mo.shared_array(mo.float16, HALF), mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(bars, 0))


@mo.kernel
def tma_store(tma):
    mo.copyto(tma, mo.tile(tma.tensor, tma.tile, (0, 0)), peer())


@mo.kernel
def cp_async(x):
    mo.copyto(mo.CpAsync(mo.float32), peer(mo.float32, (4,)), mo.tile(x, (4, 1), (0, 0))[:, 0])


@mo.kernel
def ldmatrix(copy):
    source = copy.get_slice(mo.thread_idx().x).partition_S(peer(layout=(32, 8)))
    mo.copyto(copy, mo.fragment((8, 1, 1), mo.float16), source)


@mo.kernel
def stmatrix(copy):
    target = copy.get_slice(mo.thread_idx().x).partition_D(peer(layout=(32, 8)))
    mo.copyto(copy, target, mo.fragment((8, 1, 1), mo.float16))


@mo.kernel
def wgmma(mma):
    thr = mma.get_slice(mo.thread_idx().x)
    thr.make_fragment_B(thr.partition_B(peer(layout=mo.tile_to_shape(HALF, (64, 64)))))


@mo.kernel
def arithmetic(x):
    peer() + 1


@mo.kernel
def reduction(x):
    mo.block_reduce(x[0, 0], peer(mo.float32, (4,)))


@mo.kernel
def ordered_load(x):
    mo.load(peer(mo.int32, (4,)), 0, order="acquire")


REFUSED = {
    tma_load: ("loads into a tensor in shared memory, not .*dsmem", LOAD),
    tma_load_at_its_barrier: ("are a shared tensor of uint64, not .*dsmem", LOAD),
    tma_store: ("stores from a tensor in shared memory, not .*dsmem", STORE),
    cp_async: ("copies from gmem to smem; .* in dsmem", X),
    ldmatrix: ("copies from smem to registers; .* lives in dsmem", LDMATRIX),
    stmatrix: ("copies from registers to smem; .* in dsmem", STMATRIX),
    wgmma: ("reads B from shared memory, but .* lives in dsmem", WGMMA),
    arithmetic: ("works on register tensors; .* lives in dsmem", X),
    reduction: ("must be a shared tensor", X),
    ordered_load: ("no global tensor, nor one in this block's shared memory", X),
}


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda kernel: kernel.__name__)
def test_refused(kernel):
    match, argument = REFUSED[kernel]
    with pytest.raises(mo.TensorError, match=match):
        kernel.trace(argument, block=32 if kernel in (ldmatrix, stmatrix) else 128, cluster=2)
