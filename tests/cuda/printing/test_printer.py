"""printer.py and what it is made of: golden texts, every op and dtype through NVRTC, expressions, names, parameters.

``UPDATE_GOLDEN=1 pytest tests/cuda/printing/test_printer.py`` rewrites the golden files.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import moye as mo
import printer_cases as cases
from moye import dtypes as dt
from moye.cuda.compiler import nvrtc
from moye.cuda.printing.dispatch import PRINTERS
from moye.cuda.printing.expressions import (
    ADD,
    Text,
    assignment,
    call,
    infix,
    literal,
    negated,
    prefix,
    scaled,
    select,
    total,
)
from moye.cuda.printing.intrinsics import Intrinsics
from moye.cuda.printing.names import Names, identifier
from moye.cuda.printing.printer import Slot, print_kernel
from moye.dtypes import Space
from moye.errors import Frame, Loc, UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, Literal, Ref, TileRef, Value
from moye.ir.verify import verify
from moye.layout import make_layout
from moye.passes import shared_memory
from printer_cases import CASES, E, K, i32, tile

GOLDEN = Path(__file__).parents[2] / "golden"
A_FEW = ("matmul", "control", "snapshots", "elementwise", "async_copies", "gemms", "wide", "debugging")


@pytest.mark.parametrize("name", A_FEW)
def test_golden(name):
    source = print_kernel(CASES[name](), asserts=True).source
    path = GOLDEN / f"printer_{name}.cu"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(source)
    assert source == path.read_text(), f"{path} differs; UPDATE_GOLDEN=1 rewrites it"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_compiles(name):
    """Every kernel, for the oldest architecture and for Hopper; local memory only where CUDA's functions need it."""
    func = CASES[name]()
    verify(func)
    printed = print_kernel(func, asserts=True)
    for arch in ("sm_80", "sm_90a"):
        if printed.arch <= int(arch[3:5]):
            compiled = nvrtc.compile_cubin(printed.source, printed.name, arch)
            assert compiled.smem_static == printed.static_smem
            assert "warning" not in compiled.log, compiled.log
            if name not in ("unary_ops", "debugging", "copies_bool"):
                assert (compiled.spill_stores, compiled.stack_frame) == (0, 0)


@pytest.mark.parametrize("order", ["rows", "serpentine"])
def test_matmul_is_like_its_hand_written_twin(order):
    """simt_naive_dbl_32x8.cu has 106 registers, and 128 without its launch bounds: two blocks per SM either way."""
    printed = print_kernel(cases.matmul(order))
    compiled = nvrtc.compile_cubin(printed.source, printed.name, "sm_90a")
    assert (compiled.spill_stores, compiled.stack_frame) == (0, 0)
    assert compiled.registers <= 128
    assert compiled.smem_static == printed.static_smem == 8320 + 2078 * 4


def test_prints_fast():
    func = cases.matmul()
    times = []
    for _ in range(7):
        start = time.process_time()                     # other processes on the machine do not count
        print_kernel(func)
        times.append(time.process_time() - start)
    assert statistics.median(times) < 0.03, f"{1e3 * statistics.median(times):.1f} ms for 512 FMAs"


def test_printing_twice_gives_the_same():
    func = cases.matmul()
    assert print_kernel(func) == print_kernel(func)


def test_every_op_is_in_the_table():
    def below(cls):
        return {x for sub in cls.__subclasses__() for x in (sub, *below(sub))}

    ours = {cls for cls in below(ops.Op) if cls.__module__.startswith("moye.ir")
            and getattr(sys.modules[cls.__module__], cls.__name__) is cls}        # not what slots=True left to collect
    assert ours == set(PRINTERS)


def test_unknown_ops_say_so():
    @dataclass(slots=True, kw_only=True)
    class Strange(ops.Op):
        pass

    func = Func("f", [], Block([Strange(loc=Loc((Frame("gemm.py", 3),)))]), (1, 1, 1))
    with pytest.raises(UnsupportedError, match=r"does not know Strange\n  gemm.py:3"):
        print_kernel(func)


