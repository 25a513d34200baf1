"""docs/puzzles.md and its pictures, from the book of puzzles: ``python docs/make_puzzles.py`` writes them."""

from __future__ import annotations

from pathlib import Path

from moye.puzzles import Page, pages

DOCS = Path(__file__).parent
PAGE = DOCS / "puzzles.md"
PICTURES = DOCS / "puzzles"
HEAD = """\
# Puzzles

Kernels with holes, or with a fault, in the order in which one learns. Each has one idea. moye's simulator judges the
answer, on any machine: the result for lengths, strides and values that you do not see, races, reads of what nobody
wrote, bank conflicts, sectors of global memory, and how many products run while copies are under way. No GPU is needed.

```sh
pip install '.[cli]'                            # in a clone of moye
moye puzzles                                    # all of them, and which are solved
moye puzzles start 6                            # writes puzzles/p06_first_copy.py, and says what it asks for
moye puzzles check puzzles/p06_first_copy.py    # the verdict
moye puzzles hint 6                             # a hint; each time the next one
moye puzzles solution 6                         # one solution
moye puzzles notebook                           # all of them as puzzles.ipynb
```

Progress is kept in `puzzles/progress.json`, in the folder where you work. In Python,
`moye.puzzles.check(6, "puzzles/p06_first_copy.py")` gives the verdict. It is made by
[`mo.testing.judge`](judge.md), which judges any kernel.

On the site, each puzzle can be solved here: its button makes the code a field, and the verdict comes from moye in your
browser. A browser has no processes, so the answer is judged in the one that runs it: without limits on time and memory
(*Stop* ends it), and without a look for answers that change the judge. NumPy is loaded with the first verdict.

<script type="module" src="browser/puzzles.js"></script>
"""


def section(page: Page) -> str:
    """One puzzle: statement, picture, what is handed out."""
    picture = "" if page.puzzle.picture is None else f"\n![{page.title}](puzzles/{page.name}.svg)\n"
    return f"### {page.number}. {page.title}\n\n{page.statement}\n{picture}\n```py\n{page.code}```\n"


def text() -> str:
    """The page."""
    parts, chapter = [HEAD], ""
    for page in pages():
        if page.chapter != chapter:
            chapter = page.chapter
            parts.append(f"## {chapter}\n")
        parts.append(section(page))
    return "\n".join(parts)


def picture(page: Page) -> str | None:
    """The picture of a puzzle as SVG."""
    drawn = page.picture
    if drawn is None:
        return None
    return str(drawn.render("svg") if hasattr(drawn, "render") else drawn.svg())


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    wanted = {PICTURES / f"{page.name}.svg": drawn for page in pages() if (drawn := picture(page)) is not None}
    for old in set(PICTURES.glob("*.svg")) - set(wanted):
        old.unlink()
    for path, drawn in wanted.items():
        path.write_text(drawn, encoding="utf-8")
