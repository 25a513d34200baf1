"""st.async and red.async: against NumPy, their instructions, and what the checker finds where they are misused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import async_store_kernels as cases
import moye as mo
from moye.errors import IRError
from moye.ir import ops
from moye.ir.verify import verify


def check(kernel, args, blocks, cluster, **options):
    return mo.check(kernel, **options).launch(*args, grid=blocks, block=cases.BLOCK, cluster=cluster)


@pytest.mark.parametrize("earliest", [False, True])
@pytest.mark.parametrize(("dtype", "count"), cases.RINGS)
def test_rings(dtype, count, earliest):
    """Whatever the moment of arrival: the same numbers, and nothing to find."""
    args = cases.ring_arguments(dtype, count, 3)
    report = check(cases.ring_kernel, args, 2 * cases.CLUSTER, cases.CLUSTER, earliest=earliest)
    assert report.ok and not report.not_judged and not report.unsupported, report
    assert np.array_equal(args[0], cases.ring_expected(args))


@pytest.mark.parametrize(("kind", "dtype"), cases.SUMS)
def test_sums(kind, dtype):
    args = cases.sums_arguments(kind, dtype)
    for earliest in (False, True):
        report = check(cases.sums_kernel, args, 2 * cases.CLUSTER, cases.CLUSTER, earliest=earliest)
        assert report.ok and not report.not_judged and not report.unsupported, report
        assert np.array_equal(args[0], cases.sums_expected(args))


@pytest.mark.parametrize(("dtype", "count", "wide"), [
    ("float32", 1, ["f32"]), ("float32", 2, ["v2.f32"]), ("float32", 8, ["v4.f32"] * 2), ("int32", 3, ["b32"] * 3),
    ("uint64", 2, ["v2.b64"]), ("float64", 1, ["f64"])])
def test_instructions(dtype, count, wide):
    """As wide as layouts and alignment prove; the wait acquires from the cluster."""
    program = cases.ring_kernel.compile(*cases.ring_arguments(dtype, count, 1), block=cases.BLOCK,
                                        cluster=cases.CLUSTER, arch="sm_90a")
    found = re.findall(r"st\.async\.weak\.shared::cluster\.mbarrier::complete_tx::bytes\.([\w.]+) ", program.ptx)
    assert found == wide
    assert program.sass.count("STAS") == len(wide)
    assert "try_wait.parity.acquire.cluster" in program.ptx


@pytest.mark.parametrize(("kind", "dtype"), cases.SUMS)
def test_instructions_that_combine(kind, dtype):
    program = cases.sums_kernel.compile(*cases.sums_arguments(kind, dtype), block=cases.BLOCK, cluster=cases.CLUSTER,
                                        arch="sm_90a")
    name = np.dtype(dtype).name.replace("uint", "u").replace("int", "s")
    name = {"and": "b32", "or": "b32", "xor": "b32"}.get(kind, "u64" if name == "s64" else name)
    assert f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{kind}.{name} " in program.ptx


def test_older_architectures_are_refused():
    with pytest.raises(mo.UnsupportedError, match="sm_90"):
        cases.ring_kernel.compile(*cases.ring_arguments("float32", 1, 1), block=cases.BLOCK, cluster=cases.CLUSTER,
                                  arch="sm_80")


CODES = {"unwaited": {"D6"}, "few": {"D7"}, "many": {"D7"}, "early": {"D10"}, "unordered": {"D10", "D13"},
         "same": {"C1", "B6"}, "beyond": {"B2"}, "combined": {"B6"}, "written": {"B9"}, "ends": {"D18"},
         "again": {"D13"}}


@pytest.mark.parametrize("fault", [None, *cases.FAULTS])
def test_faults(fault):
    """Each fault is found as what it is, and without one there is nothing to find."""
    args = cases.faulty_arguments(fault)
    report = check(cases.faulty_kernel, args, 2, 2)
    assert {finding.code for finding in report.findings} == CODES.get(fault, set()), report
    if fault is None:
        assert np.array_equal(args[0], np.repeat(args[1][:, None], 2, axis=1))


def phases(synchronised):
    """Two phases of sums into one cell; the second is read over by the first where nothing orders them."""
    @mo.kernel
    def kernel(out):
        cell, full, tid = mo.shared_array(mo.int32, 1), mo.mbarrier_array(1), mo.thread_idx().x
        if tid == 0:
            cell[0] = 0
            mo.mbarrier_init(full, 0, 1)
            mo.fence_mbarrier_init()
        mo.cluster_sync()
        for phase in mo.static_range(2):
            if tid == 0:
                mo.mbarrier_arrive_expect_tx(full, 0, 2 * 32 * 4)
            for rank in mo.static_range(2):
                mo.red_async(mo.map_shared_rank(cell, rank), tid, barrier=(full, 0))
            mo.mbarrier_wait(full, 0, phase)
            if tid == 0:
                out[mo.block_idx().x, phase] = cell[0]
            if synchronised:
                mo.cluster_sync()
        mo.cluster_sync()

    return kernel


def test_sums_of_several_phases():
    """Sums of one phase meet, and those of the next wait until all have read."""
    out = np.zeros((2, 2), np.int32)
    assert mo.check(phases(True)).launch(out, grid=2, block=32, cluster=2).ok
    assert (out == [2 * 496, 4 * 496]).all()
    assert {x.code for x in mo.check(phases(False)).launch(out, grid=2, block=32, cluster=2).findings} & {"D13", "F1"}


@pytest.mark.parametrize(("first", "plain"), [("red", False), ("atomic", False), ("red", True)])
def test_atomics_beside(first, plain):
    """Atomics of the block itself and of others do not race with red.async, and plain stores do."""
    @mo.kernel
    def kernel(out, x):
        tid = mo.thread_idx().x
        cells, full = mo.shared_array(mo.int32, 32), mo.mbarrier_array(1)
        cells[tid] = 0
        if tid == 0:
            mo.mbarrier_init(full, 0, 1)
            mo.fence_mbarrier_init()
            mo.mbarrier_arrive_expect_tx(full, 0, 2 * 32 * 4)
        mo.cluster_sync()
        for rank in mo.static_range(2):
            there = mo.map_shared_rank(cells, rank)
            if first == "atomic":
                mo.atomic_add(there, tid, 1)
            mo.red_async(mo.tile(there, (1,), (tid,)), x[tid], barrier=(full, 0))
            if plain:
                there[tid] = 1
            elif first == "red":
                mo.atomic_add(there, tid, 1)
        mo.atomic_add(cells, tid, 1)
        mo.mbarrier_wait(full, 0, 0)
        mo.cluster_sync()
        out[tid, mo.block_idx().x] = cells[tid]
        mo.cluster_sync()

    out, x = np.zeros((32, 2), np.int32), np.arange(32, dtype=np.int32)
    report = mo.check(kernel).launch(out, x, grid=2, block=32, cluster=2)
    assert report.ok is not plain, report
    assert plain or (out == (2 * x + 3)[:, None]).all()


@pytest.mark.parametrize("earliest", [False, True])
def test_a_pipeline_through_the_cluster(earliest):
    args = cases.handed_on_arguments(7)
    report = mo.check(cases.handed_on, earliest=earliest).launch(*args, grid=8, block=32, cluster=cases.CLUSTER)
    assert report.ok and not report.not_judged, report
    assert np.allclose(args[0], cases.handed_on_expected(args))


@pytest.mark.parametrize(("call", "message"), [
    (lambda s, there, r, bars: mo.st_async(s, r, barrier=(bars, 0)), "is not in the shared memory of a block of the"),
    (lambda s, there, r, bars: mo.st_async(there, r, barrier=(s, 0)), "are a shared tensor of uint64"),
    (lambda s, there, r, bars: mo.st_async(there, s, barrier=(bars, 0)), "is no register tensor of float32"),
    (lambda s, there, r, bars: mo.st_async(there, 1.0, barrier=(bars, 0)), "or a scalar if it has one element"),
    (lambda s, there, r, bars: mo.st_async(mo.recast(there, mo.float16), r, barrier=(bars, 0)),
     "holds float16, and it takes int32, uint32, float32, int64, uint64, float64"),
    (lambda s, there, r, bars: mo.red_async(there, r, barrier=(bars, 0)), "holds float32, and add takes int32, uint32"),
    (lambda s, there, r, bars: mo.red_async(there, r, "mul", barrier=(bars, 0)), "kind is add, min, max, inc, dec"),
])
def test_refused(call, message):
    @mo.kernel
    def kernel(x):
        s, bars = mo.shared_array(mo.float32, 4), mo.mbarrier_array(1)
        r = mo.fragment((4,), mo.float32)
        r.fill(x[0])
        call(s, mo.map_shared_rank(s, 1), r, bars)

    with pytest.raises(mo.MoyeError, match=re.escape(message)):
        kernel.trace(np.zeros(4, np.float32), block=32, cluster=2)


def test_the_mbarrier_lies_where_the_data_goes():
    """A store whose mbarrier is in another block than its memory is refused by the verifier."""
    @mo.kernel
    def kernel(x):
        s, bars = mo.shared_array(mo.float32, 4), mo.mbarrier_array(1)
        for rank in mo.static_range(2):
            mo.st_async(mo.tile(mo.map_shared_rank(s, rank), (1,), (0,)), x[0], barrier=(bars, 0))

    func = kernel.trace(np.zeros(4, np.float32), block=32, cluster=2)
    first, second = (op for op in func.body.walk() if isinstance(op, ops.AsyncStore))
    verify(func)
    second.barrier = first.barrier
    with pytest.raises(IRError, match="are not in one block of the cluster"):
        verify(func)


@mo.kernel
def sent_on(out: mo.Static, x, kind: mo.Constexpr, fence: mo.Constexpr):
    """A block's inbox, filled by its neighbour's threads, leaves by a bulk copy."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    inbox, full, held = mo.shared_array(mo.int32, (4, 32)), mo.mbarrier_array(1), mo.fragment((4,), mo.int32)
    mo.copyto(held, mo.tile(x, (4,), (tid,)))
    for i in mo.static_range(4):
        inbox[i, tid] = 0
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, 512)
    if fence == "before":
        mo.fence_proxy_async()
    mo.cluster_sync()
    there = mo.map_shared_rank(inbox, rank ^ 1)[:, tid]
    if kind == "st":
        mo.st_async(there, held, barrier=(full, 0))
    else:
        for i in mo.static_range(4):
            mo.red_async(mo.tile(there, (1,), (i,)), mo.tile(held, (1,), (i,)), "add", barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    if fence == "all":
        mo.fence_proxy_async()
        mo.sync_threads()
    if tid == 0:
        if fence == "one":
            mo.fence_proxy_async()
        mo.copyto(mo.BulkCopy(), mo.tile(out, (128,), (rank,)), inbox.with_layout(mo.make_layout(128)))
        mo.tma_store_arrive()
        mo.tma_store_wait(0)
    mo.cluster_sync()


@pytest.mark.parametrize("fence", ["", "before", "one", "all"])
@pytest.mark.parametrize("kind", ["st", "red"])
def test_the_asynchronous_proxy_sees_them_behind_a_fence(kind, fence):
    """They are writes by threads: who has heard that they are complete fences before a copy reads them."""
    out, x = np.zeros(256, np.int32), np.arange(128, dtype=np.int32)
    report = mo.check(sent_on).launch(out, x, kind, fence, grid=2, block=32, cluster=2)
    assert {found.code for found in report.findings} == (set() if fence in ("one", "all") else {"D12"})
    assert np.array_equal(out, np.tile(x, 2))


@mo.kernel
def multiplied(D: mo.Static, A: mo.Static, mma, layouts: mo.Constexpr, fence: mo.Constexpr):
    """The sums of the rows of A, which a neighbour's threads sent, by wgmma."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    inbox, ones = mo.shared_array(mo.float32, layouts[0], align=1024), mo.shared_array(mo.tfloat32, layouts[1],
                                                                                       align=1024)
    full, held, place = mo.mbarrier_array(1), mo.fragment((4,), mo.float32), (tid // 2, tid % 2)
    mo.copyto(held, mo.tile(A, (1, 4), place)[0, None])
    if tid < 64:
        ones[tid // 8, tid % 8] = mo.tfloat32(1.0)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, 64 * 8 * 4)
    mo.fence_proxy_async()
    mo.cluster_sync()
    mo.st_async(mo.tile(mo.map_shared_rank(inbox, rank ^ 1), (1, 4), place)[0, None], held, barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    if fence:
        mo.fence_proxy_async()
    mo.sync_threads()
    thr, acc = mma.get_slice(tid), mma.partition_fragment_C((64, 8))
    mo.warpgroup_arrive()
    mo.gemm(mma, thr.partition_fragment_A(mo.recast(inbox, mo.tfloat32)), thr.partition_fragment_B(ones), acc,
            accumulate=False)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(D[:, :, rank]), acc)
    mo.cluster_sync()


@pytest.mark.parametrize("fence", [False, True])
def test_wgmma_sees_them_behind_a_fence(fence):
    mma, atom = mo.make_tiled_mma(mo.mma.wgmma(mo.tfloat32, mo.tfloat32, mo.float32, 8)), \
        mo.smem_layout_atom(mo.tfloat32, "k", 32)
    layouts = tuple(mo.tile_to_shape(atom, (rows, 8)) for rows in (64, 8))
    A, D = np.random.default_rng(0).integers(-8, 8, (64, 8)).astype(np.float32), np.zeros((64, 8, 2), np.float32)
    report = mo.check(multiplied).launch(D, A, mma, layouts, fence, grid=2, block=128, cluster=2)
    assert {found.code for found in report.findings} == (set() if fence else {"D12"})
    assert np.array_equal(D, np.broadcast_to(A.sum(1)[:, None, None], D.shape))
