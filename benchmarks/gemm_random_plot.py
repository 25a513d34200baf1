"""The distributions that ``gemm_random.py`` measured: its lines, and pictures and a table for docs/performance.md.

    python benchmarks/gemm_random_plot.py [--data benchmarks/data] [--page docs/performance.md] [--images docs/images]

In: gemm_random_KIND_SEED.csv, the kinds and seeds that are there.  Out: gemm_random.svg, the ratios of each kind from
the least to the largest, and a table, both put into the page behind ``BEGIN`` and before ``END``.
"""

import argparse
import math
import re
import sys
from pathlib import Path

import gemm_rows

BEGIN, END = "<!-- drawn products: benchmarks/gemm_random_plot.py -->", "<!-- end of drawn products -->"
COLOURS = ("#2a6fbb", "#d9822b", "#3b8a4d", "#8a3b7d", "#555555", "#b03030", "#2a9aa8")
NAME = re.compile(r"gemm_random_(?P<kind>.+)_(?P<seed>\d+)\.csv")
BOUNDS = (0.97, 0.9, 0.85)


# --- what gemm_random.py prints --------------------------------------------------------------------------------------

ALIASES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "e4m3": "e4m3 promoted", "int8": "s8"}


def kind_of(name):
    """A kind of ``gemm_rows``, by its name or that of its dtype."""
    kind = ALIASES.get(name, name)
    if kind not in gemm_rows.KINDS:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join((*gemm_rows.KINDS, *ALIASES))}")
    return kind


def refused(figures):
    """Whether it is cuBLAS that does not multiply such operands, as 8-bit ones whose extents are no multiples of 16."""
    return figures.why.startswith(("RuntimeError", "ValueError", "NotImplementedError")) and "CUDA error" not in \
        figures.why


def distributions(good):
    """Those of products of tensor maps and of the others, or of float32, which knows no such maps, all; by orders."""
    groups = [("tensor maps", [x for x in good if x.row.tma]), ("others", [x for x in good if not x.row.tma])]
    if good and good[0].row.kind == "f32":
        groups = [("all", good)]
    orders = sorted({x.row.orders for x in good})
    if len(orders) > 1:
        groups += [(f"A, B along {order}", [x for x in good if x.row.orders == order]) for order in orders]
    return [distribution(name, [x.ratio for x in found]) for name, found in groups]


def distribution(name, ratios):
    """Geometric mean, and how many lie how low."""
    if not ratios:
        return f"{name}: none"
    ratios, mean = sorted(ratios), gemm_rows.geometric_mean(ratios)
    low = ", ".join(f"{sum(x < bound for x in ratios)} below {bound}" for bound in (0.97, 0.95, 0.9, 0.85))
    deciles = " ".join(f"{ratios[min(len(ratios) - 1, i * len(ratios) // 10)]:.2f}" for i in range(11))
    return f"{name}: {len(ratios)} products, geometric mean {mean:.3f}; {low}; deciles {deciles}"


# --- tables and pictures ---------------------------------------------------------------------------------------------


def read(folder):
    """{kind: figures that were measured}, in the order of ``gemm_rows.KINDS``."""
    found = {kind: [] for kind in gemm_rows.KINDS}
    for path in sorted(folder.glob("gemm_random_*.csv")):
        if match := NAME.fullmatch(path.name):
            kind = next(kind for kind in found if kind.replace(" ", "_") == match["kind"])
            found[kind] += [figures for figures in gemm_rows.read_csv(path) if not math.isnan(figures.ratio)]
    return {kind: figures for kind, figures in found.items() if figures}


def groups(kind, figures):
    """Names and ratios, sorted: products that tensor maps describe, and the others; float32 knows no such maps."""
    if kind == "f32":
        parts = {"": figures}
    else:
        parts = {", tensor maps": [x for x in figures if x.row.tma], ", others": [x for x in figures if not x.row.tma]}
    return [(kind + name, sorted(x.ratio for x in part)) for name, part in parts.items() if part]


def table(found):
    """Lines of Markdown: how many products, their geometric mean, the least, how many lie how low."""
    lines = ["| products | count | geometric mean | least | " + " | ".join(f"below {x}" for x in BOUNDS) + " |",
             "|" + "---|" * (4 + len(BOUNDS))]
    for kind, figures in found.items():
        for name, ratios in groups(kind, figures):
            low = " | ".join(str(sum(x < bound for x in ratios)) for bound in BOUNDS)
            mean = gemm_rows.geometric_mean(ratios)
            lines.append(f"| {name} | {len(ratios)} | {mean:.3f} | {ratios[0]:.2f} | {low} |")
    return "\n".join(lines)


def draw(found, path):
    """A line for each group: ratios to cuBLAS, on a logarithmic scale, over the share of products below them."""
    import matplotlib
    import matplotlib.ticker
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 4.6), layout="constrained")
    sides = figure.subplots(1, 2, sharey=True)
    for axes, others, title in zip(sides, (False, True), ("described by tensor maps; float32", "the others"),
                                   strict=True):
        for colour, (kind, figures) in zip(COLOURS, found.items(), strict=False):
            for name, ratios in groups(kind, figures):
                if name.endswith("others") == others:
                    share = [100 * (i + 0.5) / len(ratios) for i in range(len(ratios))]
                    axes.plot(share, [min(4, max(0.25, x)) for x in ratios], color=colour, label=kind, linewidth=1.5)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set(title=title, xlabel="% of the products", yscale="log", xlim=(0, 100), ylim=(0.25, 4))
        axes.set_yticks([0.25, 0.5, 0.7, 0.9, 1, 1.2, 1.5, 2, 4], ["0.25", "0.5", "0.7", "0.9", "1", "1.2", "1.5", "2",
                                                                   "4"])
        axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, loc="upper left", fontsize=8)
    sides[0].set_ylabel("speed of moye / cuBLAS")
    with matplotlib.rc_context({"svg.hashsalt": "moye"}):
        figure.savefig(path, metadata={"Date": None})


def put(page, text):
    """The page with the text between its two lines; ValueError where they are not there."""
    whole = page.read_text()
    if BEGIN not in whole or END not in whole:
        raise ValueError(f"{page} has no lines {BEGIN} and {END}")
    head, rest = whole.split(BEGIN, 1)
    page.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")


def main(arguments=None):
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=root / "benchmarks" / "data")
    parser.add_argument("--page", type=Path, default=root / "docs" / "performance.md")
    parser.add_argument("--images", type=Path, default=root / "docs" / "images")
    options = parser.parse_args(arguments)
    found = read(options.data)
    if not found:
        sys.exit(f"{options.data} has no gemm_random_KIND_SEED.csv: python benchmarks/gemm_random.py 1000 80 --out "
                 f"{options.data} makes one, on a GPU")
    draw(found, options.images / "gemm_random.svg")
    text = table(found)
    put(options.page, f"\n![The ratios of drawn products](images/gemm_random.svg)\n\n{text}\n")
    print(text)


if __name__ == "__main__":
    main()
