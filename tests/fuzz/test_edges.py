"""Accesses at the edges of a mode: an index that is proven, checked or outside, under conditions that say so or not.

Each case draws how an index is made (loaded, clamped, a remainder: its facts may end at the extent or one past it), the
condition around the access (the bound itself, mirrored, negated, one too large, behind ``and`` and ``or``, in an else),
who comes there, and how one element or a tile is accessed.  What lies beside the mode is memory of the same array, so
that only the mode's own check can tell.  The model is a line of Python for each thread: B1 (B2 in shared memory) is
reported if and only if some thread that comes there leaves the mode, and a clean launch has the right result.

    python tests/fuzz/test_edges.py 1000 10000                  # seed and number of cases, by hand
"""

from __future__ import annotations

import linecache
import random
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import moye as mo

THREADS, CASES, SEED = 32, 70, 3
COLUMNS = THREADS + 4           # a thread has column tid + 2: to both sides there is memory

# {e} is the extent, {o} one more; the lambdas are the same in Python.
INDICES = {
    "a[tid]": lambda a, t, e: a, "a[tid] % {e}": lambda a, t, e: a % e, "a[tid] % {o}": lambda a, t, e: a % (e + 1),
    "mo.min(mo.max(a[tid], 0), {e} - 1)": lambda a, t, e: min(max(a, 0), e - 1),
    "mo.min(mo.max(a[tid], 0), {e})": lambda a, t, e: min(max(a, 0), e),
    "mo.min(mo.max(a[tid], -1), {e} - 1)": lambda a, t, e: min(max(a, -1), e - 1),
    "mo.abs(a[tid]) % {e} - 1": lambda a, t, e: abs(a) % e - 1,
    "tid % {o}": lambda a, t, e: t % (e + 1), "tid // 4": lambda a, t, e: t // 4,
    "tid % {e} + 1": lambda a, t, e: t % e + 1,
}
CONDITIONS = {
    "i < {e}": lambda i, b, e: i < e, "{e} > i": lambda i, b, e: e > i, "i < {o}": lambda i, b, e: i < e + 1,
    "i <= {e}": lambda i, b, e: i <= e, "i <= {e} - 1": lambda i, b, e: i <= e - 1, "i >= {e}": lambda i, b, e: i >= e,
    "not (i >= {e})": lambda i, b, e: not i >= e, "not (i < {e})": lambda i, b, e: not i < e,
    "not (i > {e})": lambda i, b, e: not i > e, "i < {e} and b[tid]": lambda i, b, e: i < e and b,
    "i < {e} or b[tid]": lambda i, b, e: i < e or b, "not (i >= {e} or b[tid])": lambda i, b, e: not (i >= e or b),
    "not (i >= {e} and b[tid])": lambda i, b, e: not (i >= e and b),
    "not (i < {e} or b[tid])": lambda i, b, e: not (i < e or b),
    "0 <= i < {e}": lambda i, b, e: 0 <= i < e, "i != {e}": lambda i, b, e: i != e, "b[tid]": lambda i, b, e: b,
    "i >= 0": lambda i, b, e: i >= 0, "0 <= i and i < {o}": lambda i, b, e: 0 <= i <= e,
}
ACCESSES = {                    # one element, or a tile of two; w is what a thread writes
    "load": ("w = v[i, tid + 2]", 1), "view": ("w = v[:, tid + 2][i]", 1), "column": ("w = v[i, :][tid + 2]", 1),
    "store": ("v[i, tid + 2] = 7", 1), "tile": ("w = mo.tile(v, (2, 1), (i, tid + 2))[1, 0]", 2),
    "copy": ("mo.copyto(f, mo.tile(v, (2, 1), (i, tid + 2))[:, 0])\nw = f[1]", 2),
    "pred": ("mo.copyto(f, mo.tile(v, (2, 1), (i, tid + 2))[:, 0], pred={cond})\nw = f[1]", 2),
    "put": ("mo.copyto(mo.tile(v, (2, 1), (i, tid + 2))[:, 0], f, pred={cond})", 2),
}


@dataclass
class Case:
    """One access; ``taken`` is whether it lies in the condition's own arm, ``under`` a mask around all of it."""

    space: str
    static: bool
    extent: int                 # of the mode, in elements or tiles
    index: str
    condition: str
    taken: bool
    under: bool
    access: str
    a: list[int]
    b: list[bool]
    d: list[bool]

    def comes(self, thread: int) -> int | None:
        """The index that a thread accesses, None where it accesses nothing."""
        index = INDICES[self.index](self.a[thread], thread, self.extent)
        held = not self.condition or bool(CONDITIONS[self.condition](index, self.b[thread], self.extent)) == self.taken
        return index if held and (self.d[thread] or not self.under) else None


