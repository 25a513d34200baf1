"""Conversions as PTX and SASS: packed instructions only, one per pair of elements, nothing taken apart, no spills."""

import os
import re
from functools import cache
from pathlib import Path

import pytest

import moye as mo
from convert_kernels import EACH, THREADS, activation_kernel, convert_kernel, narrow_kernel, tf32_kernel
from moye import dtypes as dt
from moye.cuda.compiler.sass import parse_sass
from moye.cuda.printing.printer import print_kernel
from moye.errors import UnsupportedError

GOLDEN = Path(__file__).parents[2] / "golden" / "conversions.cu"
N = 1 << 14
SHUFFLED = ("PRMT", "SHF", "LOP3", "LEA", "IMAD.SHL", "IMAD.U32", "BFE", "SGXT")


def vector(dtype):
    return mo.TensorLike(dtype, (N,))


@cache
def narrowed(target, arch):
    return narrow_kernel.compile(vector(target), vector(dt.float32), vector(dt.float32), block=128, arch=arch)


@cache
def converted(source, target, arch):
    return convert_kernel.compile((vector(target),), vector(source), source, block=THREADS, arch=arch)


def conversions(program, pattern):
    return [i.name for i in parse_sass(program.sass) if re.match(pattern, i.name)]


def after_loads(program):
    """The instructions between the last load and the store, which compute elements and nothing else."""
    names = [i.name for i in parse_sass(program.sass)]
    last = max(i for i, name in enumerate(names) if name.startswith("LDG"))
    store = next(i for i, name in enumerate(names) if name.startswith("STG"))
    return names[last + 1:store]


@pytest.mark.slow
@pytest.mark.parametrize(("target", "instruction"), [
    (dt.float16, r"F2FP(\.F16\.F32)?\.PACK_AB$"), (dt.bfloat16, r"F2FP\.BF16(\.F32)?\.PACK_AB$")], ids=str)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_pairs_of_16_bits(target, instruction, arch):
    """ptxas packs two scalar conversions that end up in one register: four F2FP for a 128-bit store of eight."""
    program = narrowed(target, arch)
    assert len(conversions(program, instruction)) == len(conversions(program, "F2F|I2F|F2I")) == 4
    assert [n for n in after_loads(program) if n.startswith(("PRMT", "LOP3"))] == []
    assert len(conversions(program, r"STG\.E\.128")) == 1 and program.spills == program.stack == 0


@pytest.mark.slow
@pytest.mark.parametrize(("target", "ptx"), [
    (dt.float8_e4m3fn, "cvt.rn.satfinite.e4m3x2.f32"), (dt.float8_e5m2, "cvt.rn.satfinite.e5m2x2.f32")], ids=str)
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a"])
def test_float8_by_fours(target, ptx, arch):
    """Sixteen elements: eight conversions of two, the second of each word merged into the first's register."""
    program = narrowed(target, arch)
    assert program.ptx.count(ptx) == 8 and len(conversions(program, "STG")) == 1
    assert program.spills == program.stack == 0
    if arch == "sm_90a":
        assert len(conversions(program, r"F2FP\.SATFINITE\..*PACK_AB_MERGE_C")) == len(conversions(program, "F2")) == 8
        assert [n for n in after_loads(program) if n.startswith("PRMT")] == []


@pytest.mark.slow
@pytest.mark.parametrize("target", [dt.int8, dt.uint8], ids=str)
@pytest.mark.parametrize(("arch", "instruction"), [("sm_80", r"I2IP\.[SU]8"), ("sm_90a", r"F2IP\.[SU]8")])
def test_8_bit_integers_by_fours(target, arch, instruction):
    program = narrowed(target, arch)
    assert program.ptx.count(f"cvt.pack.sat.{target.name[0].replace('i', 's')}8.s32.b32") == 8
    assert len(conversions(program, instruction)) == 8
    assert program.spills == program.stack == 0
    assert [n for n in after_loads(program) if n.startswith(("PRMT", "IMNMX", "VIMNMX"))] == []


@pytest.mark.slow
@pytest.mark.parametrize("target", [dt.float16, dt.float32, dt.bfloat16], ids=str)
@pytest.mark.parametrize("source", [dt.float8_e4m3fn, dt.float8_e5m2], ids=str)
def test_float8_upward(source, target):
    """Eight elements: four conversions of two out of the words as they were loaded."""
    program = converted(source, target, "sm_90a")
    unpack = r"F2FP\.F16\.E4M3\.UNPACK_B" if source is dt.float8_e4m3fn else "PRMT"
    assert len(conversions(program, unpack)) == 4
    assert [n for n in after_loads(program) if n.startswith(SHUFFLED) and not re.match(unpack, n)] == []
    assert program.spills == program.stack == 0


def test_float8_upward_to_float16_is_direct():
    assert not conversions(converted(dt.float8_e4m3fn, dt.float16, "sm_90a"), "HADD2")


@pytest.mark.slow
@pytest.mark.parametrize("source", [dt.float32, dt.float64, dt.float16, dt.bfloat16, dt.int32, dt.int64], ids=str)
def test_tf32(source):
    """Rounded by the instruction, once for each element; it stays 32 bits wide."""
    program = tf32_kernel.compile(vector(dt.float32), vector(source), block=THREADS, arch="sm_80")
    assert program.ptx.count("cvt.rna.tf32.f32") == EACH and program.spills == program.stack == 0
    assert len(conversions(program, r"STG\.E\.128")) == EACH // 4


@pytest.mark.parametrize(("source", "target"), [(dt.float32, dt.float8_e4m3fn), (dt.float64, dt.float8_e5m2),
                                                (dt.float8_e4m3fn, dt.float32), (dt.float8_e4m3fn, dt.int32)], ids=str)
def test_float8_needs_sm_89(source, target):
    direction = f"to {target}" if target in (dt.float8_e4m3fn, dt.float8_e5m2) else f"from {source}"
    with pytest.raises(UnsupportedError) as caught:
        converted(source, target, "sm_80")
    assert str(caught.value).splitlines()[0] == \
        f"convert_kernel uses conversions {direction}, which need sm_89 or later, but is compiled for sm_80"


def test_e5m2_upward_needs_nothing():
    assert converted(dt.float8_e5m2, dt.float32, "sm_80").spills == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu", "gelu", "silu", "sigmoid"])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float16, dt.bfloat16, dt.float64], ids=str)
def test_activations_compile(name, dtype):
    tanh, fast = ("approximate", "tanh"), ("fast", True)
    for options in ((), (tanh,), (tanh, fast)) if name == "gelu" else ((),):
        program = activation_kernel.compile(vector(dtype), vector(dtype), name, options, block=THREADS, arch="sm_80")
        assert program.spills == program.stack == 0
        assert ("tanh.approx" in program.ptx) == (fast in options and dtype is not dt.float64)


def test_golden():
    """The text of one kernel: sums in float32, e4m3 out."""
    text = print_kernel(narrow_kernel.trace(vector(dt.float8_e4m3fn), vector(dt.float32), vector(dt.float32),
                                            block=128)).source
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), f"{GOLDEN.name} differs: UPDATE_GOLDEN=1 writes it anew"
