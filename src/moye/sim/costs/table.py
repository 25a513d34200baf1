"""What a checked run did in memory, as a table and as numbers.

In: the ``Meter`` of a run.  Out: ``table`` (text, one line per statement, instruction and tensor) and ``counters``
(dicts, with the totals that a profiler shows under other names).

    print(report.table())
"""

from __future__ import annotations

from typing import Any

from moye.sim.costs.meter import Meter
from moye.sim.costs.rows import Row, rows

HEAD = ["line", "statement", "instruction", "tensor", "requests", "wavefronts", "ideal", "degree", "sectors/request",
        "ideal", "bytes"]
TEXT = ("statement", "instruction", "tensor")
STATEMENT = 48
SHORT = 15


def table(meter: Meter, *, loops_only: bool = False) -> str:
    """Every instruction; ``loops_only``: those in loops, the most expensive ``SHORT`` of them.

    ``bytes`` are those of one access of a thread, now and (after the slash) at most, or of a box of a tensor copy.
    """
    seen = rows(meter)
    shown = seen
    if loops_only:
        most = sorted((row for row in seen if row.loop), key=lambda row: -row.passes)[:SHORT]
        shown = [row for row in seen if any(row is one for one in most)]
    if not shown:
        return ""
    lines = _aligned([HEAD, *(_cells(row) for row in shown)])
    if any(row.sampled for row in shown):
        lines.append("~: counted in some of the blocks and scaled to all")
    return "\n".join(line.rstrip() for line in lines)


def _aligned(lines: list[list[str]]) -> list[str]:
    """Lines with text on the left and numbers on the right; columns that are not used are left out."""
    used = [i for i, head in enumerate(HEAD) if any(line[i] for line in lines[1:])]
    wide = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    return ["  ".join(line[i].ljust(wide[i]) if HEAD[i] in TEXT else line[i].rjust(wide[i]) for i in used)
            for line in lines]


def _cells(row: Row) -> list[str]:
    text = row.statement if len(row.statement) <= STATEMENT else row.statement[:STATEMENT - 3] + "..."
    each, about = row.passes / row.requests, "~" if row.sampled else ""
    wide = str(row.bytes) if row.possible <= row.bytes else f"{row.bytes}/{row.possible}"
    if row.shared:
        costs = [f"{about}{row.passes}", str(row.ideal), str(row.degree), "", ""]
    else:
        costs = ["", "", "", f"{about}{each:.4g}", f"{row.ideal / row.requests:.4g}"]
    return [str(row.loc.line), text, row.instruction, row.tensor, str(row.requests), *costs, wide]


def counters(meter: Meter) -> dict[str, Any]:
    """Totals, and under ``lines`` one dict per statement, instruction and tensor.

    Requests are instructions of warps; conflicts are wavefronts above the fewest possible.  ``ldmatrix`` and
    ``cp_async`` are counted beside plain loads and stores, as profilers do; of ``tma_load`` and its like the boxes.
    """
    seen = rows(meter)
    totals: dict[str, Any] = {}
    for row in seen:
        name = _kind(row)
        _add(totals, f"{name}_requests", row.requests)
        if row.shared:
            _add(totals, f"{name}_wavefronts", row.passes)
            _add(totals, f"{name}_conflicts", row.excess)
            _add(totals, "shared_wavefronts", row.passes)
            _add(totals, "shared_conflicts", row.excess)
        else:
            _add(totals, f"{name}_sectors", row.passes)
            if row.boxes:
                _add(totals, f"{name}_bytes", row.requests * row.bytes)
    totals["lines"] = [_record(row) for row in seen]
    return totals


def _add(totals: dict[str, Any], name: str, count: int) -> None:
    totals[name] = totals.get(name, 0) + count


def _kind(row: Row) -> str:
    space = "shared" if row.shared else "global"
    first = row.parts[0]
    if row.boxes:
        return row.instruction.replace(".", "_")
    if first.matrices:
        return "stmatrix" if row.direction == "store" else "ldmatrix"
    return f"cp_async_{space}" if first.asynchronous else f"{space}_{row.direction}"


def _record(row: Row) -> dict[str, Any]:
    record = {"line": row.loc.line, "statement": row.statement, "instruction": row.instruction, "tensor": row.tensor,
              "direction": row.direction, "space": "shared" if row.shared else "global", "loop": row.loop,
              "requests": row.requests, "ideal": row.ideal, "degree": row.degree, "bytes": row.bytes,
              "possible_bytes": row.possible, "sampled": row.sampled}
    record["wavefronts" if row.shared else "sectors"] = row.passes
    return record
