"""Bulk copies without tensor maps: what is refused and why, what the verifier knows, what kernels look like."""

from __future__ import annotations

import dataclasses
import os
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import moye as mo
from bulk_kernels import BLOCK, add_kernel, copy_kernel, multicast_kernel, prefetch_kernel, send_kernel, stages_kernel
from moye.cuda.compiler import nvrtc
from moye.dtypes import Space
from moye.errors import MoyeError
from moye.ir import ops
from moye.ir.nodes import Buffer, Literal, Ref
from moye.ir.rules import RULES
from ops_kernels_bulk import ADDED

GOLDEN = Path(__file__).parents[1] / "golden"
X = mo.TensorLike(mo.float32, (4096,))
MATRIX = mo.TensorLike(mo.float32, (64, 64), (64, 1))
SWIZZLED = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (16, 32))

# --- refusals --------------------------------------------------------------------------------------------------------


def traced(body, x=X, n=3, cluster=1):
    """A kernel of shared memory, mbarriers and what ``body`` makes of them and of an array."""
    def kernel(x, n):
        body(x, mo.shared_array(x.dtype, 1024), mo.mbarrier_array(2), n)
    return lambda: mo.kernel(kernel).trace(x, n, block=32, cluster=cluster)


def load(make, barrier=True, copy=None, **options):
    """A load of what ``make`` makes of (x, smem, n): (dst, src)."""
    return lambda x, smem, bars, n: mo.copyto(copy or mo.BulkCopy(), *make(x, smem, n), **options,
                                              **({"barrier": (bars, 0)} if barrier else {}))


def whole(x, smem, n):
    return smem, mo.tile(x, (1024,), (0,))


def back(x, smem, n):
    return mo.tile(x, (1024,), (0,)), smem


def peer(x, smem, n):
    return mo.map_shared_rank(mo.shared_array(x.dtype, 1024), 1), smem


def swizzled_peer(x, smem, n):
    return mo.map_shared_rank(mo.shared_array(x.dtype, SWIZZLED), 1), mo.shared_array(x.dtype, SWIZZLED)


def swizzled_rows(x, smem, n):
    """Two swizzled parts of each block's memory, with others between them."""
    s = mo.shared_array(x.dtype, mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (16, 64)))
    return mo.tile(mo.map_shared_rank(s, 1), (8, 64), (0, 0)), mo.tile(s, (8, 64), (0, 0))


