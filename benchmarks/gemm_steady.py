"""What products reach when they are launched back to back until the GPU is at its power limit.

In: two functions that launch one product each.  Out: ``Steady``: TFLOP/s, mean SM clock and power of both.

>>> steady(row, {"moye": f, "cuBLAS": g}, {"moye": 0.17, "cuBLAS": 0.17}, sampler)

L2 is not flushed, and nothing rests between launches: blocks of one and the other take turns.  These figures are lower
than those of single launches, where the clock is higher, and compare the energy of an operation as much as its time.
"""

import csv
import dataclasses
import math
import time
from dataclasses import dataclass

from gemm_rows import Row

BLOCK, BLOCKS, SETTLE = 0.5, 4, 0.15                    # seconds, of each, seconds before the clock counts
COLUMNS = ["kind", "M", "N", "K", "moye_tflops", "cublas_tflops", "ratio", "moye_mhz", "cublas_mhz", "moye_watts",
           "cublas_watts"]
HEAD = ("                                  TFLOP/s                  MHz              W\n"
        "kind              M     N     K     moye  cuBLAS  ratio    moye  cuBLAS    moye  cuBLAS")


@dataclass(frozen=True)
class Side:
    """One of the two: operations per second in units of 10^12, megahertz, watts."""

    tflops: float
    mhz: float
    watts: float


@dataclass(frozen=True)
class Steady:
    row: Row
    moye: Side
    cublas: Side

    @property
    def ratio(self):
        return self.moye.tflops / self.cublas.tflops


def steady(row, works, ms, sampler, timer):
    """Both sides in alternating blocks; ``ms`` is what one launch of each takes about.

    ``timer(work, count)`` launches ``count`` times, waits, and answers the seconds that the device took.
    """
    flops, seconds, samples = dict.fromkeys(works, 0.0), dict.fromkeys(works, 0.0), {name: [] for name in works}
    for _ in range(BLOCKS):
        for name, work in works.items():
            count = max(1, round(BLOCK * 1e3 / ms[name]))
            start = time.perf_counter()
            seconds[name] += timer(work, count)
            flops[name] += count * row.flops
            samples[name].append(sampler.mean(start + SETTLE, time.perf_counter()))
    sides = [Side(flops[name] / seconds[name] / 1e12, *(_mean(values) for values in zip(*samples[name], strict=True)))
             for name in works]
    return Steady(row, *sides)


def _mean(values):
    known = [x for x in values if not math.isnan(x)]
    return sum(known) / len(known) if known else math.nan


def line(found):
    """One line under ``HEAD``."""
    row, moye, cublas = found.row, found.moye, found.cublas
    return (f"{row.kind:13} {row.M:5} {row.N:5} {row.K:5}  {moye.tflops:7.1f} {cublas.tflops:7.1f} {found.ratio:6.3f} "
            f"{moye.mhz:7.0f} {cublas.mhz:7.0f} {moye.watts:7.0f} {cublas.watts:7.0f}")


def write_csv(path, measured):
    """One line for each row; what could not be read is empty."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for found in measured:
            row, moye, cublas = found.row, *map(dataclasses.astuple, (found.moye, found.cublas))
            numbers = (moye[0], cublas[0], found.ratio, moye[1], cublas[1], moye[2], cublas[2])
            writer.writerow([row.kind, row.M, row.N, row.K,
                             *("" if math.isnan(x) else f"{x:.6g}" for x in numbers)])


def read_csv(path):
    """The figures of a run."""
    with open(path, newline="") as file:
        return [_steady(cells) for cells in csv.DictReader(file)]


def _steady(cells):
    row = Row("main", cells["kind"], *(int(cells[name]) for name in "MNK"))
    sides = [Side(*(float(cells[f"{side}_{what}"] or "nan") for what in ("tflops", "mhz", "watts")))
             for side in ("moye", "cublas")]
    return Steady(row, *sides)
