"""mbarriers, clusters, register budgets: what each function records, what the passes leave, what the verifier says."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import IRError
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, Literal, Ref, Value
from moye.ir.text import to_text
from moye.ir.verify import verify
from moye.layout import make_layout
from moye.sim.flow.uniformity import BLOCK, THREAD, analyse

X = mo.TensorLike(mo.int32, (64,))


SEEN = []


def note(*values):
    """What a kernel holds while it is traced."""
    SEEN.append(values)


def lines(func):
    """The ops of the body as text, without values that are merely computed."""
    return [line.strip() for line in to_text(func).splitlines() if any(
        word in line for word in ("Mbarrier", "Proxy", "Bulk", "Cluster", "Elect", "SetMax", "Grid"))]


@mo.kernel
def everything(x, stage, phase):
    bars = mo.mbarrier_array(4)
    mo.mbarrier_init(bars, 0, 1)
    mo.fence_mbarrier_init()
    mo.cluster_arrive(relaxed=True)
    mo.cluster_wait()
    mo.mbarrier_arrive(bars, 1)
    mo.mbarrier_arrive(bars, 2, cta=1)
    mo.mbarrier_arrive_expect_tx(bars, 3, 512)
    mo.mbarrier_arrive_expect_tx(bars, stage, 16, cta=mo.cluster_rank())
    mo.mbarrier_expect_tx(bars, 0, 32)
    mo.cp_async_mbarrier_arrive(bars, 1)
    mo.mbarrier_try_wait(bars, 1, phase)
    mo.mbarrier_wait(bars, stage, phase)
    mo.mbarrier_wait(bars, 1, stage == 3)
    mo.fence_proxy_async()
    mo.tma_store_arrive()
    mo.tma_store_wait(2)
    mo.tma_store_wait(0, read=False)
    mo.elect()
    mo.warpgroup_reg_alloc(232)
    mo.cluster_sync()
    mo.warpgroup_reg_dealloc(40)
    mo.griddepcontrol_launch_dependents()
    mo.griddepcontrol_wait()


def test_each_function_is_one_op():
    """In program order after every pass, the election whose result nobody reads among them."""
    func = everything.trace(X, 1, 0, block=128, cluster=2)
    assert to_text(func).startswith("kernel everything, block (128, 1, 1), cluster (2, 1, 1), index int32\n")
    assert lines(func) == [
        "MbarrierInit ref=bars[0] count=1",
        "ProxyFence kind=mbarrier_init",
        "ClusterArrive relaxed=True",
        "ClusterWait",
        "MbarrierArrive ref=bars[1] arrives=True copies=False",
        "MbarrierArrive ref=bars[2] rank=1 arrives=True copies=False",
        "MbarrierArrive ref=bars[3] bytes=512 arrives=True copies=False",
        "MbarrierArrive ref=bars[%1.stage] bytes=16 rank=%3.cluster_rank arrives=True copies=False",
        "MbarrierArrive ref=bars[0] bytes=32 arrives=False copies=False",
        "MbarrierArrive ref=bars[1] arrives=True copies=True",
        "%4: bool = MbarrierTest ref=bars[1] parity=%2.phase",
        "MbarrierWait ref=bars[%1.stage] parity=%2.phase",
        "MbarrierWait ref=bars[1] parity=%6",
        "ProxyFence kind=async",
        "BulkCommit",
        "BulkWait pending=2 read=True",
        "BulkWait pending=0 read=False",
        "%7: bool = Elect",
        "SetMaxRegisters kind=inc count=232",
        "ClusterArrive relaxed=False",
        "ClusterWait",
        "SetMaxRegisters kind=dec count=40",
        "GridDependency kind=launch_dependents",
        "GridDependency kind=wait",
    ]


def test_an_array_of_mbarriers():
    @mo.kernel
    def two_dimensional(x):
        odd = mo.shared_array(mo.int8, 3, align=1)
        odd[0] = 1
        bars = mo.mbarrier_array((2, 3))
        mo.mbarrier_init(bars, (1, 2), 1)

    func = two_dimensional.trace(X, block=32)
    _, bars = func.shared_buffers
    assert (bars.name, bars.dtype, bars.align, str(bars.layout)) == ("bars", mo.uint64, 8, "(2,3):(1,2)")
    assert lines(func) == ["MbarrierInit ref=bars[5] count=1"]


@pytest.mark.parametrize("index", ["a", [0], mo.float32, mo.make_layout(4), 1.5, "a traced float"])
@pytest.mark.parametrize("verb", ["init", "arrive", "arrive_expect_tx", "expect_tx", "wait"])
def test_the_index_of_an_mbarrier(verb, index):
    """The same sentence as for elements of tensors, with the line."""
    @mo.kernel
    def picks(x):
        bars = mo.mbarrier_array(4)
        i = mo.where(mo.thread_idx().x > 0, 1.0, 0.0) if index == "a traced float" else index
        getattr(mo, f"mbarrier_{verb}")(bars, i, *([] if verb == "arrive" else [1]))

    with pytest.raises(mo.TensorError, match=r"is no coordinate|not an integer") as caught:
        picks.trace(X, block=32)
    assert [str(loc).rpartition(":")[0] for loc in caught.value.locs]


# --- clusters --------------------------------------------------------------------------------------------------------


@mo.kernel
def places(out):
    rank, inside, cluster = mo.cluster_rank(), mo.block_in_cluster_idx(), mo.cluster_idx()
    block, grid = mo.block_idx(), mo.grid_dim()
    linear = block.x + grid.x * (block.y + grid.y * block.z)
    values = (rank, *inside, *cluster, *mo.cluster_dim())
    if mo.thread_idx().x == 0:
        for i in mo.static_range(10):
            out[i, linear] = values[i]


@pytest.mark.parametrize("cluster", [(2, 2, 2), (4, 1, 1), (1, 1, 3), (1, 1, 1)])
def test_places_in_a_cluster(cluster):
    grid = tuple(2 * extent for extent in cluster)
    out = np.zeros((10, int(np.prod(grid))), np.int32, order="F")
    places.launch(out, grid=grid, block=32, cluster=cluster)
    blocks = [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
    for column, block in zip(out.T.tolist(), blocks, strict=True):
        inside = [b % c for b, c in zip(block, cluster, strict=True)]
        assert column[0] == inside[0] + cluster[0] * (inside[1] + cluster[1] * inside[2])
        assert column[1:4] == inside
        assert column[4:7] == [b // c for b, c in zip(block, cluster, strict=True)]
        assert tuple(column[7:]) == cluster


def test_without_a_cluster_everything_is_static():
    @mo.kernel
    def alone(x):
        note(mo.cluster_rank(), tuple(mo.block_in_cluster_idx()), tuple(mo.cluster_dim()))
        bars = mo.mbarrier_array(1)
        mo.mbarrier_arrive(bars, 0, cta=mo.cluster_rank())

    assert lines(alone.trace(X, block=32)) == ["MbarrierArrive ref=bars[0] arrives=True copies=False"]
    assert SEEN.pop() == (0, (0, 0, 0), (1, 1, 1))


def test_facts_of_ranks():
    """Bounds are known: no division is left."""
    @mo.kernel
    def folded(x):
        rank = mo.cluster_rank()
        x[rank % 6 + rank // 6 + mo.block_in_cluster_idx().y % 3] = 0

    kinds = [op.kind for op in folded.trace(X, block=32, cluster=(2, 3, 1)).body.walk() if isinstance(op, ops.Binary)]
    assert kinds == ["add"]


def test_warp_groups():
    @mo.kernel
    def grouped(x):
        note(mo.warpgroup_idx())

    def groups(block):
        grouped.trace(X, block=block)
        index, = SEEN.pop()
        return index if mo.is_static(index) else (index.lower, index.upper)

    assert groups(128) == 0
    assert groups(384) == (0, 2)
    assert groups((64, 4, 1)) == (0, 1)


def test_what_varies_with_what():
    func = everything.trace(X, 1, 0, block=128, cluster=2)
    levels = analyse(func)
    found = {type(op).__name__: levels.of(op.result) for op in func.body.walk() if hasattr(op, "result")}
    assert (found["Elect"], found["Special"]) == (THREAD, BLOCK)


# --- the verifier ----------------------------------------------------------------------------------------------------


def i32(n):
    return Literal(n, dt.int32)


def shared(dtype=dt.uint64, space=Space.SHARED):
    buffer = Buffer("bars", space, dtype, 4, make_layout(4), align=8)
    return Ref(buffer, i32(0), dtype)


GOOD, REAL = shared(), Literal(1.0, dt.float32)
BROKEN = {
    "its barrier is int64 in smem, not uint64 in shared memory": ops.MbarrierInit(ref=shared(dt.int64), count=i32(1)),
    "its barrier is uint64 in gmem, not uint64 in shared memory":
        ops.MbarrierWait(ref=shared(space=Space.GLOBAL), parity=i32(0)),
    "its count is float32, not a 32-bit integer": ops.MbarrierInit(ref=GOOD, count=REAL),
    "its bytes is float32, not a 32-bit integer": ops.MbarrierArrive(ref=GOOD, bytes=REAL),
    "its rank is float32, not a 32-bit integer": ops.MbarrierArrive(ref=GOOD, rank=REAL),
    "its parity is float32, not a 32-bit integer": ops.MbarrierWait(ref=GOOD, parity=REAL),
    "without an arrival it expects bytes at a barrier of its own block":
        ops.MbarrierArrive(ref=GOOD, bytes=i32(1), rank=i32(1), arrives=False),
    "unknown kind 'sync'": ops.ProxyFence(kind="sync"),
    "waits for all but -1 groups": ops.BulkWait(pending=-1),
    "gives int32, not bool": ops.Elect(result=Value(dt.int32)),
    "20 registers: no multiple of 8 from 24 to 256": ops.SetMaxRegisters(kind="dec", count=20),
    "unknown kind 'set'": ops.SetMaxRegisters(kind="set", count=24),
    "unknown kind 'launch'": ops.GridDependency(kind="launch"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_ops(rule):
    op = BROKEN[rule]
    allocations = [ops.Alloc(buffer=ref.buffer) for ref, _ in op.refs()]
    with pytest.raises(IRError) as caught:
        verify(Func("broken", [], Block([*allocations, op]), (128, 1, 1)))
    assert caught.value.message == f"broken: {type(op).__name__}: {rule}"