REFUSED = {
    "one_tensor": traced(lambda x, smem, bars, n: mo.copyto(mo.BulkCopy(), smem, barrier=(bars, 0))),
    "no_tensor": traced(load(lambda x, smem, n: (smem, 3))),
    "global_to_global": traced(load(lambda x, smem, n: (mo.tile(x, (1024,), (0,)), mo.tile(x, (1024,), (1,))))),
    "into_registers": traced(load(lambda x, smem, n: (mo.fragment((1024,), mo.float32), smem))),
    "adding_a_load": traced(load(whole, copy=mo.BulkReduceAdd())),
    "adding_int8": traced(load(back, barrier=False, copy=mo.BulkReduceAdd()), mo.TensorLike(mo.int8, (4096,))),
    "another_dtype": traced(load(lambda x, smem, n: (mo.recast(smem, mo.float16), mo.tile(x, (2048,), (0,))))),
    "another_size": traced(load(lambda x, smem, n: (smem, mo.tile(x, (512,), (0,))))),
    "dynamic_extent": traced(load(lambda x, smem, n: (smem, x))),
    "rows_at_odd_places": traced(load(lambda x, smem, n: (mo.composition(smem, mo.make_layout((16, 32), (64, 1))),
                                                          mo.composition(mo.tile(x, (1024,), (0,)),
                                                                         mo.make_layout((16, 32), (38, 1)))))),
    "too_many_rows": traced(load(lambda x, smem, n: (mo.shared_array(x.dtype, mo.make_layout((257, 4), (8, 1))),
                                                     mo.composition(x.with_layout(mo.make_layout(4096)),
                                                                    mo.make_layout((257, 4), (8, 1)))))),
    "size_of_rows": traced(load(lambda x, smem, n: (mo.composition(smem, mo.make_layout((16, 32), (64, 1))),
                                                    mo.composition(mo.tile(x, (1024,), (0,)),
                                                                   mo.make_layout((16, 32), (64, 1)))), size=4)),
    "swizzled_rows": traced(load(swizzled_rows), cluster=2),
    "another_order": traced(load(lambda x, smem, n: (
        mo.composition(smem, mo.make_layout((16, 64), (64, 1))),
        mo.composition(mo.tile(x, (1024,), (0,)), mo.make_layout((16, 64)))))),
    "swizzled_load": traced(load(lambda x, smem, n: (mo.shared_array(x.dtype, SWIZZLED), mo.composition(
        mo.tile(x, (512,), (0,)), mo.make_layout((16, 32), (32, 1)))))),
    "part_of_a_swizzle": traced(load(swizzled_peer, size=64), cluster=2),
    "twelve_bytes": traced(load(lambda x, smem, n: (mo.tile(smem, (3,), (0,), ragged=True),
                                                mo.tile(x, (3,), (0,), ragged=True)))),
    "odd_pointer": traced(load(whole), mo.TensorLike(mo.float32, (4096,), align=8)),
    "odd_stride": traced(load(lambda x, smem, n: (smem, mo.tile(x, (1024, 1), (0, n))[:, 0])),
                         mo.TensorLike(mo.float32, (1024, 8), (1, 1026))),
    "odd_start": traced(load(lambda x, smem, n: (mo.tile(smem, (512,), (0,)), mo.tile(x, (512,), (0,)).moved(2)))),
    "unknown_start": traced(load(lambda x, smem, n: (mo.tile(smem, (512,), (0,)), mo.tile(x, (512,), (0,)).moved(n)))),
    "odd_stage": traced(load(lambda x, smem, n: (mo.shared_array(x.dtype, (8, 3))[:, 1].moved(2),
                                                 mo.tile(x, (8,), (0,))))),
    "size_beyond": traced(load(whole, size=1028)),
    "size_zero": traced(load(whole, size=0)),
    "size_odd": traced(load(whole, size=6)),
    "size_unknown": traced(lambda x, smem, bars, n: mo.copyto(mo.BulkCopy(), *whole(x, smem, n), barrier=(bars, 0),
                                                              size=n)),
    "size_float": traced(load(whole, size=4.0)),
    "load_without_a_barrier": traced(load(whole, barrier=False)),
    "send_without_a_barrier": traced(load(peer, barrier=False), cluster=2),
    "store_with_a_barrier": traced(load(back)),
    "send_in_a_cluster_of_one": traced(load(lambda x, smem, n: (
        mo.map_shared_rank(mo.shared_array(x.dtype, 1024), 0), smem))),
    "a_barrier_of_floats": traced(lambda x, smem, bars, n: mo.copyto(mo.BulkCopy(), *whole(x, smem, n),
                                                                     barrier=(smem, 0))),
    "multicast_store": traced(load(back, barrier=False, multicast=3), cluster=2),
    "multicast_send": traced(load(peer, multicast=3), cluster=2),
    "multicast_to_nobody": traced(load(whole, multicast=0), cluster=2),
    "multicast_beyond_the_cluster": traced(load(whole, multicast=0b110), cluster=2),
    "multicast_without_a_cluster": traced(load(whole, multicast=0b11)),
    "multicast_of_a_float": traced(load(whole, multicast=1.5), cluster=2),
    "a_hint_of_its_own": traced(load(whole, hint="keep")),
    "a_hint_for_another_block": traced(load(peer, hint="evict_first"), cluster=2),
    "predicated": traced(load(whole, pred=True)),
    "filled_with_zeros": traced(load(whole, zero_fill=True)),
    "size_of_a_plain_copy": traced(lambda x, smem, bars, n: mo.copyto(*whole(x, smem, n), size=4)),
    "prefetch_of_shared": traced(lambda x, smem, bars, n: mo.prefetch(smem)),
    "prefetch_at_coordinates": traced(lambda x, smem, bars, n: mo.prefetch(x, (0,))),
    "prefetch_of_an_odd_run": traced(lambda x, smem, bars, n: mo.prefetch(mo.tile(x, (1024,), (0,)), size=2)),
    "prefetch_of_rows": traced(lambda x, smem, bars, n: mo.prefetch(mo.tile(x, (16, 32), (0, 0))), MATRIX),
}