# --- parameters and shared memory ------------------------------------------------------------------------------------


def test_slots_name_only_what_is_used():
    printed = print_kernel(cases.matmul())
    assert printed.name == "matmul" and printed.arch == 80
    assert printed.slots == [
        Slot("ptr", 0, -1, "P"), Slot("shape", 0, 1, "i"), Slot("stride", 0, 1, "i"),
        Slot("ptr", 1, -1, "P"), Slot("stride", 1, 1, "i"), Slot("ptr", 2, -1, "P"), Slot("stride", 2, 1, "i")]
    assert "const float* __restrict__ A, const int A_1, const int A_s1," in printed.source
    assert "float* __restrict__ C, const int C_s1) {" in printed.source


def test_slot_formats():
    printed = print_kernel(cases.warps())
    formats = {slot.param: slot.format for slot in printed.slots if slot.kind == "scalar"}
    assert "".join(formats[2 * i] for i in range(13)) == "bBhHiIqQeHfd?"


def test_overlapping_arguments_are_not_restricted():
    func = cases.matmul()
    func.restrict = False
    assert "__restrict__" not in print_kernel(func).source


def test_big_shared_memory_is_dynamic():
    printed = print_kernel(cases.wide())
    assert (printed.dynamic_smem, printed.static_smem, printed.arch) == (66560, 0, 90)


def test_smem_plan_aligns():
    func = Func("f", [], Block(), (1, 1, 1))
    for name, elements, align in (("a", 3, 4), ("b", 8, 128), ("c", 1, 16)):
        func.buffers.append(Buffer(name, Space.SHARED, dt.float32, elements, make_layout(elements), align=align))
    found = shared_memory.plan(func)
    assert [found.offset(buffer) for buffer in func.shared_buffers] == [0, 128, 160]
    assert (found.total, found.align, found.dynamic) == (164, 128, False)


# --- comments --------------------------------------------------------------------------------------------------------


def test_source_lines_are_printed_once_each():
    source = print_kernel(cases.matmul()).source
    assert source.count("// matmul.py:10  tCrC.fill(0)\n") == 1
    assert source.count("// matmul.py:12  mo.sync_threads()\n") == 1
    assert "#line" not in source


def test_line_directives_on_request():
    assert '#line 12 "matmul.py"\n    __syncthreads();' in print_kernel(cases.matmul(), lineinfo=True).source


def test_helpers_show_both_lines():
    b = K("with_helper", (32, 1, 1), source="line one\nstep(x)  \\\nthree")
    b.where = Loc((Frame("caller.py", 7), Frame("with_helper.py", 2)))
    b.emit(ops.SyncThreads())
    assert "// caller.py:7\n    //   with_helper.py:2  step(x)\n    __syncthreads();" in print_kernel(b.func).source


def test_a_call_is_told_once_and_again_after_another():
    b = K("calls", (32, 1, 1))
    for caller, line in ((7, 2), (7, 3), (8, 2), (8, 2)):
        b.where = Loc((Frame("caller.py", caller), Frame("helper.py", line)))
        b.emit(ops.SyncThreads())
    b.where = Loc((Frame("caller.py", 8),))
    b.emit(ops.SyncThreads())
    notes = re.findall(r"//.*py.*", print_kernel(b.func).source)
    assert notes == ["// caller.py:7", "//   helper.py:2", "//   helper.py:3", "// caller.py:8", "//   helper.py:2",
                     "// caller.py:8"]


def test_asserts_only_on_request():
    assert "__trap" not in print_kernel(cases.debugging()).source
    assert "if (n >= 5) {" in print_kernel(cases.debugging(), asserts=True).source


# --- values ----------------------------------------------------------------------------------------------------------


