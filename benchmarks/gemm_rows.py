"""The rows of ``gemm.py``: which products there are, their figures, the CSV that keeps them, means over them.

In: nothing, or the CSV of a run.  Out: ``Row``s, ``Figures``.  It imports neither torch nor moye.

>>> rows = [row for row in MAIN + FORTY if re.search("main bf16", row.label)]
"""

import csv
import dataclasses
import math
from dataclasses import dataclass, field

LARGE = 4096**3
"""Products of at least so many multiplications reach the power limit."""


@dataclass(frozen=True)
class Kind:
    """What is multiplied: names of torch's dtypes of A and B, and of C; keywords of ``gemm``; of ``_scaled_mm``.

    ``cut``: the relative error that a sum may have for each element of K, beside what cuBLAS's has: ``wgmma`` cuts off
    what float32 cannot hold, and where cuBLAS takes other instructions or splits K its sums are rounded.  ``rounded``:
    that of operands rounded to fewer bits, where cuBLAS does not round them: a single row or column, and some others.
    """

    operands: str
    result: str
    keywords: dict = field(default_factory=dict, hash=False)
    fast: bool = False
    cut: float = 0.0
    rounded: float = 0.0

    @property
    def bytes(self):
        """Of an element of A or B."""
        return {"float32": 4, "bfloat16": 2, "float16": 2}.get(self.operands, 1)


KINDS = {
    "bf16": Kind("bfloat16", "bfloat16"),
    "f16": Kind("float16", "float16"),
    "e4m3 fast": Kind("float8_e4m3fn", "bfloat16", {"fast_accum": True}, fast=True),
    "e4m3 promoted": Kind("float8_e4m3fn", "bfloat16"),
    "tf32": Kind("float32", "float32", {"tf32": True}, cut=2.5e-9, rounded=2 ** -11),
    "f32": Kind("float32", "float32", cut=5e-9),
    "s8": Kind("int8", "int32"),
}
RESULT_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "int32": 4}


@dataclass(frozen=True)
class Row:
    """One product: C = A @ B.T; ``orders`` says whether A and B are contiguous along K ("K") or their rows ("M")."""

    set: str
    kind: str
    M: int
    N: int
    K: int
    orders: str = "KK"

    @property
    def label(self):
        """What ``--only`` is matched with."""
        return f"{self.set} {self.kind} {self.M}x{self.N}x{self.K} {self.orders}"

    @property
    def flops(self):
        return 2 * self.M * self.N * self.K

    @property
    def tma(self):
        """Whether tensor maps can describe A, B and C."""
        kind, (order_A, order_B) = KINDS[self.kind], self.orders
        return (_describable(self.M, self.K, order_A, kind.bytes) and _describable(self.N, self.K, order_B, kind.bytes)
                and self.N * RESULT_BYTES[kind.result] % 16 == 0)


def _describable(rows, columns, order, size):
    """Whether what lies apart is a multiple of 16 bytes apart; one row is apart from nothing."""
    apart, count = (columns, rows) if order == "K" else (rows, columns)
    return count == 1 or apart * size % 16 == 0


_SHAPES = ((2048, 2048, 256), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 14336, 4096),
           (128, 8192, 8192), (16, 8192, 8192))
MAIN = (*(Row("main", kind, *shape) for kind in ("bf16", "f16") for shape in _SHAPES),
        *(Row("main", kind, n, n, n) for kind in ("e4m3 fast", "e4m3 promoted") for n in (4096, 8192)),
        *(Row("main", kind, 4096, 4096, 4096) for kind in ("tf32", "s8")))
FORTY = (*(Row("forty", "bf16", M, N, K) for M in (1, 64, 1000, 4096, 16384) for N in (512, 4096, 11008, 4098)
           for K in (1024, 4097)),
         *(Row("forty", "bf16", 4096, 4096, 4096, orders) for orders in ("KK", "KM", "MK", "MM")))
STEADY = tuple(row for row in MAIN if row.flops >= 2 * LARGE)


