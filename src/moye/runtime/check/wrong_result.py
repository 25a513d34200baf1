"""The verdict "wrong result": which element is wrong, who stored it, from which register, from which k-step on.

In: a launch with a reference, before it runs.  Out: ``Expectation``; after the launch, ``wrong`` gives findings V1.

    wanted = expectation(lambda A, B: A @ B.T, None, spec, call, values)
    simulate.run(spec, call, grid, check=True, collect=True, probe=wanted.owners); wanted.wrong(grid, None)

The block that stored the element runs once more and is watched; what it writes then is undone.  Steps of k are in
ksteps.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moye.errors import Loc, UnsupportedError
from moye.runtime import simulate
from moye.runtime.arguments import Call
from moye.runtime.check.ksteps import Element, Steps, k_step
from moye.runtime.check.reference import Array, Operand, Reference, Wrong, compare, tolerance
from moye.runtime.compile import Dim3, Specialised
from moye.sim.findings.finding import Finding
from moye.sim.operations.probe import Owners
from moye.sim.operations.provenance import Accumulators, Origin, Target, Trace


@dataclass(slots=True)
class Expectation:
    """What the arrays that a launch writes should hold."""

    reference: Reference
    expected: dict[str, Array]
    spec: Specialised
    call: Call
    rtol: float | None
    owners: Owners = field(default_factory=Owners)

    def elsewhere(self) -> list[Finding]:
        """The same of another schedule than the first, without who stored it: the first may be right."""
        found = []
        for operand in self.reference.written:
            if operand.name in self.expected and 0 not in operand.info.shape:
                rtol = tolerance(self.spec.func, operand) if self.rtol is None else self.rtol
                wrong = compare(operand.name, operand.elements(), self.expected[operand.name], rtol, None)
                if wrong is not None:
                    found.append(Finding("V1", str(wrong), (), None, (), wrong.name, wrong.first, None))
        return found

    def wrong(self, grid: Dim3, sample: tuple[int, ...] | None, *, earliest: bool = False) -> list[Finding]:
        """A finding for each array that is wrong; for a sample of blocks, only what they stored is looked at."""
        findings = []
        for operand in self.reference.written:
            if operand.name not in self.expected or 0 in operand.info.shape:
                continue
            owner = self.owners.of(operand.name, len(operand.flat))
            rtol = tolerance(self.spec.func, operand) if self.rtol is None else self.rtol
            wrong = compare(operand.name, operand.elements(), self.expected[operand.name], rtol,
                            None if sample is None else operand.elements(owner) != 0)
            if wrong is not None:
                findings.append(self._finding(operand, wrong, owner, rtol, grid, earliest))
        return findings

    def _finding(self, operand: Operand, wrong: Wrong, owner: Array, rtol: float, grid: Dim3,
                 earliest: bool) -> Finding:
        element = operand.offset(wrong.first)
        block = int(owner[element]) - 1
        if block < 0:
            return _finding(wrong, "no thread stored it", (), None, ())
        run = _Rerun(self, grid, block, earliest)
        control = _right(operand, wrong, owner)
        trace = run.traced([(operand.name, e) for e in (element, control) if e is not None])
        x, y = block % grid[0], block // grid[0] % grid[1]
        where = (x, y, block // (grid[0] * grid[1]))
        origin = None if trace is None else trace.origins.get((operand.name, element))
        if trace is None or origin is None:
            return _finding(wrong, f"block {where} stored it, and did not when it ran alone", (), where, ())
        told = [_stored(origin, where)]
        if self._has_products():
            told.append(self._k_step(run, trace, operand, (element, control), rtol))
        locs = (origin.store.loc, *((origin.gemm.loc,) if origin.gemm is not None else ()))
        return _finding(wrong, "; ".join(told), locs, where, (origin.thread,))

    def _has_products(self) -> bool:
        return any(type(op).__name__ == "Gemm" for op in self.spec.func.body.walk())

    def _k_step(self, run: _Rerun, trace: Trace, operand: Operand, elements: tuple[int, int | None],
                rtol: float) -> str:
        """From which k-step on the accumulator is wrong, or why that is not known."""
        origins = [None if e is None else trace.origins.get((operand.name, e)) for e in elements]
        keys = [o.accumulator for o in origins if o is not None and o.accumulator is not None]
        first = origins[0]
        if first is None or first.accumulator is None:
            return "its k-step is not known: no matrix product was found that made it"
        if not first.plain:
            return "its k-step is not known: more than copies and conversions lie between the matrix product and the " \
                   "store"
        values = run.accumulators(keys)
        places = [(o, e) for o, e in zip(origins, elements, strict=True) if o is not None and o.plain and e is not None
                  and o.accumulator in values]
        shown = [Element(_coordinate(operand, e), values[o.accumulator]) for o, e in places
                 if o.accumulator is not None]
        steps = Steps.of(trace, self.reference, len(shown[0].values) - 1)
        if isinstance(steps, str):
            return f"its k-step is not known: {steps}"
        scale = 0.0 if operand.info.dtype.is_integer else 4 * rtol
        return k_step(steps, operand.name, shown[0], shown[1] if len(shown) > 1 else None,
                      self.expected[operand.name], scale)


def expectation(function: Callable[..., Any], rtol: float | None, spec: Specialised, call: Call,
                values: Mapping[str, Any]) -> Expectation:
    """Ask the reference for the result of a launch that has not run yet; ``values`` are its arguments by name."""
    reference = Reference(function, spec, call, values)
    return Expectation(reference, reference(), spec, call, rtol)


class _Rerun:
    """One block of the launch run once more, from the memory that the launch began with."""

    def __init__(self, wanted: Expectation, grid: Dim3, block: int, earliest: bool) -> None:
        self.wanted, self.grid, self.block, self.earliest = wanted, grid, block, earliest

    def traced(self, targets: list[Target]) -> Trace | None:
        trace = Trace(targets)
        try:
            self._run(trace)
        except UnsupportedError:
            return None
        return trace

    def accumulators(self, keys: list[tuple[int, int, int]]) -> dict[tuple[int, int, int], list[Any]]:
        probe = Accumulators(keys)
        self._run(probe)
        return {key: found for key, found in probe.values.items() if found and found[0] is not None}

    def _run(self, probe: Any) -> None:
        with self._rewound():
            simulate.probed(self.wanted.spec, self.wanted.call, self.grid, self.block, probe, earliest=self.earliest)

    @contextmanager
    def _rewound(self) -> Iterator[None]:
        reference = self.wanted.reference
        after = [(operand.flat, operand.flat.copy()) for operand in reference.written]
        try:
            for operand in reference.written:
                operand.flat[...] = reference.before[operand.name]
            yield
        finally:
            for flat, values in after:
                flat[...] = values


def _right(operand: Operand, wrong: Wrong, owner: Array) -> int | None:
    """A right element that the same block stored: what is said of the wrong one must not hold for it.

    None if most are wrong, because the others may be right by chance.
    """
    mine = operand.elements(owner) == owner[operand.offset(wrong.first)]
    if 2 * np.count_nonzero(mine & wrong.where) > np.count_nonzero(mine):
        return None
    places = np.nonzero((mine & ~wrong.where).T)
    return operand.offset([int(axis[0]) for axis in reversed(places)]) if len(places[0]) else None


def _coordinate(operand: Operand, element: int) -> tuple[int, ...]:
    """The coordinate of an element of memory."""
    order = sorted(range(len(operand.info.shape)), key=lambda mode: operand.info.strides[mode], reverse=True)
    coordinate = [0] * len(order)
    for mode in order:
        if operand.info.strides[mode] and operand.info.shape[mode] > 1:
            coordinate[mode], element = divmod(element, operand.info.strides[mode])
    return tuple(coordinate)


def _stored(origin: Origin, block: tuple[int, int, int]) -> str:
    told = f"thread {origin.thread} of block {block} stored it"
    if origin.register is None:
        return told
    buffer, coordinate = origin.register
    name = f"{buffer.name}({', '.join(map(str, coordinate))})" if coordinate is not None else buffer.name
    return f"{told} from register {name}" + (f" of thread {origin.holder}" if origin.holder != origin.thread else "")


def _finding(wrong: Wrong, told: str, locs: tuple[Loc, ...], block: tuple[int, int, int] | None,
             threads: tuple[int, ...]) -> Finding:
    return Finding("V1", f"{wrong}; {told}", locs, block, threads, wrong.name, wrong.first, None)