def body_of(func: Func) -> str:
    return re.sub(r"\n    ", "\n", print_kernel(func).source.partition(") {\n")[2])


def test_unused_values_and_unread_arrays_print_nothing():
    source = print_kernel(cases.elementwise()).source
    assert "unread" not in source
    assert "77" not in print_kernel(cases.debugging()).source  # what only mo.inspect wants


def test_small_fragments_are_named_scalars():
    source = print_kernel(cases.elementwise()).source
    assert "float few_0, few_1;" in source and "float one;" in source and "few[" not in source


def test_single_use_values_are_inlined_and_others_named():
    b = K("f", (32, 1, 1))
    out = b.tensor("out", dt.int32, 1)
    n = b.scalar("n", dt.int32)
    once, twice = n * 3, n + 7
    b.store(out, twice, once - twice)
    assert body_of(b.func).split("\n")[:2] == ["    const int n_plus_7 = n + 7;", "out[n_plus_7] = n * 3 - n_plus_7;"]


def test_values_used_in_a_deeper_loop_are_computed_outside():
    b = K("f", (32, 1, 1))
    out, n = b.tensor("out", dt.int32, 1), b.scalar("n", dt.int32)
    outside = n * 3
    b.loop(0, n, lambda i: b.store(out, i, outside), "i")
    assert "const int n_times_3 = n * 3;\nfor (int i = 0; i < n; ++i) {" in body_of(b.func)


def test_a_name_of_the_user_is_not_shadowed_by_a_loop_index():
    b = K("f", (32, 1, 1))
    out = b.tensor("out", dt.float32, 1)
    r = b.registers("r", dt.float32, 8)
    b.fill(r, 0.0)
    b.loop(0, 4, lambda i: b.copy(tile(out, i * 8, 1), tile(r, 0, 1), 8), "i")
    assert "for (int ii = 0; ii < 8; ++ii) {\n        out[i * 8 + ii] = r[ii];" in body_of(b.func)


def test_serpentine():
    source = print_kernel(cases.matmul("serpentine")).source
    assert "const int j = i & 1 ? 15 - jj : jj;" in source
    assert "tCrC[i + 4 * j] += tCrA[i] * tCrB[j];" in source


def test_index_spaces_collapse_to_one_loop():
    b = K("f", (32, 1, 1))
    out, r = b.tensor("out", dt.float32, 1), b.registers("r", dt.float32, 24)
    b.fill(r, 0.0)
    b.copy(tile(out, 0, 2, 8, 1), tile(r, 0, 1, 4, 0), 4, 6, 1)
    assert "for (int i = 0; i < 24; ++i) {\n    out[2 * i] = r[i];" in body_of(b.func)


# --- refusals --------------------------------------------------------------------------------------------------------


def _refuse(op: ops.Op) -> str:
    with pytest.raises(UnsupportedError) as caught:
        print_kernel(Func("f", [], Block([op]), (32, 1, 1)))
    return caught.value.message


def test_refusals_say_what():
    place = Buffer("g", Space.GLOBAL, dt.int8, None, make_layout(1), align=1, index=0)
    ref = Ref(place, i32(0), dt.int8)
    atomic = ops.Atomic(result=Value(dt.int8), kind="add", ref=ref, value=Literal(1, dt.int8))
    assert _refuse(atomic) == "there is no atomic add of int8"
    load = ops.Load(result=Value(dt.int8), ref=ref, order="release")
    assert _refuse(load) == "a load cannot have order 'release'"
    r = Buffer("r", Space.REGISTER, dt.float32, 4, make_layout(4), align=16)
    t = TileRef(r, i32(0), dt.float32, (1,))
    mma = cases.atom("Mystery", 8, dt.float32, dt.float32, (1, 1, 1), "")
    gemm = ops.Gemm(mma=mma, d=t, a=t, b=t, c=t, extents=(4,), roles="m")
    assert _refuse(gemm) == "Mystery has no PTX text, and its 32 threads cannot share plain C++"