@dataclass
class Figures:
    """What was measured of a row; ``why`` says what kept it from being measured, or what is wrong with the result.

    Milliseconds are medians; errors relative to float64, by Frobenius' norm, over 256 rows of C.
    """

    row: Row
    ms: float = math.nan
    cublas_ms: float = math.nan
    error: float = math.nan
    cublas_error: float = math.nan
    rounds: int = 0
    kernels: str = ""
    why: str = ""

    @property
    def tflops(self):
        return self.row.flops / self.ms / 1e9

    @property
    def cublas_tflops(self):
        return self.row.flops / self.cublas_ms / 1e9

    @property
    def ratio(self):
        """Of speeds: above 1 moye is faster."""
        return self.cublas_ms / self.ms

    @property
    def error_ratio(self):
        """Of our error to cuBLAS's; 1 where both are exact."""
        if self.error == self.cublas_error:
            return 1.0
        return self.error / self.cublas_error if self.cublas_error else math.inf


HEAD = ("                                     TFLOP/s               microseconds                    error\n"
        "kind              M     N     K  A,B    moye  cuBLAS   ratio     moye   cuBLAS          of cuBLAS's  kernels")


def line(figures):
    """One line under ``HEAD``."""
    row = figures.row
    start = f"{row.kind:13} {row.M:5} {row.N:5} {row.K:5}  {row.orders}"
    if math.isnan(figures.ratio):
        return f"{start}  not measured: {figures.why}"
    tma = "tma" if row.tma else "   "
    return (f"{start}  {figures.tflops:7.1f} {figures.cublas_tflops:7.1f}  {figures.ratio:6.3f} "
            f"{figures.ms * 1e3:8.1f} {figures.cublas_ms * 1e3:8.1f}  {figures.error:.2e} {figures.error_ratio:6.3f}  "
            f"{tma} {figures.kernels}" + (f"  WRONG: {figures.why}" if figures.why else ""))


def means(measured):
    """A line for each group of rows: the least and the geometric mean of its ratios."""
    groups = {}
    for figures in measured:
        row = figures.row
        name = f"main {row.kind}" if row.set == "main" else \
            f"forty, {'describable by tensor maps' if row.tma else 'the rest'}"
        if not math.isnan(figures.ratio):
            groups.setdefault(name, []).append(figures.ratio)
    return [f"{name}: {len(ratios)} shapes, least {min(ratios):.3f}, geometric mean {geometric_mean(ratios):.3f}"
            for name, ratios in groups.items()]


def geometric_mean(ratios):
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def rounds_for(seconds_per_round, budget, most, least=10):
    """How many rounds fit a budget of seconds: at least ten, so that a median means something."""
    return max(min(least, most), min(most, int(budget / max(seconds_per_round, 1e-6))))


# --- the CSV ---------------------------------------------------------------------------------------------------------

_ROW = [f.name for f in dataclasses.fields(Row)]
COLUMNS = [*_ROW, "tma", "rounds", "moye_us", "cublas_us", "moye_tflops", "cublas_tflops", "ratio", "error",
           "cublas_error", "error_ratio", "kernels", "why"]


def write_csv(path, measured):
    """One line for each row; numbers that were not measured are empty."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(_cells(figures) for figures in measured)


def _cells(figures):
    row = figures.row
    numbers = {"moye_us": figures.ms * 1e3, "cublas_us": figures.cublas_ms * 1e3, "moye_tflops": figures.tflops,
               "cublas_tflops": figures.cublas_tflops, "ratio": figures.ratio, "error": figures.error,
               "cublas_error": figures.cublas_error, "error_ratio": figures.error_ratio}
    return {**dataclasses.asdict(row), "tma": int(row.tma), "rounds": figures.rounds, "kernels": figures.kernels,
            "why": figures.why, **{name: "" if math.isnan(x) else f"{x:.6g}" for name, x in numbers.items()}}


def read_csv(path):
    """The figures of a run."""
    with open(path, newline="") as file:
        return [_figures(cells) for cells in csv.DictReader(file)]


def _figures(cells):
    row = Row(cells["set"], cells["kind"], *(int(cells[name]) for name in "MNK"), cells["orders"])
    numbers = {name: float(cells[name] or "nan") for name in ("moye_us", "cublas_us", "error", "cublas_error")}
    return Figures(row, numbers["moye_us"] / 1e3, numbers["cublas_us"] / 1e3, numbers["error"],
                   numbers["cublas_error"], int(cells["rounds"]), cells["kernels"], cells["why"])
