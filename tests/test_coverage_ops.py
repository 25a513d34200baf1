"""Neither back end has a hole: every op class, every kind and every atom is printed, simulated, verified and run.

The demands come from the classes themselves: each value of a ``Literal`` field, both states of a flag and of an
optional field, each kind of the tables.  A new op or kind fails here until ``ops_kernels.py`` has a kernel with it.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import itertools
import pkgutil
import re
import types
import typing
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import device_maps
import gathered_rows
import matrix_kernels
import moye as mo
import tma_kernels
import wgmma_kernels
from moye import atoms
from moye import dtypes as dt
from moye.atoms.atom import CopyOp, MmaOp
from moye.cuda.compiler import nvrtc
from moye.cuda.printing import statements
from moye.cuda.printing.printer import print_kernel
from moye.dtypes import Space
from moye.ir import effects, hopper, ops, rules
from moye.ir.nodes import Literal, Op, TileRef, Value
from moye.ir.verify import verify
from moye.sim.generate import control
from moye.sim.operations import atomics
from moye.sim.values import scalars
from ops_kernels_tiles import CASES, CP_ASYNCS
from ops_kernels_tiles import ops_kernels as table

KINDS = {
    ops.Special: ops.SPECIALS, ops.Binary: ops.BINARY, ops.Unary: ops.UNARY, ops.Reduce: scalars.REDUCTIONS,
    ops.Atomic: ("exch", "cas", *atomics._MODIFY),
}
# What the language cannot say: asked for here no more than it is found.  A line whose op occurs after all fails.
UNSAID = {
    "Gemm.order=rows": "the front end always asks for serpentine",
    "Load.order=release": "no load", "Load.order=acq_rel": "no load", "Load.order=seq_cst": "mo.load refuses it",
    "Store.order=acquire": "no store", "Store.order=acq_rel": "no store", "Store.order=seq_cst": "mo.store refuses it",
}
PAIRS = tuple((a, b) for a in table.CASTABLE for b in table.CASTABLE if a != b)


def op_classes():
    """Every concrete op class of ops.py, effects.py and hopper.py."""
    found = {c for module in (ops, effects, hopper) for c in vars(module).values()
             if inspect.isclass(c) and issubclass(c, Op) and c is not Op}
    return sorted(found, key=lambda c: c.__name__)


def demands(cls):
    """What must occur of a class, as text: ``Fence.order=seq_cst``, ``Copy.pred=None``."""
    hints, wanted = typing.get_type_hints(cls), {cls.__name__}
    for field in dataclasses.fields(cls):
        hint, name = hints[field.name], f"{cls.__name__}.{field.name}"
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) or \
            typing.get_origin(hint) is typing.Union else (hint,)
        if type(None) in options:
            wanted |= {f"{name}=None", f"{name}=some"}
        for option in options:
            if typing.get_origin(option) is typing.Literal:
                wanted |= {f"{name}={value}" for value in typing.get_args(option)}
        if hint is bool:
            wanted |= {f"{name}=True", f"{name}=False"}
        if hint is str and field.name == "kind":
            assert cls in KINDS, f"{name} is free text: add its table to KINDS"
            wanted |= {f"{name}={kind}" for kind in KINDS[cls]}
    return wanted


def more_demands():
    """Combinations that one field alone does not tell."""
    scopes, orders = typing.get_args(effects.Scope_), typing.get_args(effects.Order)
    wanted = {f"Fence {order} {scope}" for order in orders for scope in scopes}
    wanted |= {f"Unary fast {kind}" for kind in ops.MATH}
    wanted |= {f"Cast {a}->{b}" for a, b in PAIRS} | {f"Bitcast {a}->{b}" for a, b in table.BITCASTS}
    wanted |= {f"Shuffle width {1 << i}" for i in range(6)} | {"For step<0", "For dynamic", "For step dynamic"}
    wanted |= {f"For unroll {u}" for u in (None, 0, 1, 4)} | {f"CpAsyncWait {n}" for n in (None, 0, 1)}
    wanted |= {f"{name} {mask}" for name in ("SyncWarp", "Shuffle", "Vote") for mask in ("full", "part")}
    wanted |= {"Copy pred tile", "Copy pred scalar", "Assign many", "swizzle"}
    places = [(a.value, b.value) for a, b in itertools.product(Space, Space)]
    wanted |= {f"Copy {a}->{b} {size}" for a, b in places for size in (1, 2, 4, 8, 16)}
    wanted |= {f"{name} {space.value}" for name in ("Load", "Store") for space in Space}
    wanted |= {f"Atomic {kind} {space}" for kind in KINDS[ops.Atomic] for space in ("gmem", "smem")}
    wanted |= {f"{name} {space} ordered" for name in ("Load", "Store") for space in ("gmem", "smem")}
    for dtype in (*table.INTEGERS, *table.FLOATS):
        kinds = [k for k in ops.ARITHMETIC if k not in (("div", "pow") if dtype.is_integer else (
            "shl", "shr", "and", "or", "xor"))]
        work = dt.float32 if dtype.is_float and dtype.bits < 32 else dtype
        wanted |= {f"Binary {kind} {work}" for kind in (*kinds, *ops.COMPARISONS)}
    return wanted


def occurrences(func):
    """What a traced kernel has, in the words of the demands."""
    found = set()
    for op in func.body.walk():
        name = type(op).__name__
        found.add(name)
        for field in dataclasses.fields(op):
            value = getattr(op, field.name)
            if value is None or isinstance(value, (bool, str)):
                found.add(f"{name}.{field.name}={value}")
            if value is not None:
                found.add(f"{name}.{field.name}=some")
        found.update(_details(op))
        found.update("swizzle" for ref, _ in op.refs() if ref.swizzle is not None)
    return found


def _details(op):
    """The combinations of ``more_demands``."""
    match op:
        case ops.Fence():
            yield f"Fence {op.order} {op.scope}"
        case ops.Unary(fast=True):
            yield f"Unary fast {op.kind}"
        case ops.Binary():
            yield f"Binary {op.kind} {op.a.dtype}"
        case ops.Cast():
            yield f"{'Bitcast' if op.bits else 'Cast'} {op.a.dtype}->{op.result.dtype}"
        case ops.For():
            yield f"For unroll {op.unroll}"
            yield "For step dynamic" if isinstance(op.step, Value) else f"For step{'>' if op.up else '<'}0"
            yield "For static" if isinstance(op.stop, Literal) else "For dynamic"
        case ops.CpAsyncWait():
            yield f"CpAsyncWait {op.pending}"
        case ops.Assign() if len(op.pairs) > 1:
            yield "Assign many"
        case ops.Load() | ops.Store():
            space = f"{type(op).__name__} {op.ref.buffer.space.value}"
            yield from (space, f"{space} ordered") if op.order else (space,)
        case ops.Atomic():
            yield f"Atomic {op.kind} {op.ref.buffer.space.value}"
        case ops.Copy():
            size = op.width * op.dst.dtype.bits // 8
            yield f"Copy {op.src.buffer.space.value}->{op.dst.buffer.space.value} {size}"
            yield f"Copy pred {'tile' if isinstance(op.pred, TileRef) else 'scalar'}" if op.pred is not None else "Copy"
    if isinstance(op, (ops.SyncWarp, ops.Shuffle, ops.Vote)):
        yield f"{type(op).__name__} {'full' if op.mask == 0xFFFFFFFF else 'part'}"
    if isinstance(op, ops.Shuffle):
        yield f"Shuffle width {op.width}"


@cache
def traced():
    return {name: case.trace() for name, case in CASES.items()}


@cache
def occurring():
    return {name: occurrences(func) for name, func in traced().items()}


@cache
def elsewhere():
    """Tensor copies and wgmma: kernels that tests/sim/operations/test_hopper.py and tests/tensor run."""
    case = tma_kernels.CASES["float32-k-128-1"]
    source, out = case.array(lambda shape: np.zeros(shape, np.float32)), np.zeros((128, 1), np.float32, order="F")
    load = case.copy(mo.TmaLoad(), source)
    shared = mo.make_tma_copy(mo.TmaLoad(), source, case.layout, multicast=2)
    rows = gathered_rows.CASES["float32-128"]
    target, matrix, picks, places = rows.arguments(0)
    products = [wgmma_kernels.CASES[f"SM90_64x8x16_F32F16F16_{source}-128"] for source in ("SS", "RS")]
    block = tma_kernels.BLOCK
    return [
        tma_kernels.copy_kernel.trace(load, case.copy(mo.TmaStore(), source), block=block),
        tma_kernels.write_kernel.trace(case.copy(mo.TmaReduceAdd(), source), out, block=block),
        tma_kernels.stages_kernel.trace(load, out, 2, block=block),
        tma_kernels.multicast_kernel.trace(shared, out, block=block, cluster=2),
        gathered_rows.moved_kernel.trace(*rows.copies(target, matrix), picks, places, 0, rows.rows,
                                         block=gathered_rows.BLOCK),
        device_maps.gathered_kernel.trace(*device_maps.gathered_call(), block=device_maps.BLOCK),
        device_maps.clipped_kernel.trace(*device_maps.clipped_call(), block=device_maps.BLOCK),
        *(wgmma_kernels.wgmma_kernel.trace(*each.arguments(np.random.default_rng(0)), block=each.threads)
          for each in products)]


def everything():
    return set().union(*occurring().values(), *map(occurrences, elsewhere()))


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("cls", op_classes(), ids=lambda cls: cls.__name__)
def test_class(cls):
    """In the printer's table, the simulator's and the verifier's, exported, and each field's each state in a kernel."""
    assert cls in statements.PRINTERS
    assert cls in control.HANDLED
    assert cls in rules.RULES
    assert getattr(ops, cls.__name__) is cls
    missing = demands(cls) - everything() - set(UNSAID)
    assert not missing, f"no kernel in ops_kernels.py has {sorted(missing)}"


def test_tables_hold_nothing_else():
    classes = set(op_classes())
    assert set(statements.PRINTERS) == set(ops.ALL) == set(rules.RULES) == classes
    assert classes == control.HANDLED
    assert set(ops.BINARY) == set(scalars.BINARY) == set(scalars.FLOAT_BINARY)
    assert set(ops.UNARY) == set(scalars.UNARY)


@pytest.mark.slow
def test_combinations():
    missing = more_demands() - everything()
    assert not missing, f"no kernel in ops_kernels.py has {sorted(missing)}"


def test_nothing_unsaid_is_said():
    assert not set(UNSAID) & everything()
    assert set(UNSAID) <= set().union(*map(demands, op_classes()))


def test_the_gpu_test_runs_this_table():
    text = (Path(__file__).parent / "gpu" / "test_ops_gpu.py").read_text()
    assert "from ops_kernels_tiles import CASES" in text
    assert "parametrize(\"name\", CASES)" in text


def test_a_hole_is_noticed():
    """A class that nobody knows, as these tests see it."""
    @dataclasses.dataclass(slots=True, kw_only=True)
    class Teleport(Op):
        kind: str
        quiet: bool = False

    with pytest.raises(AssertionError, match="free text"):
        demands(Teleport)
    KINDS[Teleport] = ("up",)
    try:
        assert demands(Teleport) == {"Teleport", "Teleport.kind=up", "Teleport.quiet=True", "Teleport.quiet=False"}
    finally:
        del KINDS[Teleport]
    assert Teleport not in statements.PRINTERS
    assert Teleport not in control.HANDLED


# --- atoms -----------------------------------------------------------------------------------------------------------


def records():
    """Every record that a constructor of the atoms makes, over its whole domain of dtypes and caches."""
    for info in pkgutil.iter_modules(atoms.__path__):
        module = importlib.import_module(f"moye.atoms.{info.name}")
        for name, thing in vars(module).items():
            if isinstance(thing, (CopyOp, MmaOp)):
                yield name, thing
            if inspect.isfunction(thing) and thing.__module__ == module.__name__ and _takes_dtypes(thing):
                for dtype, cache_ in itertools.product(dt.ALL, ("always", "global")):
                    options = {"cache": cache_} if "cache" in inspect.signature(thing).parameters else {}
                    try:
                        yield name, thing(dtype, **options)
                    except mo.DTypeError:
                        continue


def _takes_dtypes(function):
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and first.annotation == "DType" and not function.__name__.startswith("_")


def alike(atom):
    """What distinguishes records: of a copy its width, of an MMA its types."""
    if isinstance(atom, CopyOp):
        return (atom.bits, atom.asynchronous, atom.cache)
    return (atom.shape_mnk, atom.threads, atom.a_dtype, atom.b_dtype, atom.c_dtype, atom.d_dtype, atom.ptx)


def test_atoms():
    """Each width of copy and each kind of product; MMAs of dtypes that are stored only are refused or alike."""
    used = {alike(getattr(op, "atom", None) or op.mma) for func in traced().values() for op in func.body.walk()
            if isinstance(op, (ops.Copy, ops.Gemm))}
    wanted = {alike(atom): f"{name}: {atom}" for name, atom in records()
              if isinstance(atom, CopyOp) or atom.a_dtype in (dt.int32, *table.FLOATS) or atom.ptx}
    missing = [text for key, text in wanted.items() if key not in used]
    assert not missing, f"no kernel in ops_kernels.py uses {missing}"
    assert {name for name, _ in records()} >= {"UniversalCopy", "CpAsync", "UniversalFMA", "AUTO_COPY", *mo.mma.ALL}
    assert {f"mma-{name}" for name in mo.mma.ALL} <= set(CASES)
    assert len(CP_ASYNCS) == len({alike(a) for name, a in records() if name == "CpAsync"})


def test_matrix_copies():
    """Every ldmatrix and stmatrix is in a kernel of ``matrix_kernels.py``, which tests/atoms and tests/gpu run."""
    cases = {**matrix_kernels.ROUND_TRIPS, **matrix_kernels.PRODUCTS}
    used = {copy.atom.op for case in cases.values() for copy in case.arguments if isinstance(copy, mo.TiledCopy)}
    assert {make(n, transpose=t) for make in (mo.LdMatrix, mo.StMatrix) for n in (1, 2, 4)
            for t in (False, True)} == {op for op in used if op.matrices}
    text = (Path(__file__).parent / "gpu" / "test_matrix_copies_gpu.py").read_text()
    assert "CASES = {**ROUND_TRIPS, **PRODUCTS}" in text
    assert "parametrize(\"name\", CASES)" in text


# --- the kernels -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_simulated(name):
    """Clean in the checking simulator, and equal to NumPy; asynchronous copies at both of their legal times."""
    case = CASES[name]
    verify(traced()[name])
    for n, earliest in itertools.product(case.sizes, (False, True) if name.startswith("cp-async") else (False,)):
        arguments = case.arguments(n)
        if case.cluster == (1, 1, 1):
            report = mo.check(case.kernel, earliest=earliest)[case.grid(n), case.block](*arguments)
            found = {finding.code for finding in report.findings} - ({"A11"} if case.lossy else set())
            assert not found and not report.unsupported, str(report)
        else:
            case.launch(arguments, n)                   # checked too: a finding is raised
        table.compare(case, arguments, case.tolerance, n)


def test_unchecked_runs_are_the_same(monkeypatch):
    """Without checks other code is generated: the same results."""
    monkeypatch.setenv("MOYE_CHECK", "0")
    for name in ("binary-int32", "uniform-int64", "math-float32", "atomic-float32", "copy-float16-4", "control",
                 "votes", "edge-shift-int32", "edge-cast-float64", "masked-swizzled-float64", "barriers",
                 "gemm-UniversalFMA(float32)-staged", "cp-async-global-16"):
        case = CASES[name]
        arguments = case.arguments(case.sizes[-1])
        case.launch(arguments, case.sizes[-1])
        table.compare(case, arguments, case.tolerance, case.sizes[-1])


TOGETHER = 16
"""Kernels in one source: half of the time of a small one is what each compile begins with."""


@pytest.mark.slow
@pytest.mark.parametrize("names", [[*CASES][i:i + TOGETHER] for i in range(0, len(CASES), TOGETHER)],
                         ids=lambda names: names[0])
def test_compiled(names):
    """Printed, and accepted by NVRTC, each in a namespace of its own and with its number in its name."""
    sources = {}
    for i, name in enumerate(names):
        printed = print_kernel(traced()[name])
        source, count = re.subn(rf"\b{printed.name}\(", f"k{i}_{printed.name}(", printed.source)
        assert count == 1, f"{name}: the kernel's name is there {count} times"
        sources[f"k{i}_{printed.name}"] = f"namespace n{i} {{ // {name}\n{source}\n}}"
    compiled = nvrtc.compile_cubin("\n".join(sources.values()), "together", "sm_90a")
    assert compiled.resources.keys() == sources.keys()
    spilling = [name for name, of in compiled.resources.items() if of.spill_stores or of.spill_loads]
    assert not spilling, f"{spilling} of {names} spill"
    assert compiled.cubin.startswith(b"\x7fELF")
