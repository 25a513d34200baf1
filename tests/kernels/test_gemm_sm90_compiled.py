"""``gemm_sm90`` compiled for sm_90a, without a GPU: no spills, nothing serialised, the instructions that are meant.

Each configuration for wide products, with dtypes and majors going round; tests/gpu compiles every one for every dtype.
"""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest

import moye as mo
from moye.kernels import gemm_sm90
from moye.kernels.gemm.sm90.config import configs
from moye.runtime.prepare import compile_only
from warpgroup_products import DTYPES, KINDS, tile

PRODUCTS = {"bf16": "HGMMA.64x{}x16.F32.BF16", "f16": "HGMMA.64x{}x16.F32", "tf32": "HGMMA.64x{}x8.F32.TF32",
            "e4m3": "QGMMA.64x{}x32.F32.E4M3.E4M3", "e5m2": "QGMMA.64x{}x32.F32.E5M2.E5M2",
            "mixed": "QGMMA.64x{}x32.F32.E4M3.E5M2", "s8": "IGMMA.64x{}x32.S8.S8", "u8": "IGMMA.64x{}x32.U8.U8"}
def known(kind, bM, bN, schedule="cooperative", *, split_k=1, share_A=1, share_B=1):
    """The configuration of this kind that the choice knows."""
    found, = (config for config in configs(CHOSEN[kind]) if (config.bM, config.bN, config.schedule, config.split_k,
              config.share_A, config.share_B) == (bM, bN, schedule, split_k, share_A, share_B))
    return found


CHOSEN = {"bf16": mo.bfloat16, "f16": mo.float16, "tf32": mo.float32, "e4m3": mo.float8_e4m3fn,
          "e5m2": mo.float8_e5m2, "mixed": mo.float8_e4m3fn, "s8": mo.int8, "u8": mo.uint8}
PROGRAMS = {
    "pingpong_192": ("bf16", "CC", known("bf16", 128, 192, "pingpong"), {}),
    "pingpong_128": ("f16", "CF", known("f16", 128, 128, "pingpong"), {}),
    "cooperative_256": ("bf16", "FC", known("bf16", 128, 256), {}),
    "multicast_B": ("bf16", "CC", known("bf16", 128, 256, share_B=2), {}),
    "clusters_of_four": ("bf16", "CC", tile("bf16", 128, 192, 4, groups=2, share_A=2, share_B=2), {}),
    "clusters_of_eight_in_turns": ("bf16", "CC", tile("bf16", 128, 128, 6, "pingpong", 2, share_A=4, share_B=2), {}),
    "multicast_B_in_turns": ("f16", "FC", known("f16", 128, 192, "pingpong", share_B=2), {}),
    "pingpong_64_by_256": ("bf16", "FF", known("bf16", 64, 256, "pingpong"), {}),
    "cooperative_128": ("f16", "FF", known("f16", 128, 128), {}),
    "cooperative_192": ("bf16", "CC", known("bf16", 128, 192), {"alpha": 0.5}),
    "pingpong_64_by_128": ("f16", "CC", known("f16", 64, 128, "pingpong"), {}),
    "one_group_128": ("bf16", "CF", known("bf16", 64, 128), {}),
    "one_group_64": ("f16", "FC", known("f16", 64, 64), {"out": "f32"}),
    "split": ("bf16", "CC", known("bf16", 128, 128, split_k=2), {}),
    "split_in_memory": ("bf16", "CC", tile("bf16", 128, 128, 5, groups=2, split_k=11, gather="memory"), {}),
    "three_groups": ("bf16", "FC", known("bf16", 192, 176), {}),
    "of_256_rows": ("bf16", "CC", known("bf16", 256, 192), {}),
    "three_groups_share_B": ("f16", "CC", known("f16", 192, 192, share_B=2), {}),
    "turned": ("bf16", "CC", tile("bf16", 64, 16, 12, swap=True), {}),
    "turned_and_split": ("f16", "FC", tile("f16", 128, 64, 8, groups=2, split_k=8, swap=True), {}),
    "tf32": ("tf32", "CC", known("tf32", 128, 256), {}),
    "promoted": ("e4m3", "CC", known("e4m3", 128, 192), {}),
    "fast": ("e5m2", "CC", known("e5m2", 128, 192, "pingpong"), {"fast_accum": True}),
    "mixed": ("mixed", "CC", known("mixed", 64, 128), {}),
    "int8": ("s8", "CC", known("s8", 128, 128, "pingpong"), {}),
    "uint8": ("u8", "CC", known("u8", 64, 64), {}),
    "gated": ("bf16", "CC", known("bf16", 128, 192, "pingpong"), {"gated": True, "activation": "silu"}),
    "fused": ("bf16", "CC", known("bf16", 128, 256), {"bias": "f32", "activation": "gelu"}),
}