def _tile_kernel(body):
    copy = mo.make_tma_copy(mo.TmaLoad(), MATRIX, SWIZZLED)
    return lambda: mo.kernel(body).trace(copy, block=32)


def _part(tma):
    mo.prefetch(tma, mo.tile(tma.tensor, (16, 32), (0, 0)), size=4)


def _elsewhere(tma):
    mo.prefetch(tma, mo.tile(tma.tensor, (8, 32), (0, 0)))


def _sized(tma):
    mo.copyto(tma, mo.shared_array(mo.float32, SWIZZLED), mo.tile(tma.tensor, (16, 32), (0, 0)),
              barrier=(mo.mbarrier_array(1), 0), size=4)


REFUSED |= {"prefetch_of_a_part_of_a_tile": _tile_kernel(_part), "prefetch_of_another_tile": _tile_kernel(_elsewhere),
            "size_of_a_tile": _tile_kernel(_sized)}
CODES = {"B5": ("rows_at_odd_places", "too_many_rows", "size_of_rows", "swizzled_rows", "another_order",
                "swizzled_load", "part_of_a_swizzle", "twelve_bytes", "odd_pointer",
                "odd_stride", "odd_start", "unknown_start", "odd_stage", "size_odd", "size_unknown",
                "prefetch_of_an_odd_run"),
         "B2": ("size_beyond", "size_zero"),
         "D20": ("multicast_to_nobody", "multicast_beyond_the_cluster", "multicast_without_a_cluster")}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    """``UPDATE_GOLDEN=1`` writes the messages anew."""
    with pytest.raises(MoyeError) as caught:
        REFUSED[name]()
    golden = GOLDEN / "tensor" / f"bulk_{name}.txt"
    text = f"{type(caught.value).__name__}: {caught.value.message}\n" + \
        (f"hint: {caught.value.hint}\n" if caught.value.hint else "")
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
    codes = {name: code for code, names in CODES.items() for name in names}
    assert caught.value.code == codes.get(name)


def test_what_is_proven():
    """Strides of arguments, stages, blocks, and what is promised."""
    def body(x, smem, bars, n):
        mo.assume(n % 8 == 0)
        tile = mo.tile(x, (64,), (mo.block_idx().x,))
        mo.copyto(mo.BulkCopy(), mo.tile(smem, (64,), (n,)), tile, barrier=(bars, n), size=n)
        mo.copyto(mo.BulkCopy(), mo.tile(smem, (64,), (0,)), tile.moved(n), barrier=(bars, 0))

    first, second = (op for op in traced(body)().body.walk() if isinstance(op, ops.BulkCopy))
    assert (first.run, second.run, second.bytes) == (256, 256, Literal(256, mo.int32))
    assert first.bytes.divisor % 32 == 0


def test_shared_memory_is_aligned():
    def body(x, smem, bars, n):
        small = mo.shared_array(x.dtype, 64, align=4)
        mo.copyto(mo.BulkCopy(), small, mo.tile(x, (64,), (0,)), barrier=(bars, 0))

    assert [b.align for b in traced(body)().shared_buffers] == [16, 8, 16]


# --- the verifier ----------------------------------------------------------------------------------------------------


@cache
def copies():
    """An op of each kind."""
    kernels = (send_kernel.trace(*(mo.TensorLike(mo.float32, (512, 4)),) * 2, mo.make_layout(512), 1, block=BLOCK,
                                 cluster=2),
               copy_kernel.trace(X, X, 1024, block=BLOCK), add_kernel.trace(X, X, 1024, None, block=BLOCK),
               stages_kernel.trace(X, mo.TensorLike(mo.float32, (4096, 4)), 1024, 2, block=BLOCK + 32))
    return {op.kind: op for func in kernels for op in func.body.walk() if isinstance(op, ops.BulkCopy)}