# --- expressions -----------------------------------------------------------------------------------------------------

a, b, c, d = Text("a"), Text("b"), Text("c"), Text("d")


@pytest.mark.parametrize(("text", "expected"), [
    (infix("*", infix("+", a, b), c), "(a + b) * c"),
    (infix("+", infix("*", a, b), c), "a * b + c"),
    (infix("-", a, infix("-", b, c)), "a - (b - c)"),
    (infix("-", infix("-", a, b), c), "a - b - c"),
    (infix("+", a, infix("+", b, c)), "a + (b + c)"),
    (infix("+", a, infix("+", b, c), associative=True), "a + b + c"),
    (infix("*", a, infix("%", b, c), associative=True), "a * (b % c)"),
    (infix("*", a, infix("*", b, c), associative=True), "a * b * c"),
    (scaled(infix("*", infix("%", a, b), c), 4), "4 * (a % b * c)"),
    (scaled(infix("*", infix("/", a, b), c), 4), "4 * (a / b * c)"),
    (infix("%", infix("*", infix("%", a, b), c), d), "a % b * c % d"),
    (infix("/", a, infix("*", b, c)), "a / (b * c)"),
    (infix("/", infix("*", a, b), c), "a * b / c"),
    (infix("*", infix("/", a, b), c), "a / b * c"),
    (infix("+", a, Text("-3", prefix("-", a).level)), "a - 3"),
    (infix("-", a, prefix("-", b)), "a - -b"),
    (prefix("-", prefix("-", a)), "-(-a)"),
    (infix("&", infix(">>", a, b), c), "(a >> b) & c"),
    (infix("<<", infix("+", a, b), c), "(a + b) << c"),
    (infix("<", infix("+", a, b), c), "a + b < c"),
    (infix("==", infix("<", a, b), c), "(a < b) == c"),
    (infix("==", infix("&", a, b), c), "(a & b) == c"),
    (infix("||", infix("&&", a, b), c), "(a && b) || c"),
    (infix("&&", infix("<", a, b), infix("<", b, c)), "a < b && b < c"),
    (select(infix("<", a, b), a, select(b, b, c)), "a < b ? a : b ? b : c"),
    (select(select(a, b, c), a, b), "(a ? b : c) ? a : b"),
    (infix("+", select(a, b, c), c), "(a ? b : c) + c"),
    (negated(infix("<", a, b), True), "a >= b"),
    (negated(infix("<", a, b), False), "!(a < b)"),
    (negated(prefix("!", a), False), "a"),
    (call("f", infix("+", a, b), c), "f(a + b, c)"),
    (total([Text("0"), scaled(a, 4), Text("3"), scaled(infix("+", b, c), 2), Text("5")]), "4 * a + 2 * (b + c) + 8"),
    (total([Text("4"), Text("-4")]), "0"),
    (total([a, Text("-4")]), "a - 4"),
    (scaled(infix("%", a, b), 2), "2 * (a % b)"),
])
def test_parentheses(text, expected):
    assert text.text == expected


@pytest.mark.parametrize(("place", "value", "expected"), [
    ("x", Text("x + 1", ADD), "x += 1;"), ("x", Text("x + y * 2", ADD), "x = x + y * 2;"),
    ("x[i]", Text("x[i] + y[i + 1]", ADD), "x[i] += y[i + 1];"), ("x", Text("xy + 1", ADD), "x = xy + 1;"),
    ("x", Text("x + 1 + y", ADD), "x = x + 1 + y;"),
])
def test_assignment(place, value, expected):
    assert assignment(place, value) == expected


