"""Golden CUDA of every kernel of the examples, and what NVRTC makes of it; golden IR of two of them.

``UPDATE_GOLDEN=1 pytest tests/cuda/printing/test_golden_kernels.py`` writes the files anew; read the difference before
you keep it.
"""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import moye as mo
from moye.cuda.compiler import nvrtc
from moye.cuda.compiler.sass import parse_sass
from moye.cuda.printing.printer import print_kernel
from moye.ir.text import to_text

EXAMPLES = Path(__file__).parents[3] / "examples"
GOLDEN = Path(__file__).parents[2] / "golden" / "kernels"
ARCHES = ("sm_80", "sm_90a")


def columns(*shape, dtype=mo.float32):
    return mo.TensorLike(dtype, shape)


A, B, C = columns(256, 64), columns(384, 64), columns(256, 384)
ROWS_A, ROWS_B = mo.TensorLike(mo.float32, (256, 64), (64, 1)), mo.TensorLike(mo.float32, (384, 64), (64, 1))
HALF_A, HALF_B = mo.TensorLike(mo.float16, (256, 64), (64, 1)), mo.TensorLike(mo.float16, (384, 64), (64, 1))
HALF_C = mo.TensorLike(mo.float16, (256, 384), (384, 1))
BRAIN_A, BRAIN_B, BRAIN_C = (mo.TensorLike(mo.bfloat16, x.shape, x.strides) for x in (HALF_A, HALF_B, HALF_C))
ROWS_C = mo.TensorLike(mo.float32, (256, 384), (384, 1))
LONG_ROWS = mo.TensorLike(mo.float32, (8, 16384), (16384, 1))
X, VECTOR, ONE = columns(256, 512), columns(1 << 14), columns(1)


@dataclass(frozen=True)
class Example:
    """A host function of an example, its kernel, and the arguments without a device."""

    stem: str
    host: str
    kernel: str
    arguments: tuple
    arches: tuple = ARCHES


KERNELS = {
    "copy": Example("01_copy", "copy", "copy_kernel", (X, X)),
    "staged_copy": Example("01_copy", "staged_copy", "staged_copy_kernel", (X, X)),
    "transpose": Example("02_transpose", "transpose", "transpose_kernel", (columns(512, 256), X)),
    "tiled": Example("03_matmul_tiled", "matmul", "matmul_kernel", (A, B, C)),
    "async_1x1": Example("04_matmul_async", "matmul", "matmul_kernel", (A, B, C, (1, 1))),
    "async_4x1": Example("04_matmul_async", "matmul", "matmul_kernel", (A, B, C, (4, 1))),
    "vectorized": Example("05_matmul_vectorized", "matmul", "matmul_kernel", (A, B, C)),
    "overlapped_16x16_3": Example("06_matmul_overlapped", "matmul", "matmul_kernel", (A, B, C, (16, 16), False)),
    "overlapped_16x16_4": Example("06_matmul_overlapped", "matmul", "matmul_kernel", (A, B, C, (16, 16), True)),
    "overlapped_32x8_3": Example("06_matmul_overlapped", "matmul", "matmul_kernel", (A, B, C, (32, 8), False)),
    "overlapped_32x8_4": Example("06_matmul_overlapped", "matmul", "matmul_kernel", (A, B, C, (32, 8), True)),
    "sum": Example("07_reductions", "total_of", "sum_kernel", (VECTOR, ONE)),
    "scan": Example("07_reductions", "scan", "scan_kernel", (VECTOR, VECTOR)),
    "count": Example("07_reductions", "count", "count_kernel", (VECTOR, 0.5, columns(1, dtype=mo.int32),
                                                                 columns(1, dtype=mo.int32))),
    "gelu": Example("08_elementwise", "gelu", "gelu_kernel", (X, X, 1.5)),
    "in_place": Example("08_elementwise", "in_place", "in_place_kernel", (X, columns(256, 1))),
    "double_buffered": Example("09_matmul_double_buffered", "matmul", "matmul_kernel", (A, B, C)),
    "tensor_core": Example("10_matmul_tensor_core", "matmul", "matmul_kernel", (A, ROWS_B, C)),
    "ldmatrix_k": Example("11_matmul_ldmatrix", "matmul", "matmul_kernel", (ROWS_A, ROWS_B, C, "k")),
    "ldmatrix_m": Example("11_matmul_ldmatrix", "matmul", "matmul_kernel", (A, ROWS_B, C, "m")),
    "tensor_core_double_buffered": Example("12_matmul_tensor_core_double_buffered", "matmul", "matmul_kernel",
                                           (A, ROWS_B, C)),
    "pipelined": Example("13_matmul_pipelined", "matmul", "matmul_kernel", (HALF_A, HALF_B, ROWS_C)),
    "tma_copy": Example("14_tma_copy", "copy", "copy_kernel", (ROWS_A, ROWS_A), ("sm_90a",)),
    "wgmma": Example("15_matmul_wgmma", "matmul", "matmul_kernel", (HALF_A, HALF_B, ROWS_C), ("sm_90a",)),
    "cluster_softmax": Example("16_cluster_reduction", "softmax", "softmax_kernel", (LONG_ROWS, LONG_ROWS),
                               ("sm_90a",)),
    "warp_specialized": Example("17_matmul_warp_specialized", "matmul", "matmul_kernel", (HALF_A, HALF_B, HALF_C),
                                ("sm_90a",)),
    "persistent": Example("18_matmul_persistent", "matmul", "matmul_kernel", (BRAIN_A, BRAIN_B, BRAIN_C), ("sm_90a",)),
}
WITH_IR = ("transpose", "double_buffered")


