"""The figure of docs/architecture.md: the rooms of moye and who imports whom, drawn from the sources.

    python docs/make_architecture.py        # writes docs/images/architecture.svg

In: the imports of src/moye and the order of the rooms in tests/test_architecture.py.  Out: an SVG.  A box is a folder
at the top of the package with the rooms in it, or several modules that stand alone.  An arrow goes to what is imported;
arrows that follow from others are left out.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
FIGURE = ROOT / "docs" / "images" / "architecture.svg"
FACE = "import moye as mo"
ALONE = {"ground": ("errors", "env", "depth", "origin", "dtypes", "display")}
"""Modules without a room that are drawn as one box."""
LETTER, BOX, ACROSS, DOWN = 6.7, 52, 18, 46
STYLE = ("text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#333}.name{font-weight:bold;font-size:12px}"
         "rect{fill:#f6f8fa;stroke:#57606a}.face{fill:#ddf4ff}path{fill:none;stroke:#8c959f;stroke-width:1.1}"
         ".tip{fill:#8c959f;stroke:none}")

Graph = dict[str, set[str]]


@cache
def rules() -> Any:
    """The module that has the house and the order of its rooms."""
    spec = importlib.util.spec_from_file_location("architecture_rules", ROOT / "tests" / "test_architecture.py")
    assert spec is not None and spec.loader is not None, "a file of the repository"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def box_of(module: str) -> str:
    """The box that a module is drawn in."""
    head = module.split(".")[0]
    return next((box for box, modules in ALONE.items() if head in modules), head)


def imports(house: Any) -> Graph:
    """Which box imports from which; the public names import what they name, and kernels import them.

    Of torch's operators, which take kernels, the public names have the decorator alone.
    """
    edges: Graph = {FACE: set()}
    for module in house.trees:
        if module in ("", "__main__"):
            continue
        mine = edges.setdefault(box_of(module), set())
        for name, _ in house.imports(module):
            target = house.own(name)
            if target == "":
                mine.add(FACE)
            elif target is not None and target not in ("sim", "cuda"):
                mine.add(box_of(target))
    edges[FACE] = {box for box in edges if FACE not in edges[box]} - {FACE, "cli", "pytest_plugin", "torch"}
    return {box: goals - {box} for box, goals in edges.items()}


@cache
def drawn() -> Graph:
    """Which box imports from which in moye."""
    return imports(rules().House(rules().SRC))


def reachable(edges: Graph, start: str) -> set[str]:
    """All that a box needs, by way of others too."""
    found: set[str] = set()
    todo = [*edges[start]]
    while todo:
        if (box := todo.pop()) not in found:
            found.add(box)
            todo += edges[box]
    return found


def reduced(edges: Graph) -> Graph:
    """The arrows that do not follow from others."""
    return {box: {goal for goal in goals if not any(goal in reachable(edges, via) for via in goals - {goal})}
            for box, goals in edges.items()}


def levels(edges: Graph) -> list[list[str]]:
    """The boxes by row: each stands above all that it imports."""
    depth: dict[str, int] = {}

    def of(box: str) -> int:
        if box not in depth:
            depth[box] = 1 + max((of(goal) for goal in edges[box]), default=-1)
        return depth[box]

    top = max(of(box) for box in edges)
    return [sorted(box for box in edges if depth[box] == level) for level in range(top, -1, -1)]


def inside(box: str, rooms: list[str]) -> str:
    """The rooms in a box, in their order."""
    if box in ALONE:
        return "  ".join(ALONE[box])
    return "  ".join(room.split(".", 1)[1] for room in rooms if room.startswith(f"{box}."))


def placed(rows: list[list[str]], rooms: list[str]) -> dict[str, tuple[float, float, float]]:
    """Left, top and width of each box; rows are centred."""
    widths = {box: LETTER * max(len(inside(box, rooms)), len(box) * 1.1, 8) + 20 for row in rows for box in row}
    widest = max(sum(widths[box] for box in row) + ACROSS * (len(row) - 1) for row in rows)
    places: dict[str, tuple[float, float, float]] = {}
    for number, row in enumerate(rows):
        left = 10 + (widest - sum(widths[box] for box in row) - ACROSS * (len(row) - 1)) / 2
        for box in row:
            places[box] = (left, 10 + number * (BOX + DOWN), widths[box])
            left += widths[box] + ACROSS
    return places


def svg() -> str:
    """The figure."""
    edges, rooms = reduced(drawn()), rules().ROOMS
    places = placed(levels(edges), rooms)
    width = max(left + wide for left, _, wide in places.values()) + 10
    height = max(top for _, top, _ in places.values()) + BOX + 10
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}">',
             f"<style>{STYLE}</style>", '<rect width="100%" height="100%" style="fill:#fff;stroke:none"/>']
    lines += [line for box in sorted(edges) for goal in sorted(edges[box])
              for line in _arrow(places[box], places[goal])]
    lines += [line for box in sorted(places) for line in _box(box, inside(box, rooms), *places[box])]
    return "\n".join([*lines, "</svg>", ""])


def _arrow(upper: tuple[float, float, float], lower: tuple[float, float, float]) -> list[str]:
    x0, y0 = upper[0] + upper[2] / 2, upper[1] + BOX
    x1, y1 = lower[0] + lower[2] / 2, lower[1] - 6
    bend = min(DOWN, (y1 - y0) / 2)
    return [f'<path d="M{x0:.0f} {y0:.0f} C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}"/>',
            f'<path class="tip" d="M{x1 - 4:.0f} {y1 - 1:.0f} h8 l-4 7 z"/>']


def _box(name: str, rooms: str, left: float, top: float, width: float) -> list[str]:
    kind = ' class="face"' if name == FACE else ""
    middle = left + width / 2
    lines = [f'<rect{kind} x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{BOX}" rx="5"/>']
    for text, y, style in ((name, 21 if rooms else 31, ' class="name"'), (rooms, 40, "")):
        lines += [f'<text{style} x="{middle:.0f}" y="{top + y:.0f}" text-anchor="middle" xml:space="preserve">'
                  f"{escape(text)}</text>"] if text else []
    return lines


if __name__ == "__main__":
    FIGURE.write_text(svg())
