"""The plans of which the rule of rows was chosen: each kernel by several plans, beside a plain copy in the same run.

    python benchmarks/rows_plans.py [--rounds 12] [--only softmax] [--csv benchmarks/data/rows_plans.csv]

bfloat16, interleaved with ``torch.copy_`` of 16384 x 8192, L2 flushed before every launch, medians; every result is
compared with float64 first.  ``PLANS`` has threads a row and block, blocks of a multiprocessor, blocks of a cluster,
whether a row is read in a loop, and rows that bulk copies bring ahead.  The form of a case is that of rows_moves.py.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from typing import Any

import torch

import rows_norms
import rows_softmax
from moye import kernels
from moye.kernels.rows import RowPlan
from moye.testing import interleave
from rows_moves import BF16, DEVICE, Case, case, random

WIDTH = 8
"""Elements of 16 bytes."""
Ways = tuple[tuple[int, int, int, bool] | tuple[int, int, int, bool, int], ...]


def plan_of(columns: int, lanes: int, resident: int, cluster: int = 1, streamed: bool = False,
            ahead: int = 0) -> RowPlan:
    """So many threads of each of so many blocks have a row, and so many rows come ahead."""
    vectors, each = columns // WIDTH, lanes * cluster
    rounds = -(-vectors // each)
    return RowPlan(WIDTH, lanes, rounds=rounds, cluster=cluster, full=0 if streamed else vectors // each,
                   resident=resident, streamed=streamed, stages=ahead * rounds)


def rms_norm(rows: int, columns: int, plan: RowPlan | None) -> Case:
    x, weight = random(rows, columns), random(columns)
    out = torch.empty_like(x)
    return case("rms_norm", out, lambda: kernels.rms_norm(out, x, weight, eps=rows_norms.EPS, plan=plan),
                rows_norms._rms, (x, weight))


def rms_norm_backward(rows: int, columns: int, plan: RowPlan | None) -> Case:
    return rows_norms.backward(rows, columns, plan=plan)


def softmax(rows: int, columns: int, plan: RowPlan | None) -> Case:
    x = random(rows, columns)
    out = torch.empty_like(x)
    return case("softmax", out, lambda: kernels.softmax(out, x, plan=plan), lambda x: torch.softmax(x, -1), (x,))


def cross_entropy(rows: int, columns: int, plan: RowPlan | None) -> Case:
    x, labels = random(rows, columns), torch.randint(0, columns, (rows,), device=DEVICE)
    loss, lse = (torch.empty(rows, device=DEVICE) for _ in range(2))
    return case("cross_entropy", loss,
                lambda: kernels.cross_entropy(loss, x, labels, lse=lse, reduction="none", plan=plan),
                lambda x, labels: rows_softmax._losses("none", x, labels), (x, labels), moved=2 * x.numel())


def with_gradient(rows: int, columns: int, plan: RowPlan | None) -> Case:
    x, labels = random(rows, columns), torch.randint(0, columns, (rows,), device=DEVICE)
    loss, dx = torch.empty((), device=DEVICE), torch.empty_like(x)
    return case("cross_entropy with gradient", (dx,),
                lambda: kernels.cross_entropy(loss, x, labels, dlogits=dx, plan=plan), rows_softmax._gradient,
                (x, labels), moved=4 * x.numel())


BLOCKS: dict[int, Ways] = {
    8192: ((256, 4, 1, False), (256, 5, 1, False), (512, 3, 1, False), (128, 8, 1, False), (1024, 2, 1, False)),
    4096: ((128, 8, 1, False), (128, 10, 1, False), (256, 6, 1, False), (64, 16, 1, False)),
    131072: ((512, 2, 8, False), (512, 2, 4, False), (1024, 1, 4, False), (256, 4, 8, False), (1024, 1, 1, True))}
PASSED: dict[int, Ways] = {
    8192: ((256, 6, 1, False), (128, 12, 1, True), (128, 16, 1, True), (256, 8, 1, True)),
    4096: ((128, 8, 1, False), (128, 12, 1, True), (128, 16, 1, True)),
    128256: ((128, 16, 1, True), (256, 6, 1, True), (512, 4, 1, True), (1024, 2, 1, True))}
SUMS: dict[int, Ways] = {
    8192: ((1024, 1, 1, False), (512, 1, 1, False), (1024, 1, 1, False, 6), (512, 1, 1, False, 6),
           (512, 2, 1, False, 3)),
    4096: ((512, 2, 1, False), (256, 2, 1, False), (256, 3, 1, False), (512, 2, 1, False, 6), (512, 1, 1, False, 12),
           (256, 2, 1, False, 6)),
    2048: ((256, 2, 1, False), (256, 3, 1, False, 8), (128, 4, 1, False, 6), (256, 2, 1, False, 12))}
GRADIENTS: dict[int, Ways] = {8192: BLOCKS[8192], 128256: ((512, 2, 8, False), (1024, 1, 4, False))}
PLANS: list[tuple[Callable[..., Case], dict[int, Ways]]] = [
    (rms_norm, BLOCKS), (softmax, BLOCKS), (cross_entropy, PASSED), (with_gradient, GRADIENTS),
    (rms_norm_backward, SUMS)]


def drawn_up() -> Iterator[tuple[Callable[..., Case], int, int, RowPlan | None]]:
    """(kernel, rows, columns, plan), with None for the rule's."""
    for make, ways in PLANS:
        for columns, each in ways.items():
            rows = 16384 if columns <= 8192 else 1 << 28 >> columns.bit_length()
            yield make, rows, columns, None
            for way in each:
                yield make, rows, columns, plan_of(columns, *way)


def named(plan: RowPlan | None) -> str:
    if plan is None:
        return "the rule's"
    return f"lanes={plan.lanes} rounds={plan.rounds} cluster={plan.cluster} resident={plan.resident}" \
           f"{' streamed' if plan.streamed else ''}{f' ahead={plan.stages // plan.rounds}' if plan.stages else ''}"


def measured(told: Case, rounds: int) -> dict[str, Any]:
    """Microseconds, GB/s, the fraction of the copy's bandwidth, the error."""
    error = told.error()
    source = random(16384, 8192)
    target = torch.empty_like(source)
    ms = interleave({"moye": told.run, "copy": lambda: target.copy_(source)}, rounds)
    rate, copied = told.moved / ms["moye"] * 1e-6, 2 * source.numel() * BF16.itemsize / ms["copy"] * 1e-6
    return {"us": f"{ms['moye'] * 1e3:.2f}", "GB/s": f"{rate:.0f}", "of copy": f"{rate / copied:.3f}",
            "error": f"{error:.1e}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", default="")
    parser.add_argument("--csv")
    options = parser.parse_args()
    torch.manual_seed(0)
    table = []
    for make, rows, columns, plan in drawn_up():
        if options.only in make.__name__:
            torch.cuda.empty_cache()
            row = {"kernel": make.__name__, "rows": rows, "columns": columns, "plan": named(plan),
                   **measured(make(rows, columns, plan), options.rounds)}
            table.append(row)
            print(*row.values(), flush=True)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
