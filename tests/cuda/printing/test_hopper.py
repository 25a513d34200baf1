"""The printed text of mbarriers, clusters and register budgets, and the instructions that ptxas makes of them.

``UPDATE_GOLDEN=1 pytest tests/cuda/printing/test_hopper.py`` rewrites the golden files.
"""

from __future__ import annotations

import linecache
import os
import re
from functools import cache
from pathlib import Path

import pytest

import moye as mo
import ops_kernels_hopper
import ops_kernels_peers  # noqa: F401 -- its cases
from moye.cuda.printing.printer import print_kernel
from ops_kernels import CASES

GOLDEN = Path(__file__).parents[2] / "golden"
RING = (mo.TensorLike(mo.int32, (128, 2)), mo.TensorLike(mo.int32, (128, 8, 2)), ops_kernels_hopper.STAGES)
X = mo.TensorLike(mo.int32, (256,))


@cache
def compiled(name):
    if name == "hopper-ring":
        return ops_kernels_hopper.ring_kernel.compile(*RING, block=256, arch="sm_90a")
    case = CASES[name]
    return case.kernel.compile(*case.arguments(case.sizes[0]), block=case.block, cluster=case.cluster, arch="sm_90a")


def instructions(sass):
    """The names of the instructions, in order."""
    return re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ +)?([A-Z][\w.]*)", sass)


@pytest.mark.parametrize("name", ["hopper-ring", "hopper-cluster-2x2x2", "hopper-alone", "peer-sum-4",
                                  "peer-elements-swizzled-float16"])
def test_golden(name):
    source = compiled(name).source
    path = GOLDEN / f"{name.replace('-', '_')}.cu"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(source)
    assert source == path.read_text(), f"{path} differs; UPDATE_GOLDEN=1 rewrites it"


def test_register_budgets_are_obeyed():
    """ptxas ignores setmaxnreg (C7508) where it does not know how many registers a thread begins with."""
    program = compiled("hopper-ring")
    assert "__launch_bounds__(256, 1)" in program.source
    assert "C7508" not in program.compiled.log
    found = instructions(program.sass)
    assert found.count("USETMAXREG.DEALLOC.CTAPOOL") == found.count("USETMAXREG.TRY_ALLOC.CTAPOOL") == 1


def test_a_ring_of_mbarriers():
    """Barriers live in uniform or 32-bit addresses; a wait tries once and loops elsewhere; no fence of memory."""
    found = instructions(compiled("hopper-ring").sass)
    assert found.count("SYNCS.EXCH.64") == 2 * ops_kernels_hopper.STAGES
    assert found.count("SYNCS.PHASECHK.TRANS64.TRYWAIT") == 4
    assert found.count("SYNCS.ARRIVE.TRANS64.A1T0") == 2
    assert not [name for name in found if name.startswith(("MEMBAR", "ERRBAR", "LDL", "STL"))]


def test_relaxed_clusters_fence_nothing():
    """Neither a relaxed cluster barrier nor an arrival at another block's barrier waits for memory of the GPU."""
    found = instructions(compiled("hopper-cluster-2x2x2").sass)
    assert found.count("UCGABAR_ARV") == found.count("UCGABAR_WAIT") == 2
    assert found.count("SYNCS.ARRIVE.TRANS64.RED.A1T0") == 1
    assert not [name for name in found if name.startswith("MEMBAR")]


def test_a_releasing_cluster_barrier_does():
    assert "MEMBAR.ALL.GPU" in instructions(compiled("hopper-cluster-exchange").sass)


def test_one_function_per_instruction():
    """Every asm of this family stands in a function of its own and is called wherever it is needed."""
    for name in ("hopper-ring", "hopper-cluster-2x2x2", "hopper-alone", "hopper-expected-bytes", "peer-copy-int16-8",
                 "peer-sum-2", "peer-elements-plain-float64"):
        source = compiled(name).source
        head, _, body = source.partition('extern "C"')
        assert "asm" not in body
        instruction = re.findall(r'asm(?: volatile)?\("([^"]*)"', head)
        assert len(instruction) == len(set(instruction)) > 1


@pytest.mark.parametrize(("dtype", "instruction"), [
    ("uint8", "b8"), ("int16", "b16"), ("float16", "b16"), ("float8_e4m3fn", "b8"), ("int32", "b32"),
    ("float32", "b32"), ("int64", "b64"), ("float64", "b64")])
def test_elements_of_other_blocks(dtype, instruction):
    program = compiled(f"peer-elements-plain-{dtype}")
    for kind in ("ld", "st"):
        assert re.findall(rf"{kind}\.shared::cluster\S* ", program.source) == [f"{kind}.shared::cluster.{instruction} "]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "instruction"), [
    ("float32-16", "v4.f32"), ("float32-8", "v2.f32"), ("float64-16", "v2.f64"), ("int32-16", "v4.b32"),
    ("int64-16", "v2.b64"), ("uint8-16", "v4.b32"), ("float16-8", "v2.b32"), ("bfloat16-4", "b32"),
    ("uint8-2", "b16")])
def test_vectors_of_other_blocks(name, instruction):
    """The width of the atom is that of every access, and nothing goes through local memory."""
    program = compiled(f"peer-copy-{name}")
    for kind in ("ld", "st"):
        assert set(re.findall(rf"{kind}\.shared::cluster\S* ", program.source)) == \
            {f"{kind}.shared::cluster.{instruction} "}
    assert len(re.findall(r"const unsigned \w+ = map_shared_rank\(", program.source)) == 4
    assert program.spills == 0 and not [n for n in instructions(program.sass) if n.startswith(("LDL", "STL"))]


