"""How ``gemm_sm80`` touches memory: no bank conflicts, whole sectors, wide instructions, no spills."""

from __future__ import annotations

import math
import random
import re

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import attention, attention_backward, gemm
from moye.kernels.gemm.parts.epilogues import Epilogue
from moye.kernels.gemm.sm80.choice import choose
from moye.kernels.gemm.sm80.config import configs
from moye.kernels.gemm.sm80.kernel import gemm_sm80_kernel
from moye.kernels.gemm.sm80.plan import by_matrix, make_plan, shared_bytes
from moye.layout import analysis
from moye.runtime.prepare import compile_only
from moye.tensor.retile import side_of
from pairs import pairs

OUT = {mo.float16: mo.float16, mo.bfloat16: mo.bfloat16, mo.float32: mo.float32, mo.float64: mo.float64,
       mo.int8: mo.int32, mo.float8_e4m3fn: mo.float16}
CONFIGS = [(dtype, config) for dtype in OUT for arch in (80, 90) for config in configs(dtype, arch)
           if arch == 80 or config not in configs(dtype)]
CASES = [(dtype, config, major) for dtype, config in CONFIGS for major in ("k", "mn")
         if major == "k" or dtype.bits >= 16]


def plan_of(dtype, config, major, ragged=False):
    out = OUT[dtype]
    return make_plan(config, dtype, out, major, major, (ragged,) * 3, "vector", False, 1, Epilogue())


def read_degree(copy, smem, dtype, major):
    """Bank conflicts of a warp's reads of a stage."""
    atom = copy.atom
    places = mo.layout.make_layout(*side_of(copy.layout_tv, atom.op.threads, atom.values, atom.source))
    where = analysis.thread_values(places, copy.tiler, smem)
    return analysis.bank_conflicts(where, dtype.bits, "ldmatrix" if by_matrix(dtype, major) else "ld").degree


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "config", "major"), CASES, ids=str)
def test_no_bank_conflicts_in_the_main_loop(dtype, config, major):
    plan = plan_of(dtype, config, major)
    for copy, read, smem in ((plan.copy_A, plan.read_A, plan.sA), (plan.copy_B, plan.read_B, plan.sB)):
        stage = smem[:, :, 0]
        assert analysis.copy_report(copy, smem=stage).banks.degree == 1
        assert read_degree(read, stage, dtype, major) == 1


@pytest.mark.parametrize(("dtype", "config"), CONFIGS, ids=str)
def test_stores_are_16_bytes_and_whole_sectors(dtype, config):
    plan = plan_of(dtype, config, "k")
    tile = mo.make_layout((mo.size(plan.sC, 0), config.bN), (4096, 1))
    report = analysis.copy_report(plan.store, smem=plan.sC, gmem=tile, access="ld")
    assert plan.store.atom.op.bits == 128
    assert report.sectors.efficiency == 1
    assert report.banks.degree == 1


@pytest.mark.slow
@pytest.mark.parametrize("config", configs(mo.float64, 90), ids=str)
@pytest.mark.parametrize("major", ["k", "mn"])
def test_float64_instructions_of_sm_90(config, major):
    """The wide instruction and nothing of sm_80's; 8-byte reads, nothing spilled."""
    A, C = np.zeros((768, 768), order="C" if major == "k" else "F"), np.zeros((768, 768))
    program = gemm_sm80_kernel.compile(A, A, C, None, None, 1.0, 0.0, 1, None, None, plan_of(mo.float64, config, major),
                                       block=config.threads, arch="sm_90a")
    k = config.mma.partition("x8x")[2].partition("_")[0]
    assert set(re.findall(r"\bDMMA\S*", program.sass)) == {f"DMMA.16x8x{k}"}
    assert "LDS.64" in program.sass
    assert program.spills == program.stack == 0


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "major", "ragged"), pairs([mo.bfloat16, mo.float32], ["k", "mn"], [False, True]),
                         ids=str)
