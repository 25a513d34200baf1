"""Sheet -> LaTeX: a document of one page, cut to the picture, drawn by TikZ.

In: a ``Sheet``.  Out: the text of a .tex file for pdflatex, xelatex or lualatex.

    print(render(sheet).splitlines()[0])      # \\documentclass{article}

It needs the packages geometry and tikz alone.  Letters that plain LaTeX fonts lack are printed as question marks.
"""

from __future__ import annotations

from moye.pictures.model import Sheet
from moye.pictures.palette import PLAIN, TINTS
from moye.pictures.scene import FONT, LEADING, Box, Rule, Words, scene_of

POINT = 0.75                                            # TeX's bp in one pixel
_SPECIAL = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
            "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
_MISSING = "ÐÞðþ×÷"
_ANCHOR = {"start": "west", "middle": "center", "end": "east"}


def render(sheet: Sheet) -> str:
    """The document."""
    scene = scene_of(sheet)
    colours = [f"\\definecolor{{moye{i}}}{{HTML}}{{{tint[1:].upper()}}}" for i, tint in enumerate(TINTS)]
    size = f"paperwidth={_n(scene.width * POINT)}bp,paperheight={_n(scene.height * POINT)}bp"
    return "\n".join([
        r"\documentclass{article}", r"\usepackage[utf8]{inputenc}", rf"\usepackage[{size},margin=0pt]{{geometry}}",
        r"\usepackage{tikz}",
        rf"\definecolor{{moyeplain}}{{HTML}}{{{PLAIN[1:].upper()}}}", *colours,
        r"\tikzset{words/.style={inner sep=0pt,outer sep=0pt,font=\ttfamily}}",
        r"\pagestyle{empty}", r"\setlength{\parindent}{0pt}", r"\setlength{\topskip}{0pt}",
        r"\begin{document}%",
        r"\begin{tikzpicture}[x=0.75bp,y=-0.75bp]",
        rf"\useasboundingbox (0,0) rectangle ({_n(scene.width)},{_n(scene.height)});",
        *(line for box in scene.boxes for line in _box(box)), *map(_rule, scene.rules), *map(_words, scene.words),
        r"\end{tikzpicture}", r"\end{document}", ""])


def _box(box: Box) -> list[str]:
    colour = "moyeplain" if box.cell.colour is None else f"moye{box.cell.colour % len(TINTS)}"
    x, y = box.x + box.width / 2, box.y + box.height / 2
    first = y - (len(box.cell.lines) - 1) * FONT * LEADING / 2
    lines = [_node(x, first + i * FONT * LEADING, line, FONT) for i, line in enumerate(box.cell.lines) if line]
    return [f"\\filldraw[fill={colour},draw=gray,line width=0.4bp] ({_n(box.x)},{_n(box.y)}) rectangle "
            f"({_n(box.x + box.width)},{_n(box.y + box.height)});", *lines]


def _node(x: float, y: float, text: str, size: float, anchor: str = "center", bold: bool = False) -> str:
    points = f"\\fontsize{{{_n(size * POINT)}}}{{{_n(size * POINT * LEADING)}}}\\selectfont"
    weight = "\\bfseries" if bold else ""
    return f"\\node[words,anchor={anchor}] at ({_n(x)},{_n(y)}) {{{points}{weight} {escape(text)}}};"


def _words(words: Words) -> str:
    return _node(words.x, words.y, words.text, words.size, _ANCHOR[words.anchor], words.bold)


def _rule(rule: Rule) -> str:
    return (f"\\draw[line width={_n(rule.width * POINT)}bp] ({_n(rule.x1)},{_n(rule.y1)}) -- "
            f"({_n(rule.x2)},{_n(rule.y2)});")


def escape(text: str) -> str:
    """A text as LaTeX prints it; what its standard fonts lack becomes a question mark."""
    return "".join(_SPECIAL.get(c, c if c.isascii() or ("À" <= c <= "ÿ" and c not in _MISSING) else "?") for c in text)


def _n(x: float) -> str:
    return f"{x:.2f}".rstrip("0").rstrip(".")