REGISTERS = Ref(Buffer("r", Space.REGISTER, mo.float32, 4, mo.make_layout(4), align=16),
                Literal(0, mo.int32), mo.float32)
BROKEN = [
    ("load", {"kind": "store"}, "a store from gmem to smem"), ("load", {"dst": None}, "a load from gmem to nowhere"),
    ("store", {"dst": REGISTERS}, "a store from smem to rmem"), ("load", {"barrier": None}, "have a barrier"),
    ("load", {"multicast": Literal(3, mo.int32)}, "its mask is int32"),
    ("send", {"multicast": Literal(3, mo.uint16)}, "loads alone are multicast"),
    ("send", {"hint": "evict_first"}, "sends have no hint"), ("store", {"bytes": Literal(24, mo.int32)}, "copies 24"),
    ("store", {"bytes": Literal(1 << 20, mo.int32)}, "of a run of 4096"), ("load", {"run": 24}, "of a run of 24"),
    ("store", {"bytes": Literal(16, mo.int64)}, "its bytes is int64"),
]


@pytest.mark.parametrize(("kind", "changes", "told"), BROKEN)
def test_the_verifier_knows_what_a_copy_needs(kind, changes, told):
    op = copies()[kind]
    assert RULES[ops.BulkCopy](op) is None
    assert told in RULES[ops.BulkCopy](dataclasses.replace(op, **changes))


def test_the_verifier_knows_more():
    """Swizzled ends, sums of a type that has none, a barrier in the wrong block, tiles that are prefetched."""
    load, send, adds = (copies()[kind] for kind in ("load", "send", "reduce"))
    swizzled = dataclasses.replace(load.src, swizzle=mo.Swizzle(2, 2, 3))
    assert "swizzled" in RULES[ops.BulkCopy](dataclasses.replace(load, src=swizzled))
    narrow = dataclasses.replace(adds.src, dtype=mo.int8)
    assert "combines int8 by add" in RULES[ops.BulkCopy](dataclasses.replace(adds, src=narrow))
    assert "not uint64 in shared memory of the cluster" in RULES[ops.BulkCopy](
        dataclasses.replace(send, barrier=load.barrier))
    func = prefetch()[0]
    box = next(op for op in func.body.walk() if isinstance(op, ops.TmaCopy) and op.kind == "prefetch_box")
    assert RULES[ops.TmaCopy](box) is None
    assert "nowhere else" in RULES[ops.TmaCopy](dataclasses.replace(box, smem=load.dst))


# --- kernels ---------------------------------------------------------------------------------------------------------


def compiled(kernel, *args, cluster=1, arch="sm_90a", block=BLOCK):
    return kernel.compile(*args, block=block, cluster=cluster, arch=arch)


def prefetch():
    """(recording, program) of prefetches of a tile of two boxes, in two parts, and of runs."""
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 64))
    tma = mo.make_tma_copy(mo.TmaLoad(), mo.TensorLike(mo.float32, (96, 64), (64, 1)), layout)
    args = (mo.TensorLike(mo.float32, (2048, 3)), tma, mo.TensorLike(mo.float32, (6144,)), 2048, "evict_last")
    return prefetch_kernel.trace(*args, block=BLOCK), compiled(prefetch_kernel, *args)


def instructions(program):
    return re.findall(r"\b((?:UBLK|UTMAPF|UTMALDG)[\w.]*)", program.sass)


def test_golden_copy():
    """In and out, with a size that is known when the kernel runs; ``UPDATE_GOLDEN=1`` writes it anew."""
    program = compiled(copy_kernel, X, X, 1024)
    _golden("bulk_copy", program)
    assert instructions(program) == ["UBLKCP.S.G", "UBLKCP.G.S"]
    assert program.spills == 0


def test_golden_send():
    """Destination and barrier are addresses in another block."""
    x = mo.TensorLike(mo.float32, (512, 4))
    program = compiled(send_kernel, x, x, SWIZZLED, 3, cluster=4)
    _golden("bulk_send", program)
    assert instructions(program) == ["UBLKCP.S.S"]


