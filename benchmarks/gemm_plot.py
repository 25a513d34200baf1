"""Plots of the CSVs that ``gemm.py`` writes: TFLOP/s and ratios by dtype, the 44 odd shapes, the steady state.

    python benchmarks/gemm_plot.py [DIR]

In: gemm.csv and gemm_steady.csv in DIR (out/), as far as they are there.  Out: gemm_main, gemm_forty and gemm_steady
there, each as SVG and PNG.
"""

import importlib.util
import math
import sys
from pathlib import Path

import gemm_rows
import gemm_steady

MOYE, CUBLAS, SLOWER, GREY = "#2a6fbb", "#b9bec6", "#d9822b", "#555555"


def draw(folder):
    """Draw what there is; a sentence about what was written."""
    if importlib.util.find_spec("matplotlib") is None:
        return f"wrote {folder}; python benchmarks/gemm_plot.py {folder} draws it where matplotlib is installed"
    figures = gemm_rows.read_csv(folder / "gemm.csv") if (folder / "gemm.csv").is_file() else []
    figures = [f for f in figures if not math.isnan(f.ratio)]
    steady = gemm_steady.read_csv(folder / "gemm_steady.csv") if (folder / "gemm_steady.csv").is_file() else []
    drawn = []
    for name, plot, data in (("gemm_main", plot_main, [f for f in figures if f.row.set == "main"]),
                             ("gemm_forty", plot_forty, [f for f in figures if f.row.set == "forty"]),
                             ("gemm_steady", plot_steady, steady)):
        if data:
            figure = plot(data)
            for suffix in ("svg", "png"):
                figure.savefig(folder / f"{name}.{suffix}", dpi=144)
            drawn.append(name)
    return f"wrote {folder}: {', '.join(drawn)}"


def shape_text(row):
    if row.M == row.N == row.K:
        return f"{row.M}³"
    return f"{row.M}×{row.N}×{row.K}"


def places(rows):
    """Where each row stands on the x axis, with a gap between kinds; the middle of each kind."""
    xs, groups, x, last = [], {}, 0.0, None
    for row in rows:
        x += 0 if last is None else 1 if row.kind == last else 1.8
        xs.append(x)
        groups.setdefault(row.kind, []).append(x)
        last = row.kind
    return xs, {kind: sum(members) / len(members) for kind, members in groups.items()}


def plot_main(figures):
    """TFLOP/s of both above, the ratio of them below."""
    return _bars([f.row for f in figures], [f.tflops for f in figures], [f.cublas_tflops for f in figures],
                 "moye.kernels.gemm beside cuBLAS: medians, L2 flushed")


def plot_steady(found):
    """The same at the power limit, with clocks and power in the bars."""
    def told(side):
        return "" if math.isnan(side.mhz) else f"{side.mhz:.0f} MHz, {side.watts:.0f} W"
    return _bars([s.row for s in found], [s.moye.tflops for s in found], [s.cublas.tflops for s in found],
                 "launched back to back, at the power limit",
                 ([told(s.moye) for s in found], [told(s.cublas) for s in found]))


def _bars(rows, ours, theirs, title, texts=None):
    from matplotlib.figure import Figure

    xs, groups = places(rows)
    figure = Figure(figsize=(max(6.5, 0.62 * xs[-1] + 2.2), 6.8), layout="constrained")
    speed, ratio = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for side, shift, color, name in ((ours, -0.2, MOYE, "moye"), (theirs, 0.2, CUBLAS, "cuBLAS")):
        speed.bar([x + shift for x in xs], side, 0.38, color=color, label=name)
    if texts is not None:
        for side, shift, color in zip(texts, (-0.2, 0.2), ("white", "black"), strict=True):
            for x, text in zip(xs, side, strict=True):
                speed.text(x + shift, 0, f" {text}", rotation=90, ha="center", va="bottom", fontsize=7, color=color)
    speed.set(ylabel="TFLOP/s", title=title)
    speed.legend(loc="upper left", frameon=False, ncols=2)
    speed.margins(y=0.2)
    for kind, x in groups.items():
        speed.text(x, 0.87, kind, transform=speed.get_xaxis_transform(), ha="center", weight="bold", color=GREY)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    _ratio_bars(ratio, xs, ratios, [shape_text(row) for row in rows])
    for axes in (speed, ratio):
        axes.margins(x=0.01)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _ratio_bars(axes, xs, ratios, labels):
    axes.bar(xs, ratios, 0.7, color=[MOYE if round(ratio, 2) >= 1 else SLOWER for ratio in ratios])
    for x, ratio in zip(xs, ratios, strict=True):
        axes.text(x, max(1.0, ratio) + 0.02, f"{ratio:.2f}", ha="center", va="bottom", fontsize=8)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(ylabel="moye / cuBLAS", ylim=(0, 1.15 * max(1.05, *ratios)))
    axes.set_xticks(xs, labels, rotation=45, ha="right", rotation_mode="anchor", fontsize=8)


def plot_forty(figures):
    """A table of ratios, M down and N, K across; the transposes beside it."""
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.figure import Figure

    grid = {(f.row.M, f.row.N, f.row.K): f for f in figures if f.row not in TRANSPOSES}
    across = sorted({(N, K) for _, N, K in grid}, key=lambda nk: (nk[1], nk[0]))
    down = sorted({M for M, _, _ in grid})
    transposes = [f for f in figures if f.row in TRANSPOSES]
    largest = max(1.01, *(f.ratio for f in figures))
    norm = TwoSlopeNorm(1, min(0.5, *(f.ratio for f in figures)), min(2, largest))
    figure = Figure(figsize=(1.2 * len(across) + 1.4 * bool(transposes) + 2, 0.75 * max(4, len(down)) + 2.2),
                    layout="constrained")
    figure.suptitle("bf16, moye / cuBLAS and moye's TFLOP/s; framed: tensor maps can describe A, B and C")
    table, beside = figure.subplots(1, 2, width_ratios=(max(1, len(across)), 1.2))
    _cells(table, [[grid.get((M, N, K)) for N, K in across] for M in down], norm,
           [f"N={N}\nK={K}" for N, K in across], [f"M={M}" for M in down])
    _cells(beside, [[f] for f in transposes], norm, ["4096³"] * bool(transposes),
           [f"A along {f.row.orders[0]}\nB along {f.row.orders[1].replace('M', 'N')}" for f in transposes])
    return figure


TRANSPOSES = frozenset(row for row in gemm_rows.FORTY if row.M == row.N == row.K)


def _cells(axes, table, norm, across, down):
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    axes.set(xlim=(-0.5, max(1, len(across)) - 0.5), ylim=(max(1, len(down)) - 0.5, -0.5))
    for i, cells in enumerate(table):
        for j, found in enumerate(cells):
            if found is None:
                continue
            color = colormaps["PuOr"](0.25 + 0.5 * float(norm(min(max(found.ratio, norm.vmin), norm.vmax))))
            frame = {"edgecolor": "black", "linewidth": 1.4} if found.row.tma else {"linewidth": 0}
            axes.add_patch(Rectangle((j - 0.46, i - 0.44), 0.92, 0.88, facecolor=color, **frame))
            axes.text(j, i - 0.06, f"{found.ratio:.2f}", ha="center", va="center", weight="bold", fontsize=10)
            axes.text(j, i + 0.24, f"{found.tflops:.3g}", ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(across)), across, fontsize=8)
    axes.set_yticks(range(len(down)), down, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


if __name__ == "__main__":
    print(draw(Path(*sys.argv[1:2] or ["out"])))