@pytest.mark.parametrize(("value", "dtype", "expected"), [
    (1, dt.float32, "1.0f"), (0.1, dt.float64, "0.1"), (3, dt.int32, "3"), (3, dt.uint32, "3u"), (3, dt.int64, "3LL"),
    (3, dt.uint64, "3ULL"), (-2**31, dt.int32, "-2147483647 - 1"), (True, dt.bool_, "true"),
    (float("-inf"), dt.float32, "-__int_as_float(0x7f800000)"), (1.0, dt.float16, "f16{0x3c00}"),
    (-3.0, dt.bfloat16, "bf16{0xc040}"), (0.0, dt.float8_e4m3fn, "e4m3{0x00}"),
    (1, dt.uint128, "make_uint4(1u, 0u, 0u, 0u)"),
])
def test_literals(value, dtype, expected):
    assert literal(value, dtype, Intrinsics()).text == expected


def test_floors_follow_facts():
    body = body_of(cases.select_and_floor())
    assert "out[0] = thread_x / 32;\nout[1] = thread_x % 32;\nout[2] = n >> 3;\nout[3] = n & 7;" in body
    assert "out[4] = floor_div(n, m);" in body and "out[6] = (int)((unsigned)size / 3);" in body


@mo.kernel
def wrapped(out, n, m: mo.int64):
    i = mo.thread_idx().x
    size = mo.size(out)
    out[0], out[1], out[2] = i // 3 % size, (i - 1 + size) % size, (i + size - 2) % size
    out[3], out[4] = i % n, i.to(mo.int64) * size // m


@mo.kernel
def wrapped_by_more_than_none(out, n):
    mo.assume(n > 0)
    out[0] = mo.thread_idx().x % n


def test_quotients_of_what_is_not_negative_are_unsigned():
    """Where the dividend holds the divisor, which is then 1 or more, it may have a -1; not a -2."""
    source = print_kernel(wrapped.trace(mo.TensorLike(mo.int64, (32,)), 3, 5, block=32)).source
    assert "(unsigned)tx / 3 % (unsigned)out_0" in source
    assert "(unsigned)(tx - 1 + out_0) % (unsigned)out_0" in source and "floor_mod(tx + out_0 - 2, out_0)" in source
    assert "floor_mod(tx, n)" in source and "floor_div((long long)tx * (long long)out_0, m)" in source
    source = print_kernel(wrapped_by_more_than_none.trace(mo.TensorLike(mo.int64, (32,)), 3, block=32)).source
    assert "threadIdx.x % (unsigned)n" in source


def test_reads_of_changed_variables_are_kept():
    body = body_of(cases.snapshots())
    assert "const int x_1 = x;\nx = n;\nout[0] = x_1;" in body
    assert "const int y_next = x;\nx = y;\ny = y_next;" in body  # swap
    assert "const int t0 = out[7];\nout[7] = A[0] + 1;\nout[8] = t0;" in body
    assert "const int t1 = out[9];\n__syncthreads();\nout[10] = t1;" in body
    assert "    const int t2 = x + out[11];\n    x = 5;\n    out[12] = t2;" in body


def test_shuffles_are_not_skipped_by_some_lanes():
    body = body_of(cases.warps())
    choice = r"const float (t\d+) = __shfl_xor_sync\(0xffffffffu, f, 4\);\nchosen\[0\] = \w+ \? \1 : 0.0f;"
    assert re.search(choice, body)


# --- names -----------------------------------------------------------------------------------------------------------


def test_names():
    names = Names()
    assert [names.fresh(x) for x in ("x", "x", "int", "threadIdx", "cp_async_8", "2nd", "_tmp", "größe", "expf")] == [
        "x", "x_1", "int_", "threadIdx_", "cp_async_8_", "x2nd", "tmp", "gr_e", "expf_"]
    assert identifier("f.<locals>.g") == "f_locals_g"
    with names.scope():
        assert names.fresh("x") == "x_2"
        assert names.fresh("label", everywhere=True) == "label"
    assert (names.fresh("x"), names.fresh("label")) == ("x_2", "label_1")
    assert [names.numbered("t"), names.numbered("t")] == ["t0", "t1"]