def draw(rng: random.Random) -> Case:
    extent, access = rng.choice((3, 4, 7, 8)), rng.choice(list(ACCESSES))
    condition = rng.choice([*CONDITIONS, ""])
    outside = rng.choice((0.0, 0.1, 0.1, 1.0))
    a = [rng.choice((extent, extent, -1, extent + 1)) if rng.random() < outside else rng.randrange(extent)
         for _ in range(THREADS)]
    often = rng.choice((0.0, 0.3, 0.9))
    b, d = ([rng.random() < p for _ in range(THREADS)] for p in (0.5, often))
    return Case(rng.choice(("global", "global", "shared")), rng.random() < 0.5, extent, rng.choice(list(INDICES)),
                condition, rng.random() < 0.7 or access in ("pred", "put"), rng.random() < 0.5, access, a, b, d)


def text(case: Case) -> str:
    """The kernel's source."""
    line, width = ACCESSES[case.access]
    extent = str(case.extent) if case.static or case.space == "shared" else f"(mo.size(v, 0) // {width})"
    one = f"({extent} + 1)" if not extent.isdigit() else str(case.extent + 1)
    index, cond = (form.format(e=extent, o=one) for form in (case.index, case.condition))
    predicated = case.access in ("pred", "put")
    lines = ["@mo.kernel", f"def edge(out, m{': mo.Static' if case.static else ''}, a, b, d):",
             "    tid = mo.thread_idx().x", "    v = m"]
    lines += [] if case.static else [f"    mo.assume(mo.size(m, 0) % {width} == 0)"]
    if case.space == "shared":
        lines += [f"    v = mo.shared_array(mo.int32, mo.make_layout(({width * case.extent}, {COLUMNS})))",
                  f"    for j in range({COLUMNS}):", f"        if tid < {width * case.extent}:",
                  "            v[tid, j] = m[tid, j]", "    mo.sync_threads()"]
    lines += ["    f = mo.fragment((2,), mo.int32)", "    f.fill(7)", f"    i = {index}", "    w = mo.int32(-1)"]
    depth = 1
    for head in ["if d[tid]:"] * case.under + ([f"if {cond}:"] if cond and not predicated else []):
        lines.append("    " * depth + head)
        depth += 1
    if cond and not predicated and not case.taken:
        lines += ["    " * depth + "w = mo.int32(-1)", "    " * (depth - 1) + "else:"]
    lines += ["    " * depth + part for part in line.format(cond=cond or "True").split("\n")]
    return "\n".join([*lines, "    out[tid] = w"]) + "\n"


def kernel_of(source: str):
    name = f"<edge {abs(hash(source)):x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space = {"mo": mo}
    exec(compile(source, name, "exec"), space)
    return space["edge"]


def run(case: Case) -> str:
    """What is wrong with the verdict or the result, "" if nothing is."""
    width = ACCESSES[case.access][1]
    m = np.asfortranarray(np.arange(width * case.extent * COLUMNS, dtype=np.int32).reshape(-1, COLUMNS, order="F"))
    before, out = m.copy(order="F"), np.zeros(THREADS, np.int32)
    report = mo.check(kernel_of(text(case)), lints=False)[1, THREADS](
        out, m, np.array(case.a, np.int32), np.array(case.b), np.array(case.d))
    found = {finding.code for finding in report.findings}
    comes = [case.comes(thread) for thread in range(THREADS)]
    outside = any(i is not None and not 0 <= i < case.extent for i in comes)
    if outside:
        return "" if found & {"B1", "B2"} else f"missed: {report}"
    if found or not report.ok:
        return f"accused: {report}"
    wanted, filled = before.copy(order="F"), np.full(THREADS, -1, np.int32)
    for thread, i in enumerate(comes):
        if case.access in ("store", "put") and i is not None and case.space == "global":
            wanted[width * i:width * (i + 1), thread + 2] = 7
        elif case.access not in ("store", "put") and i is not None:
            filled[thread] = before[width * i + width - 1, thread + 2]
        elif case.access == "pred" and (case.d[thread] or not case.under):
            filled[thread] = 7
    return "" if np.array_equal(m, wanted) and np.array_equal(out, filled) else "another result"


def fuzz(seed: int, count: int):
    """The cases that fail."""
    rng, failed = random.Random(seed), []
    for number in range(count):
        case = draw(rng)
        if answer := run(case):
            failed.append((number, case, answer))
    return failed, 0


@pytest.mark.slow
def test_drawn_edges():
    failed, _ = fuzz(SEED, CASES)
    assert not failed, "\n".join(f"case {number}: {case}\n{text(case)}{answer}" for number, case, answer in failed[:5])


def test_both_verdicts_are_drawn():
    rng = random.Random(SEED)
    comes = [[case.comes(t) for t in range(THREADS)] + [case.extent] for case in (draw(rng) for _ in range(CASES))]
    outside = [any(i is not None and not 0 <= i < each[-1] for i in each[:-1]) for each in comes]
    assert min(sum(outside), len(outside) - sum(outside)) > CASES // 5


if __name__ == "__main__":
    found, _ = fuzz(int(sys.argv[1]), int(sys.argv[2]))
    for number, case, answer in found:
        print(f"case {number}: {case}\n{text(case)}{answer}\n")
    print(f"{len(found)} failed of {sys.argv[2]}")
    raise SystemExit(bool(found))
