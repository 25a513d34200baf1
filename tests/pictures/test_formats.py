"""Each format is what its readers accept: XML parsers, Typst's compiler, pdflatex; texts fit, colours can be read."""

from __future__ import annotations

import re
import subprocess
from itertools import combinations
from xml.etree import ElementTree

import pytest
import typst

import moye as mo
from moye.pictures import palette, svg, tikz
from moye.pictures import typst as typst_format
from moye.pictures.model import numbers
from moye.pictures.scene import FONT, scene_of, text_width
from picture_cases import CASES
from tools import programs

SVG = "{http://www.w3.org/2000/svg}"
EVERY = pytest.mark.parametrize("name", CASES)


@EVERY
def test_svg_is_well_formed_and_has_every_cell(name):
    picture = CASES[name]()
    root = ElementTree.fromstring(picture.svg)
    assert root.tag == f"{SVG}svg"
    width, height = float(root.get("width")), float(root.get("height"))
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    expected = [cell for panel in picture.sheet.panels for cell in panel.cells]
    groups = root.findall(f"{SVG}g")
    assert len(groups) == len(expected)
    for group, cell in zip(groups, expected, strict=True):
        assert [text.text or "" for text in group.findall(f"{SVG}text")] == list(cell.lines)
        assert group.find(f"{SVG}title").text == ", ".join(f"{key} {value}" for key, value in cell.facts())
        assert group.get("data-coordinate") == cell.coordinate
        assert group.get("data-thread", "").split() == [str(thread) for thread in cell.threads]
        rect = group.find(f"{SVG}rect")
        assert rect.get("fill") == palette.fill(cell.colour)
        x, y, w, h = (float(rect.get(key)) for key in ("x", "y", "width", "height"))
        assert x >= 0 and x + w <= width and y >= 0 and y + h <= height
    assert root.get("aria-label") == picture.sheet.title


@EVERY
def test_nothing_overlaps_and_everything_fits(name):
    scene = scene_of(CASES[name]().sheet)
    corners = {(box.x, box.y) for box in scene.boxes}
    assert len(corners) == len(scene.boxes)
    for box in scene.boxes:
        assert all(text_width(line, FONT) <= box.width for line in box.cell.lines)
        assert len(box.cell.lines) * FONT <= box.height
    for one, other in combinations(scene.boxes[:64], 2):
        assert (one.x + one.width <= other.x + 0.01 or other.x + other.width <= one.x + 0.01
                or one.y + one.height <= other.y + 0.01 or other.y + other.height <= one.y + 0.01)
    for words in scene.words:
        width = text_width(words.text, words.size)
        left = words.x - {"start": 0, "middle": width / 2, "end": width}[words.anchor]
        assert left >= 0 and left + width <= scene.width
        assert 0 <= words.y <= scene.height


def test_blocks_of_an_mma_line_up():
    boxes = scene_of(CASES["tensor_core"]().sheet).boxes
    b, a, c = ({(box.cell.row, box.cell.column): box for box in boxes if box.panel == i} for i in range(3))
    assert all(b[0, j].x == c[0, j].x for j in range(8))
    assert all(a[i, 0].y == c[i, 0].y for i in range(16))
    assert b[7, 0].y + b[7, 0].height < c[0, 0].y
    assert a[0, 7].x + a[0, 7].width < c[0, 0].x


@EVERY
def test_text_is_aligned(name):
    picture = CASES[name]()
    lines = picture.text.splitlines()
    assert all(line == line.rstrip() for line in lines)
    assert lines[0] == picture.sheet.title
    single = len(picture.sheet.panels) == 1
    if single:
        drawn = [line for line in lines if re.search("[│┌├╞└]", line)]
        assert len({len(line) for line in drawn}) == 1
        bars = [[i for i, c in enumerate(line) if c in "│║┌┬╥┐├┼╫┤╞╪╬╡└┴╨┘"] for line in drawn]
        assert all(places == bars[0] for places in bars)


def test_hierarchy_is_drawn():
    text = mo.draw("((2,2),(2,2))").text
    assert text.count("╬") == 1
    assert text.count("║") == 4
    scene = scene_of(mo.draw("((2,2,2),4)").sheet)
    assert sorted(rule.width for rule in scene.rules) == [2.0, 2.0, 3.0]