def product(kind, orders, config, M=256, N=256, K=2048, out=None, bias=None, **options):
    """The arguments of a launch, of whole tiles."""
    a, b, c = (DTYPES[name] for name in (*KINDS[kind][:2], out or KINDS[kind][2]))
    rows = 2 * N if options.get("gated") else N
    A, B = np.zeros((M, K), a, orders[0]), np.zeros((rows, K), b, orders[1])
    more = {} if bias is None else {"bias": np.zeros(rows, DTYPES[bias])}
    return (A, B, np.zeros((M, N), c)), {"config": config, **options, **more}


def compiled(*args, **options):
    """The programs of a launch, for sm_90a: the product's is the last."""
    arrays, options = product(*args, **options)
    with compile_only("sm_90a") as gathered:
        gemm_sm90(*arrays, **options)
    return gathered.programs


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    """No spills, no stack, none of ptxas's notes of lost performance (C7510 and its like).

    An instruction for each 32 bytes of a k tile and 64 rows; operands and C by TMA, contiguous rows in boxes of 64.
    """
    kind, orders, config, options = PROGRAMS[name]
    program = compiled(kind, orders, config, **options)[-1]
    assert program.spills == program.stack == 0
    assert not re.findall(r"\(C\d+\).*", program.compiled.log)
    count = Counter(re.findall(r"\b(?:[HQI]GMMA\.[\w.]*|UTMALDG|UTMASTG|USETMAXREG|STG|STL|LDL|LDG)", program.sass))
    if config.groups > 1:
        assert program.registers == {2: 168, 3: 128}[config.groups]     # 65536 of all; setmaxnreg shares them out anew
        assert count["USETMAXREG"] == 2
    else:
        assert program.registers <= (168 if kind == "mixed" else 128)       # promoted sums are there twice
        assert count["USETMAXREG"] == 0
    products = {op: n for op, n in count.items() if "GMMA" in op}
    assert products == {PRODUCTS[kind].format(config.bN): config.rows // 64 * 4}
    halves = 2 if options.get("gated") else 1
    turned = orders[::-1] if config.swap else orders
    boxes = [1 if order == "C" else rows // 64 for rows, order in zip((config.bM, config.bN), turned, strict=True)]
    assert count["UTMALDG"] == boxes[0] + halves * boxes[1]
    size = np.dtype(DTYPES[options.get("out", KINDS[kind][2])]).itemsize
    in_memory = config.gather == "memory"
    columns = 32 if options.get("gated") or "bias" in options or config.groups == 3 else 64
    if config.split_k > 1:                              # a piece for each block, if there are so many
        columns = 16 if in_memory else min(columns, max(16, config.rows // 64 * config.bN // config.split_k))
    columns = math.gcd(config.bN // halves, columns, 128 // size)
    pieces = config.rows // 64 * (config.bN // halves // columns)
    assert count["UTMASTG"] == -(-pieces // config.split_k) * (size // 2 if config.swap else 1)
    assert (count["STG"] == 0) == (not in_memory)
    assert (count["LDG"] > 0) == ("bias" in options or in_memory)
    assert count["STL"] == count["LDL"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("config", [tile("bf16", 128, 16, 12, groups=2, stream="A", stream_k=True),
                                    tile("bf16", 128, 256, 4, groups=2, stream_k=True),
                                    tile("bf16", 128, 192, 4, "pingpong", 2, stream_k=True),
                                    tile("bf16", 128, 256, 4, groups=2, split_k=4, gather="memory"),
                                    tile("bf16", 64, 128, 8, split_k=132, gather="memory")], ids=str)
def test_sums_that_are_handed_over_do_not_spill(config):
    program = compiled("bf16", "CC", config, M=3000, N=3000, K=16384)[-1]
    assert program.spills == program.stack == 0
    assert not re.findall(r"\(C\d+\).*", program.compiled.log)


PROBLEMS = {                            # kind, orders of A, B and C, M, N, K, batches, what is fused
    "one_row": ("bf16", "CCC", 1, 4098, 4096, 0, {}),
    "eight_rows": ("f16", "CCC", 8, 4098, 4097, 0, {}),
    "sixteen_rows": ("bf16", "CCC", 16, 4098, 4096, 0, {}),
    "sixteen_rows_by_tma": ("bf16", "CCC", 16, 8192, 8192, 0, {}),
    "sixty_four_rows": ("bf16", "CFC", 64, 4098, 1024, 0, {}),
    "hundred_rows": ("f16", "CCC", 100, 4097, 16384, 0, {}),
    "long_k": ("tf32", "CCC", 128, 128, 16384, 0, {}),
    "thousand_rows": ("bf16", "CCC", 1000, 4098, 4096, 0, {}),
    "odd_rows_of_C": ("f16", "CCC", 4096, 4097, 4096, 0, {}),
    "pairs_of_C": ("bf16", "CCC", 8192, 8194, 8192, 0, {}),
    "float32_C": ("bf16", "CCC", 8192, 8192, 8192, 0, {"out": "f32"}),
    "odd_float32_C": ("tf32", "CCC", 8192, 8191, 8192, 0, {}),
    "gelu": ("bf16", "CCC", 8192, 8192, 8192, 0, {"activation": "gelu"}),
    "gelu_in_pairs": ("bf16", "CCC", 8192, 8194, 8192, 0, {"activation": "gelu"}),
    "bias": ("f16", "CCC", 8192, 8192, 8192, 0, {"bias": "f32"}),
    "bias_of_the_decoded": ("f16", "CCC", 16, 8192, 8192, 0, {"bias": "f32", "activation": "silu"}),
    "bias_gelu": ("bf16", "CCC", 4096, 14336, 4096, 0, {"bias": "f32", "activation": "gelu"}),
    "beta": ("bf16", "CCC", 8192, 8192, 8192, 0, {"beta": 0.5}),
    "beta_of_columns": ("e4m3", "CCF", 2048, 14336, 64, 0, {"beta": 0.5, "bias": "f32", "fast_accum": True}),
    "few_k_shared_in_turns": ("e4m3", "CCC", 2048, 11008, 64, 3, {"alpha": 0.5, "out": "f32", "fast_accum": True}),
    "few_k_shared_of_columns": ("e4m3", "CCF", 1000, 11008, 64, 0, {"fast_accum": True}),
    "batches": ("bf16", "CCC", 1000, 11008, 4096, 3, {"out": "f32"}),
    "gated_batches": ("f16", "CCC", 1000, 4096, 8192, 3, {"gated": True, "bias": "f32", "activation": "silu"}),
    "gated_columns": ("bf16", "CCF", 2048, 14336, 64, 0, {"gated": True, "bias": "f32", "activation": "silu"}),
    "residual_of_columns": ("bf16", "CCF", 4096, 4096, 1024, 0, {"residual": "bf16"}),
    "bias_gelu_of_float32_columns": ("tf32", "CCF", 8192, 4096, 1024, 0, {"bias": "f32", "activation": "gelu"}),
    "promoted": ("e4m3", "CCC", 4096, 4096, 4096, 0, {"bias": "f32"}),
    "integers": ("s8", "CCC", 4096, 4097, 4096, 0, {}),
    "split_with_all_fused": ("f16", "FCC", 200, 4097, 14336, 0,
                             {"bias": "f32", "residual": "f16", "alpha": 0.5, "beta": 0.5, "activation": "gelu",
                              "row_scale": np.empty(200, np.float32), "col_scale": np.empty(4097, np.float32)}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_chosen_neither_spills_nor_serialises(name):
    """Whatever is fused and however C is stored; nothing of these arrays is touched."""
    kind, orders, M, N, K, batches, options = PROBLEMS[name]
    a, b, c = (DTYPES[name] for name in (*KINDS[kind][:2], options.get("out", KINDS[kind][2])))
    rows = 2 * N if options.get("gated") else N
    A, B, C = (np.moveaxis(np.empty((batches, *shape), dtype), 0, -1) if batches else
               np.empty(shape, dtype, order)
               for shape, dtype, order in zip(((M, K), (rows, K), (M, N)), (a, b, c), orders, strict=True))
    more = {key: np.empty(rows, DTYPES[value]) if key == "bias" else np.empty_like(C) if key == "residual" else value
            for key, value in options.items() if key != "out"}
    with compile_only("sm_90a") as gathered:
        gemm_sm90(A, B, C, **more)
    program = gathered.programs[-1]
    assert program.spills == program.stack == 0
    assert not re.findall(r"\(C\d+\).*", program.compiled.log)


def test_one_program_for_all_sizes():
    """Extents and strides are runtime values; so are factors, and where vectors lie."""
    found = []
    for M, N, K in ((256, 256, 256), (120, 72, 1000), (1, 8, 1)):
        for alpha in (0.5, -3):
            found += compiled("f16", "CC", tile("f16", 64, 64), M, N, -(-K // 8) * 8, bias="f32", alpha=alpha)
    assert all(program is found[0] for program in found)


def test_constant_extents_are_those_of_one_size():
    config = tile("f16", 64, 64, static=True)
    first, second, again = (compiled("f16", "CC", config, M)[0] for M in (256, 512, 256))
    assert first is again
    assert first is not second


def test_operands_that_are_copied_have_programs_of_their_own():
    """The copies, and then the same product, which waits for them."""
    plain = compiled("tf32", "CC", tile("tf32", 64, 64))
    copied = compiled("tf32", "FC", tile("tf32", 64, 64))
    assert len(plain) == 1 and len(copied) == 2
    waits = [program.source.count("griddepcontrol_wait();") for program in (plain[0], *copied)]
    assert waits == [0, 0, 1]


@pytest.mark.slow
@pytest.mark.parametrize(("M", "N", "rows", "options"), [
    (256, 256, 512, {"gated": True}), (16, 512, 512, {}), (256, 512, 512, {"activation": "relu"})], ids=str)
def test_specifications_are_compiled_as_arrays_are(M, N, rows, options):
    """Halved for gated products, turned for few rows."""
    shapes, sources = [(M, 2048), (rows, 2048), (M, N), (rows,)], []
    arrays = [aligned(math.prod(shape)).reshape(shape) for shape in shapes]
    specs = [mo.TensorLike(mo.float16, shape, (shape[1], 1) if len(shape) == 2 else (1,)) for shape in shapes]
    for *operands, bias in (arrays, specs):
        with compile_only("sm_90a") as gathered:
            gemm_sm90(*operands, bias=bias, **options)
        sources.append([program.source for program in gathered.programs])
    assert sources[0] == sources[1] and len(sources[0]) == 1


def aligned(count):
    """Zeros that begin at a multiple of 16 bytes."""
    memory = np.zeros(2 * count + 16, np.uint8)
    return memory[-memory.ctypes.data % 16:][:2 * count].view(np.float16)


def test_rows_beyond_32_bits_are_refused():
    """The number of tiles would be negative, and nothing written."""
    def ask(M, K=8):
        A, B, C = (mo.TensorLike(mo.float16, shape, (shape[1], 1)) for shape in ((M, K), (8, K), (M, 8)))
        with compile_only("sm_90a", trace_only=True) as gathered:
            gemm_sm90(A, B, C)
        return len(gathered.jobs)

    assert ask((1 << 31) - 1024) == 1
    for extents in (((1 << 31) - 100,), (1 << 32,), (8, 1 << 31)):
        with pytest.raises(mo.ArgumentError, match=r"^gemm_sm90: \d+ rows, columns or batches are more than"):
            ask(*extents)