def test_kernel_names_do_not_clash_with_cuda():
    for given, printed in (("exp", "exp_kernel"), ("main", "main_kernel"), ("<lambda>", "lambda_kernel"), ("k", "k")):
        assert print_kernel(Func(given, [], Block(), (1, 1, 1))).name == printed


@pytest.mark.parametrize("name", ["malloc", "free", "size_t", "std", "nan", "va_list", "clock_t", "CUDART_VERSION"])
def test_kernels_called_like_what_nvrtc_declares(name):
    printed = print_kernel(Func(name, [], Block(), (1, 1, 1)))
    assert printed.name == f"{name}_kernel" and nvrtc.compile_ptx(printed.source, "k.cu", "sm_90a")


MATH_API = """
abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc
erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs fdim fdivide floor fma fmax fmin fmod frexp hypot ilogb isfinite isinf
isnan j0 j1 jn labs ldexp lgamma llabs llmax llmin llrint llround log log10 log1p log2 logb lrint lround max min modf
nan nearbyint nextafter norm norm3d norm4d normcdf normcdfinv pow rcbrt remainder remquo rhypot rint rnorm rnorm3d
rnorm4d round rsqrt scalbln scalbn signbit sin sincos sincospi sinh sinpi sqrt tan tanh tgamma trunc ullmax ullmin
umax umin y0 y1 yn acosf cospif cyl_bessel_i0f erfcinvf fdividef lroundf norm3df normcdff rcbrtf remquof scalblnf
scalbnf sincosf sinpif
"""


def test_kernels_called_like_functions_of_cuda():
    """One text that has a kernel for each: what has its name in C already is declared twice."""
    sources = [print_kernel(Func(name, [], Block(), (1, 1, 1))).source for name in MATH_API.split()]
    assert nvrtc.compile_ptx("\n".join(sources), "k.cu", "sm_90a")


@pytest.mark.parametrize(("n", "unrolled"), [(2048, True), (4096, False)])
def test_loops_over_more_elements_than_registers_hold_stay_loops(n, unrolled):
    """Unrolled, ptxas would take minutes."""
    @mo.kernel
    def large(out):
        held = mo.fragment((n,), mo.float32)
        held.fill(mo.thread_idx().x)
        held[...] = held * 2 + 1
        out[mo.thread_idx().x] = held.reduce("sum")

    out = np.zeros(8, np.float32)
    large[1, 8](out)
    assert np.array_equal(out, n * (2 * np.arange(8, dtype=np.float32) + 1))
    assert ("#pragma unroll" in large.compile(out, block=8, arch="sm_90a").source) == unrolled


def test_facts_are_not_needed_for_addresses():
    builder = K("f", (32, 1, 1))
    out = builder.tensor("out", dt.int32, 1)
    builder.store(out, E(builder, builder.special("thread_x")) - 5, 1)
    assert "out[(int)threadIdx.x - 5] = 1;" in body_of(builder.func)


def test_two_atoms_that_one_name_does_not_tell_apart_are_refused():
    """The second would be printed as a call of the first one's instruction."""
    plain = mo.CpAsync(mo.uint128, cache="global")
    hinted = replace(plain, name="CpAsyncL2()", ptx="cp.async.cg.shared.global.L2::128B [%0], [%1], 16;")

    @mo.kernel
    def both(dst, src):
        tid, smem = mo.thread_idx().x, mo.shared_array(src.dtype, 256)
        for half, atom in enumerate((plain, hinted)):
            at = (tid + 32 * half,)
            mo.copyto(atom, mo.tile(smem, (4,), at), mo.tile(src, (4,), at))
        mo.cp_async_wait()
        dst[tid] = smem[tid]

    x = np.zeros(256, np.float32)
    with pytest.raises(UnsupportedError, match="two functions cp_async_cg_16"):
        both.compile(x, x, block=32, arch="sm_90a")