class Tracer:
    """Stands in for a kernel in its host function: a launch gives the IR."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, config):
        _, block = config
        return lambda *args: self.kernel.trace(*args, block=block)

    def launch(self, *args, grid, block, cluster):
        return self.kernel.trace(*args, block=block, cluster=cluster)


@cache
def load(stem):
    spec = importlib.util.spec_from_file_location(f"golden_{stem}", EXAMPLES / f"{stem}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def traced(name):
    example = KERNELS[name]
    module = load(example.stem)
    return getattr(module, example.host)(*example.arguments, kernel=Tracer(getattr(module, example.kernel)))


def compare(path, text):
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"no {path.name}: UPDATE_GOLDEN=1 writes it"
    assert text == path.read_text(), f"{path.name} differs: UPDATE_GOLDEN=1 writes it anew"


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_golden_cuda(name):
    source = print_kernel(traced(name)).source
    assert str(EXAMPLES.parent) not in source           # the same on every machine
    compare(GOLDEN / f"{name}.cu", source)


@pytest.mark.parametrize("name", WITH_IR)
def test_golden_ir(name):
    compare(GOLDEN / f"{name}.ir", to_text(traced(name)).rstrip() + "\n")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arch"), [(name, arch) for name in KERNELS for arch in KERNELS[name].arches])
def test_compiled(name, arch):
    """Registers hold everything: no spills, no local memory."""
    printed = print_kernel(traced(name))
    assert "printf" not in printed.source
    compiled = nvrtc.compile_cubin(printed.source, printed.name, arch)
    assert (compiled.spill_stores, compiled.spill_loads, compiled.stack_frame) == (0, 0, 0)
    assert compiled.registers <= 65536 // traced(name).threads


def test_pairs_are_converted_together():
    """One instruction for two elements of C, none that takes words apart."""
    printed = print_kernel(traced("warp_specialized"))
    assert "part[i] = to_f16x2(tCrC[2 * i], tCrC[2 * i + 1]);" in printed.source
    names = [i.name for i in parse_sass(nvrtc.compile_cubin(printed.source, printed.name, "sm_90a").sass)]
    assert sum(name.startswith("F2FP") for name in names) == 32


def test_descriptors_are_made_of_named_constants():
    source = print_kernel(traced("warp_specialized")).source
    assert "constexpr unsigned long long wgmma_sw128_16_1024 = 1ull << 62 | 1024ull / 16 << 32 | 16ull / 16 << 16;" \
        in source
    assert not re.search(r"0x[0-9a-f]{9,}", source)


@pytest.mark.parametrize("name", KERNELS)
def test_names_are_no_numbers(name):
    """What the user gave no name is called after what it is, or what a scheduler or pipeline computes it for."""
    assert not re.findall(r"const \w+ t\d+ = .*", print_kernel(traced(name)).source)


def test_every_kernel_of_the_examples_is_here():
    found = {(path.stem, name) for path in EXAMPLES.glob("*.py") for name, thing in vars(load(path.stem)).items()
             if type(thing).__name__ == "Kernel"}
    assert found == {(example.stem, example.kernel) for example in KERNELS.values()}


def test_no_golden_file_is_left_over():
    assert {path.name for path in GOLDEN.iterdir()} == {f"{name}.cu" for name in KERNELS} | {f"{n}.ir" for n in WITH_IR}


def test_traces_repeat():
    """The text of a fresh trace is the same: no ids, no addresses, no order of sets."""
    first = to_text(traced("double_buffered"))
    traced.cache_clear()
    load.cache_clear()
    assert to_text(traced("double_buffered")) == first
