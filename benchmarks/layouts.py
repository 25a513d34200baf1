"""Microseconds of the layout algebra: single verbs, a tiled MMA, and partitioning a tensor by it while tracing.

``python benchmarks/layouts.py`` prints medians over rounds of one process; garbage collection stays on.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import moye as mo
from moye.layout import Layout

ROUNDS, CALLS = 200, 20


def median_us(call: Callable[[], object], rounds: int = ROUNDS, calls: int = CALLS) -> float:
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times) * 1e6


def verbs() -> dict[str, Callable[[], object]]:
    layout, tv = Layout.parse("(128,64):(1,128)"), Layout.parse("((2,2),4):((1,8),2)")
    perm = Layout((8, 4), (4, 1))
    return {
        "make_layout((128, (8, 8)))": lambda: mo.make_layout((128, (8, 8))),
        "Layout.parse": lambda: Layout.parse("((2,2),4):((1,8),2)"),
        "layout(i)": lambda: layout(77),
        "coalesce": lambda: mo.coalesce(tv),
        "composition": lambda: mo.composition(layout, tv),
        "complement": lambda: mo.complement(tv, 512),
        "right_inverse": lambda: mo.right_inverse(tv),
        "logical_divide by (32, 8)": lambda: mo.logical_divide(layout, (32, 8)),
        "zipped_divide by (32, 8)": lambda: mo.zipped_divide(layout, (32, 8)),
        "make_tiled_mma": lambda: mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((16, 16)),
                                                    (perm, perm, None)),
        "make_tiled_copy": lambda: mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float32),
                                                      mo.make_layout((32, 8)), mo.make_layout((4, 1))),
    }


def traced() -> dict[str, float]:
    """Medians inside a trace of a kernel on a (128, 8) tile of an argument with dynamic extents."""
    found: dict[str, float] = {}
    perm = Layout((8, 4), (4, 1))
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), mo.make_layout((32, 8)))

    def measure(A: mo.Tensor, C: mo.Tensor) -> None:
        op, atoms = mo.UniversalFMA(mo.float32), mo.make_layout((16, 16))
        thread = mo.thread_idx().x
        gA, gC = mo.tile(A, (128, 8), (0, None)), mo.tile(C, (128, 128), (0, 0))
        mma = mo.make_tiled_mma(op, atoms, (perm, perm, None))
        part = mma.get_slice(thread)

        def build_and_partition() -> None:
            both = mo.make_tiled_mma(op, atoms, (perm, perm, None)).get_slice(thread)
            both.partition_A(gA)
            both.partition_C(gC)

        for name, call in (("partition_A", lambda: part.partition_A(gA)), ("partition_C", lambda: part.partition_C(gC)),
                           ("partition_S", lambda: copy.get_slice(thread).partition_S(gA)),
                           ("make_tiled_mma + partition_A + partition_C", build_and_partition)):
            found[name] = median_us(call, 50, 5)

    @mo.kernel
    def kernel(A, C, run: mo.Constexpr):
        run(A, C)

    kernel[(1, 1), 256](np.zeros((128, 8), np.float32, order="F"), np.zeros((128, 128), np.float32, order="F"), measure)
    return found


def main() -> None:
    for name, call in verbs().items():
        print(f"{name:45s} {median_us(call):8.1f} us")
    for name, time_us in traced().items():
        print(f"{name + ', tracing':45s} {time_us:8.1f} us" if "make" not in name else f"{name:45s} {time_us:8.1f} us")


if __name__ == "__main__":
    main()
