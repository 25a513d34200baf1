"""mbarriers, clusters and register budgets: one clear sentence for what cannot be, before anything is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.cuda.compiler import nvrtc

X = mo.TensorLike(mo.float32, (256,))
KERNELS = {}


def bad(kernel):
    """Collect a kernel that must be refused; its name is that of the golden file."""
    KERNELS[kernel.__name__] = kernel
    return kernel


# --- mbarriers -------------------------------------------------------------------------------------------------------


@bad
@mo.kernel
def barriers_of_floats(x, n):
    bars = mo.shared_array(mo.float32, 4)
    mo.mbarrier_init(bars, 0, 1)


@bad
@mo.kernel
def barriers_in_global_memory(x, n):
    mo.mbarrier_wait(mo.recast(x, mo.uint64), 0, 0)


@bad
@mo.kernel
def barrier_of_a_number(x, n):
    mo.mbarrier_arrive(0, 1)


@bad
@mo.kernel
def barrier_beyond_the_array(x, n):
    bars = mo.mbarrier_array(4)
    mo.mbarrier_arrive(bars, 4)


@bad
@mo.kernel
def barrier_without_arrivals(x, n):
    bars = mo.mbarrier_array(4)
    mo.mbarrier_init(bars, 0, 0)


@bad
@mo.kernel
def parity_of_two(x, n):
    bars = mo.mbarrier_array(4)
    for stage in mo.static_range(4):
        mo.mbarrier_wait(bars, stage, stage)


@bad
@mo.kernel
def parity_of_a_float(x, n):
    bars = mo.mbarrier_array(1)
    mo.mbarrier_wait(bars, 0, x[0])


@bad
@mo.kernel
def expects_a_megabyte(x, n):
    bars = mo.mbarrier_array(1)
    mo.mbarrier_arrive_expect_tx(bars, 0, 1 << 20)


@bad
@mo.kernel
def block_outside_of_the_cluster(x, n):
    bars = mo.mbarrier_array(1)
    mo.mbarrier_arrive(bars, 0, cta=2)


@mo.kernel
def block_of_no_cluster(x, n):
    bars = mo.mbarrier_array(1)
    mo.mbarrier_arrive_expect_tx(bars, 0, 512, cta=mo.cluster_rank() ^ 1)


@bad
@mo.kernel
def dynamic_count_of_stores(x, n):
    mo.tma_store_wait(n)


# --- register budgets ------------------------------------------------------------------------------------------------


@bad
@mo.kernel
def registers_of_twenty(x, n):
    mo.warpgroup_reg_dealloc(20)


@bad
@mo.kernel
def registers_of_a_parameter(x, n):
    mo.warpgroup_reg_alloc(n)


@mo.kernel
def registers_of_three_warps(x, n):
    mo.warpgroup_reg_alloc(232)


@pytest.mark.parametrize("name", KERNELS)
def test_refused(name, refuses):
    refuses(name, lambda: KERNELS[name].trace(X, 3, block=256, cluster=(2, 1, 1)))


def test_blocks_of_no_cluster(refuses):
    refuses("block_of_no_cluster", lambda: block_of_no_cluster.trace(X, 3, block=256))


def test_budgets_are_of_warp_groups(refuses):
    refuses("registers_of_three_warps", lambda: registers_of_three_warps.trace(X, 3, block=96))


@pytest.mark.parametrize("name", ["registers_of_twenty", "registers_of_a_parameter"])
def test_budgets_have_a_code(name):
    report = mo.check(KERNELS[name])[1, 256](np.zeros(256, np.float32), 3)
    assert [finding.code for finding in report.findings] == ["F6"]


# --- architectures ---------------------------------------------------------------------------------------------------


@mo.kernel
def waits(x):
    bars = mo.mbarrier_array(1)
    mo.mbarrier_wait(bars, 0, 0)


@mo.kernel
def counts_blocks(x):
    x[mo.cluster_rank()] = 1.0


@mo.kernel
def gives_registers_back(x):
    mo.warpgroup_reg_dealloc(40)


@mo.kernel
def stores_a_run(x: mo.Static):
    mo.copyto(mo.BulkCopy(), x, mo.shared_array(x.dtype, 256))


ARCHITECTURES = {
    "arch_mbarrier_on_sm_80": (waits, "sm_80"),
    "arch_cluster_on_sm_89": (counts_blocks, "sm_89"),
    "arch_registers_on_sm_80": (gives_registers_back, "sm_80"),
    "arch_registers_on_sm_100": (gives_registers_back, "sm_100"),
    "arch_bulk_copy_on_sm_89": (stores_a_run, "sm_89"),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architecture(name, refuses, monkeypatch):
    kernel, arch = ARCHITECTURES[name]
    monkeypatch.setattr(nvrtc, "compile_cubin", None)   # refused before anything is compiled
    refuses(name, lambda: kernel.compile(X, block=128, cluster=2 if kernel is counts_blocks else 1, arch=arch))


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "sm_100a"])
def test_architectures_that_have_them(arch):
    compiled = gives_registers_back.compile(X, block=128, arch=arch)
    assert compiled.cubin[:4] == b"\x7fELF" and "C7508" not in compiled.compiled.log