@EVERY
def test_typst_compiles(name, tmp_path):
    path = CASES[name]().save(tmp_path / "picture.typ")
    drawn = typst.compile(str(path), format="svg")
    assert drawn.count(b"<svg") == 1, "one page"
    assert CASES[name]().typst.count("\n#cell(") == sum(len(p.cells) for p in CASES[name]().sheet.panels)


def test_a_typst_error_is_seen(tmp_path):
    (tmp_path / "bad.typ").write_text(CASES["layout"]().typst + "#nonsense")
    with pytest.raises(typst.TypstError):
        typst.compile(str(tmp_path / "bad.typ"), format="svg")


@pytest.mark.slow
@EVERY
def test_latex_compiles(name, tmp_path):
    (pdflatex,) = programs("latex")
    path = CASES[name]().save(tmp_path / "picture.tex")
    done = subprocess.run([pdflatex, "-interaction=nonstopmode", "-halt-on-error", path.name], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "(1 page," in re.sub(r"\s+", " ", done.stdout)
    assert "Overfull" not in done.stdout
    assert "Missing character" not in (tmp_path / "picture.log").read_text(errors="replace")


@EVERY
def test_latex_has_balanced_braces_and_every_cell(name):
    picture = CASES[name]()
    bare = re.sub(r"\\[\\{}]", "", picture.latex)
    depth = 0
    for c in bare:
        depth += (c == "{") - (c == "}")
        assert depth >= 0
    assert depth == 0
    for begin, end in (("{document}", "{document}"), ("{tikzpicture}", "{tikzpicture}")):
        assert picture.latex.count(rf"\begin{begin}") == picture.latex.count(rf"\end{end}") == 1
    assert picture.latex.count(r"\filldraw") == sum(len(panel.cells) for panel in picture.sheet.panels)


def test_special_characters():
    nasty = '<&>"\'`\\{}$#%_^~-é→'
    assert tikz.escape("a_b\\{x}%→") == r"a\_b\textbackslash{}\{x\}\%?"
    assert typst_format.quote('a"b\\') == r'"a\"b\\"'
    picture = mo.draw("(1,1)", title=nasty)
    root = ElementTree.fromstring(picture.svg)
    assert root.findall(f"{SVG}text")[0].text == nasty
    assert picture.text.startswith(nasty)
    assert "<title>&lt;&amp;&gt;&quot;" in picture.html


def luminance(colour):
    channels = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_read():
    """WCAG 2, level AAA for text: 7 to 1."""
    assert all(contrast(tint, palette.TEXT) >= 7 for tint in (*palette.TINTS, palette.PLAIN))
    assert contrast(*palette.LIGHT) >= 7
    assert contrast(*palette.DARK) >= 7
    assert palette.DARK[0] in svg.STYLE and "prefers-color-scheme: dark" in svg.STYLE


# Machado, Oliveira & Fernandes 2009: how protanopes, deuteranopes and tritanopes see linear RGB.
BLINDNESS = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


@pytest.mark.parametrize("kind", BLINDNESS)
def test_tints_stay_apart_for_colour_blind_readers(kind):
    seen = []
    for tint in palette.TINTS:
        rgb = [int(tint[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
        mixed = [min(1, max(0, sum(m * c for m, c in zip(row, linear, strict=True)))) for row in BLINDNESS[kind]]
        seen.append([c ** (1 / 2.2) for c in mixed])
    closest = min(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5 for a, b in combinations(seen, 2))
    assert closest > 0.1, f"{closest:.3f}"


def test_long_lists_of_threads_are_shortened():
    assert numbers(tuple(range(8))) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert numbers(tuple(range(0, 256, 8))) == "0, 8, 16, ... 248 (32 in all)"


def test_files_need_nothing_from_elsewhere():
    for name in CASES:
        picture = CASES[name]()
        for text in (picture.html, picture.svg, picture.typst, picture.latex):
            assert set(re.findall(r"https?://[^\"' )]*", text)) <= {"http://www.w3.org/2000/svg"}
            assert not re.search(r"@import|url\(|<link|src=|#import|fetch\(", text)