def test_instructions(dtype, major, ragged):
    """Wide copies, ldmatrix and stores; nothing packed, nothing spilled."""
    config, order = configs(dtype)[0], "C" if major == "k" else "F"
    A = np.zeros((512, 512), ml_dtypes.bfloat16 if dtype is mo.bfloat16 else np.float32, order=order)
    C = np.zeros((512, 512), A.dtype)
    program = gemm_sm80_kernel.compile(A, A, C, None, None, 1.0, 0.0, 1, None, None,
                                       plan_of(dtype, config, major, ragged), block=config.threads, arch="sm_90a")
    assert program.spills == program.stack == 0
    opcodes = set(re.findall(r"\b(LDGSTS\S*|STG\S*|LDSM\S*|PRMT|HMMA\S*)", program.sass))
    copies = {name for name in opcodes if name.startswith("LDGSTS")}
    assert copies and all(re.fullmatch(r"LDGSTS\.E\.BYPASS\S*\.128(\.ZFILL)?", name) for name in copies)
    assert {name for name in opcodes if name.startswith("STG")} == {"STG.E.128"}
    assert any(name.startswith("LDSM") for name in opcodes) == by_matrix(dtype, major)
    assert "PRMT" not in opcodes
@pytest.mark.parametrize(("dtype", "config"), CONFIGS, ids=str)
@pytest.mark.parametrize("store", ["vector", "rows", "element"])
def test_shared_memory_is_foretold(dtype, config, store):
    for majors in pairs(("k", "mn", "element"), ("k", "mn", "element_mn")):
        if dtype.bits < 16 and set(majors) != {"k"}:
            continue
        plan = make_plan(config, dtype, OUT[dtype], *majors, (False,) * 3, store, False, 1, Epilogue())
        taken = [(plan.sA, dtype), (plan.sB, dtype), (plan.sC, OUT[dtype])]
        assert sum(mo.cosize(layout) * one.bytes for layout, one in taken) <= \
            shared_bytes(config, dtype, OUT[dtype].bytes, majors, store) <= \
            sum(mo.cosize(layout) * one.bytes for layout, one in taken) + 128


@pytest.mark.parametrize("arch", [80, 86, 87, 89, 90, 100, 120])
def test_drawn_products_have_room_on_every_device(arch):
    """Consumer devices have 99 KB of shared memory a block, where an H100 has 227."""
    rng = random.Random(arch)
    most = mo.hardware.of(f"sm_{arch}").block_shared
    for _ in range(300):
        dtype, along = rng.choice(list(OUT)), ("k",)
        if dtype.bits >= 16:
            along = ("k", "mn", "element", "element_mn", *(["shift", "shift_mn"] if dtype.bits in (16, 32) else []))
        ways, store = (rng.choice(along), rng.choice(along)), rng.choice(["vector", "rows", "pairs", "element"])
        M, N, K = (round(math.exp(rng.uniform(0, math.log(20000)))) for _ in range(3))
        config, splits = choose(M, N, K, rng.choice([1, 1, 5]), dtype, rng.choice([16, 84, 142, 188]), arch, ways=ways,
                                store=store, out=OUT[dtype].bytes)
        out, left = (OUT[dtype].bytes, store) if splits == 1 else (max(4, dtype.bytes), "vector")
        assert shared_bytes(config, dtype, out, ways, left) <= most, (dtype, M, N, K, ways, config)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_86", "sm_89", "sm_120"])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.int8, np.float32, np.float64])
def test_products_compile_for_smaller_devices(monkeypatch, arch, dtype):
    monkeypatch.setenv("MOYE_ARCH", arch)
    out = {ml_dtypes.bfloat16: ml_dtypes.bfloat16, np.int8: np.int32}.get(dtype, dtype)
    for M, N, K in ((4096, 4096, 4096), (100, 1000, 4096), (333, 777, 111)):
        with compile_only(arch) as compiled:
            gemm(np.empty((M, K), dtype), np.empty((N, K), dtype), np.empty((M, N), out),
                 **{"tf32": True} if dtype == np.float32 else {})
        assert compiled.programs
        if arch != "sm_120":                            # where ptxas makes products of bytes of other instructions
            assert all(program.spills == 0 for program in compiled.programs)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_attention_compiles_for_smaller_devices(monkeypatch, dim):
    monkeypatch.setenv("MOYE_ARCH", "sm_86")
    q, k, v, out = (np.empty((2, 512, 4, dim), ml_dtypes.bfloat16) for _ in range(4))
    lse = np.empty((2, 4, 512), np.float32)
    with compile_only("sm_86") as compiled:
        attention(out, q, k, v, lse=lse)
        attention_backward(*map(np.empty_like, (q, k, v, out)), q, k, v, out, lse)
    assert len(compiled.programs) >= 4 and not any("wgmma" in program.source for program in compiled.programs)