def _golden(name, program):
    path = GOLDEN / f"{name}.cu"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(program.source)
    assert program.source == path.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ADDED, ids=str)
def test_reductions_compile(dtype):
    x = mo.TensorLike(dtype, (4096,))
    found = instructions(compiled(add_kernel, x, x, 1024, "evict_first"))
    kinds = {"float16": "F16.RN", "bfloat16": "BF16.RN", "float32": "F32.RN", "float64": "F64.RN", "int32": "S32",
             "uint32": "", "int64": "U64", "uint64": "U64"}
    assert found == [f"UBLKRED.G.S.ADD.{kinds[dtype.name]}".rstrip(".")]


@pytest.mark.slow
@pytest.mark.parametrize("hint", [None, "evict_last"])
def test_multicast_compiles(hint):
    x, out = mo.TensorLike(mo.float16, (4096,)), mo.TensorLike(mo.float16, (1024, 4))
    program = compiled(multicast_kernel, out, x, 1024, hint, cluster=2)
    assert instructions(program) == ["UBLKCP.S.G.MULTICAST"]
    assert ("multicast::cluster.L2::cache_hint" in program.source) == (hint is not None)


def test_prefetches_compile():
    _, program = prefetch()
    found = instructions(program)
    assert found.count("UTMAPF.L2.2D") == 2 and found.count("UBLKPF.L2") == 2
    assert "cp.async.bulk.prefetch.tensor.2d.L2.global.tile.L2::cache_hint" in program.source


def test_a_prefetch_has_the_parts_of_all_blocks():
    """Of a copy that is made for several blocks."""
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64))
    tma = mo.make_tma_copy(mo.TmaLoad(), mo.TensorLike(mo.float16, (64, 64), (64, 1)), layout, multicast=4)

    def kernel(tma):
        mo.prefetch(tma, mo.tile(tma.tensor, tma.tile, (0, 0)))

    func = mo.kernel(kernel).trace(tma, block=32)
    rows = [op.coordinates[1].value for op in func.body.walk() if isinstance(op, ops.TmaCopy)]
    assert rows == [0, 16, 32, 48]


def test_each_form_is_one_function():
    """Whatever else differs: dtype, sizes, tensors."""
    def kernel(a, b):
        for x in mo.static_range(2):
            array = (a, b)[x]
            smem, bars = mo.shared_array(array.dtype, 1024), mo.mbarrier_array(1)
            mo.copyto(mo.BulkCopy(), smem, mo.tile(array, (1024,), (0,)), barrier=(bars, 0))
            mo.copyto(mo.BulkCopy(), mo.tile(array, (1024,), (0,)), smem)
            mo.copyto(mo.BulkReduceAdd(), mo.tile(array, (1024,), (0,)), smem)

    source = compiled(mo.kernel(kernel), X, mo.TensorLike(mo.float16, (4096,))).source
    assert re.findall(r"__forceinline__ void (bulk_\w+)\(", source) == [
        "bulk_load", "bulk_store", "bulk_reduce_add_float32", "bulk_reduce_add_float16"]


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_older_architectures_are_refused(arch, monkeypatch):
    """Before anything is compiled, by name."""
    monkeypatch.setattr(nvrtc, "compile_cubin", None)
    for kernel, args in ((add_kernel, (X, X, 1024, None)), (copy_kernel, (X, X, 1024))):
        with pytest.raises(mo.UnsupportedError, match=f"need sm_90a? or later, but is compiled for {arch}"):
            compiled(kernel, *args, arch=arch)


def test_it_runs_where_there_is_no_letter():
    assert compiled(copy_kernel, X, X, 1024, arch="sm_90").cubin[:4] == b"\x7fELF"


@pytest.mark.slow
def test_a_written_argument_is_known():
    """What a bulk store writes is no constant, and what a bulk load reads is no output."""
    func = copy_kernel.trace(X, X, 1024, block=BLOCK)
    assert [p.buffer.written for p in func.params] == [True, False]
    out, x = np.zeros(1024, np.float32), np.ones(1024, np.float32)
    copy_kernel[1, BLOCK](out, x, 1024)
    assert out.all()
