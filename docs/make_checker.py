"""The classes of docs/checker.md, from examples/broken: ``make pictures`` writes them between the page's two marks.

Per class: what its example says, the one line that its twin has otherwise, and the report.
"""

from __future__ import annotations

import ast
import difflib
import json
from collections import Counter
from pathlib import Path

from moye.sim.findings.codes import CODES

DOCS = Path(__file__).parent
PAGE = DOCS / "checker.md"
BROKEN = DOCS.parent / "examples" / "broken"
SANITIZER = DOCS / "sanitizer.json"
MARK = "The report:\n\n"
MUTANTS = DOCS.parent / "tests" / "mutants" / "verdicts.json"
VERDICTS = ("violation", "rejected", "wrong", "right")
WHAT = {"sync": "barrier, wait, commit, fence", "predicate": "predicate", "stage": "stage index", "layout": "layout"}
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def stems() -> list[str]:
    """The examples in the order of the catalogue."""
    found = {p.stem for p in BROKEN.glob("*.py") if not p.stem.endswith("_fixed")}
    return sorted(found, key=lambda stem: (list(CODES).index(code_of(stem)), stem))


def code_of(stem: str) -> str:
    return stem.split("_")[0].upper()


def parts(stem: str) -> tuple[str, str, list[str]]:
    """What an example says, its report, and the lines below its docstring."""
    text = (BROKEN / f"{stem}.py").read_text()
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant), f"{stem} has a docstring"
    said, _, report = str(node.value.value).partition(MARK)
    return said.strip(), report.strip(), text.splitlines()[node.end_lineno:]


def difference(stem: str) -> str:
    """What the twin has otherwise: one line, with - and + before it."""
    before, after = parts(stem)[2], parts(f"{stem}_fixed")[2]
    changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-" and line[2:].strip()
               and not line[2:].startswith("# ruff")]
    return "\n".join(f"{line[0]} {line[2:].strip()}" for line in changed)


def section(stem: str) -> str:
    code = CODES[code_of(stem)]
    said, report, _ = parts(stem)
    paragraphs = said.split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)
    return (f"### {code.code}: {code.title}\n\n{text}\n\n```diff\n{difference(stem)}\n```\n```text\n"
            f"{report.split(chr(10) * 2)[0]}\n```\n\n[{stem}.py](../examples/broken/{stem}.py)")


def classes() -> str:
    return "\n\n".join(map(section, stems()))


def sanitizer() -> str:
    """compute-sanitizer's words beside the codes, from the figures that benchmarks/sanitizer.py wrote."""
    said = json.loads(SANITIZER.read_text())
    rows = [f"| class | {' | '.join(TOOLS)} |", "|---|" + "---|" * len(TOOLS)]
    rows += (f"| [{code_of(stem)}](../examples/broken/{stem}.py) | "
             + " | ".join(said[stem][tool][0] for tool in TOOLS) + " |" for stem in stems() if stem in said)
    rest = ", ".join(dict.fromkeys(code_of(stem) for stem in stems() if stem not in said and not stem.startswith("p")))
    return "\n".join([*rows, "", f"Not run there: {rest}."] if rest else rows)


def mutants() -> str:
    """How many mutants of each kind there are, and what became of them."""
    subjects = json.loads(MUTANTS.read_text()).values()
    records = [(name.split()[0], record) for of in subjects for name, record in of.items()]
    heads = ("changed", "mutants", "violation", "refused", "wrong, V1", "clean and right", "change results on the H200",
             "of them clean")
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for kind in WHAT:
        of = [record for k, record in records if k == kind]
        verdicts = Counter(record["simulator"]["verdict"] for record in of)
        changed = [r["simulator"]["verdict"] for r in of if r.get("gpu", {}).get("changed")]
        rows.append(f"| {WHAT[kind]} | {len(of)} | " + " | ".join(str(verdicts[v]) for v in VERDICTS)
                    + f" | {len(changed)} | {changed.count('right')} |")
    return "\n".join(rows)


def filled(page: str) -> str:
    """The page with what stands between its marks written anew."""
    for name, text in (("classes", classes()), ("sanitizer", sanitizer()), ("mutants", mutants())):
        start, end = f"<!-- {name}: docs/make_checker.py -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(start)
        _, _, after = rest.partition(end)
        page = f"{before}{start}\n{text}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