def test_float4_sums_over_a_cluster():
    """Sixteen bytes an access from the other blocks, each mapped once, and registers stay registers."""
    program = compiled("peer-sum-4")
    found = instructions(program.sass)
    assert program.spills == 0 and not [n for n in found if n.startswith(("LDL", "STL"))]
    assert len(re.findall(r"ld\.shared::cluster\.v4\.f32 \{%f", program.ptx)) == 4 * 2
    assert len(re.findall(r"\tmapa\.shared::cluster\.u32", program.ptx)) == 4


def test_loads_from_other_blocks_stay_before_the_barrier():
    """What was loaded before a barrier of the cluster is not printed behind it, nor behind a store to that memory."""
    @mo.kernel
    def reads(x):
        tid = mo.thread_idx().x
        kept = mo.shared_array(mo.int32, 64)
        there = mo.map_shared_rank(kept, 1)
        before = there[tid]
        kept[tid] = 3
        middle = there[tid]
        mo.cluster_sync()
        x[tid] = before + middle

    body = print_kernel(reads.trace(X, block=64, cluster=2)).source.partition('extern "C"')[2]
    lines = [line.strip() for line in body.splitlines() if "//" not in line]
    order = [found[0] for line in lines if (found := re.search(r"ld_cluster_int|kept\[tx\]|cluster_arrive\w+", line))]
    assert order == ["ld_cluster_int", "kept[tx]", "ld_cluster_int", "cluster_arrive_release"]


def test_values_from_memory_are_read_before_an_arrival():
    """What was loaded before an arrival is not printed behind it, where others may overwrite it."""
    @mo.kernel
    def reads(x):
        tid = mo.thread_idx().x
        bars, kept = mo.mbarrier_array(1), mo.shared_array(mo.int32, 64)
        before = kept[tid]
        mo.mbarrier_arrive(bars, 0)
        middle = kept[tid]
        mo.mbarrier_wait(bars, 0, 0)
        mo.cluster_arrive()
        x[tid] = before + middle

    body = print_kernel(reads.trace(X, block=64)).source.partition('extern "C"')[2]
    lines = [line.strip() for line in body.splitlines() if "//" not in line]
    order = [found[0] for line in lines if (found := re.search(r"kept\[tx\]|mbarrier_\w+|cluster_\w+", line))]
    assert order == ["kept[tx]", "mbarrier_arrive", "kept[tx]", "mbarrier_wait", "cluster_arrive_release"]


@pytest.mark.slow
def test_what_an_earlier_launch_writes_is_no_constant():
    """After griddepcontrol.wait arguments may differ from what they were before it, those only read among them."""
    @mo.kernel
    def copies(out, x, waits: mo.Constexpr):
        tid = mo.thread_idx().x
        if waits:
            mo.griddepcontrol_wait()
        mo.griddepcontrol_launch_dependents()
        out[tid] = x[tid]

    found = {waits: copies.compile(X, X, waits, block=64, arch="sm_90a") for waits in (False, True)}
    assert {waits: "__restrict__" in program.source for waits, program in found.items()} == {False: True, True: False}
    order = [name for name in instructions(found[True].sass) if name.startswith(("ACQBULK", "LDG", "STG"))]
    assert order == ["ACQBULK", "LDG.E", "STG.E"]
    assert "LDG.E.CONSTANT" in instructions(found[False].sass)


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_nothing_waits_where_launches_do_not_overlap(arch):
    @mo.kernel
    def follows(out, x):
        mo.griddepcontrol_launch_dependents()
        mo.griddepcontrol_wait()
        out[mo.thread_idx().x] = x[mo.thread_idx().x]

    program = follows.compile(X, X, block=64, arch=arch)
    assert "griddepcontrol.wait: launches do not overlap before sm_90" in program.source
    assert "asm" not in program.source and "griddepcontrol" not in program.ptx


def test_elections_stay_where_all_lanes_are():
    """The right side of ``and`` may be skipped: an election before it is not."""
    @mo.kernel
    def elects(x, n):
        leader = mo.elect()
        if n > 3 and leader:
            x[0] = 1

    source = print_kernel(elects.trace(X, 3, block=64)).source
    assert re.search(r"const bool leader = elect\(\);\n.*\n *if \(n > 3 && leader\) \{", source)


def test_printed_functions_keep_their_names():
    """Whatever the user calls his variables: the kernel compiles."""
    printed = {name for case in ("hopper-ring", "hopper-cluster-2x2x2", "hopper-alone", "hopper-cluster-exchange",
                                 "hopper-expected-bytes")
               for name in re.findall(r"__forceinline__ \w+ (\w+)\(", compiled(case).source)}
    assert {"elect", "mbarrier_wait", "cluster_ctarank", "setmaxnreg_dec_40", "bulk_wait_group_0"} <= printed
    for name in printed:
        space = {"mo": mo}
        exec(compile_named(name), space)
        body = print_kernel(space["named"].trace(X, 1, block=64)).source
        assert f"int {name}_ = " in body, body


def compile_named(name):
    """A kernel with a variable of this name; moye reads kernels from their source."""
    text = (f"@mo.kernel\ndef named(x, n):\n    {name} = n\n    while {name} < 9:\n        {name} += 1\n"
            f"    x[0] = {name}\n")
    linecache.cache[f"{name}.py"] = (len(text), None, text.splitlines(True), f"{name}.py")
    return compile(text, f"{name}.py", "exec")
