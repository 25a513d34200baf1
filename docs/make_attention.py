"""The steps of docs/attention.md, from docs/attention/step_*.py: written between the page's two marks, with pictures.

    python docs/make_attention.py

Per step: what its docstring says, the code that its file adds, what the checked run counts, what ptxas says, and a
timeline in modelled clocks.  The column of speeds is that of benchmarks/data/attention_steps.csv, which
benchmarks/attention_steps.py writes; where there is none, it says that nobody has measured yet.
"""

from __future__ import annotations

import ast
import csv
import difflib
import importlib
import re
import sys
import textwrap
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import moye as mo
from moye.cuda.compiler.nvrtc import compiler_version

DOCS = Path(__file__).resolve().parent
PAGE, FOLDER = DOCS / "attention.md", DOCS / "attention"
TABLE = DOCS.parent / "benchmarks" / "data" / "attention_steps.csv"
BEGIN, END = "<!-- steps -->\n", "<!-- docs/make_attention.py writes the steps. -->\n"
COUNTED, DRAWN = (1, 256, 512), (1, 128, 768)
"""(heads, queries, keys) of the run whose accesses are counted, and of the one that is drawn."""
PICTURES = {
    "step_6_roles": "Loads are far ahead. But for a part of the time both warpgroups exponentiate and none multiplies.",
    "step_7_turns": "The exponentials of one stand beside the products of the other. Each waits for both its products.",
    "step_8_overlap": "The exponentials begin beside the second product of their own warpgroup, and end earlier."}
"""What is drawn, and what is to be seen."""
UNKNOWN = "not measured yet"
ALIKE = 0.7
"""A kernel that resembles the one before it so much is shown as its difference."""
sys.path.insert(0, str(FOLDER))
import trial  # noqa: E402  beside the steps, which are no package


@dataclass(frozen=True)
class Sheet:
    """What a step asks for: bytes of global memory a score that counts, wavefronts of shared memory per 1,000."""

    launches: int
    bytes: float
    wavefronts: float
    conflicts: int
    busy: float
    shared: int
    registers: int
    spills: int
    instructions: int


def steps() -> list[str]:
    """The modules, in their order."""
    return sorted(path.stem for path in FOLDER.glob("step_*.py"))


def step(name: str) -> ModuleType:
    """One of them."""
    return importlib.import_module(name)


def causal(name: str) -> bool:
    """Whether a step computes causal attention."""
    return "causal" in name


def shape_of(name: str, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """(heads, queries, keys): causal attention has as many queries as keys."""
    return (shape[0], shape[2], shape[2]) if causal(name) else shape


# --- what a step costs -----------------------------------------------------------------------------------------------


def checked(name: str, shape: tuple[int, int, int], **options: Any) -> list[Any]:
    """The reports of a step's launches, all clean, on arrays of this shape; its result is compared."""
    arrays = trial.arrays(*shape_of(name, shape))
    reports: list[Any] = []
    step(name).attention(*arrays, run=lambda kernel: trial.Noted(mo.check(kernel, **options), reports))
    off = trial.error(arrays[0], trial.exact(*arrays[1:], causal(name)))
    assert off < trial.NORM, f"{name} is off by {off}"
    assert all(report.ok for report in reports), "\n".join(map(str, reports))
    return reports


def programs(name: str) -> tuple[Any, ...]:
    """The kernels of a step, compiled for sm_90a."""
    with mo.compile_only("sm_90a") as gathered:
        step(name).attention(*trial.arrays(*shape_of(name, COUNTED)))
    return gathered.programs


def sheet(name: str) -> Sheet:
    """What the run counts, and what ptxas says."""
    reports, compiled = checked(name, COUNTED, timeline=True), programs(name)
    heads, queries, keys = shape_of(name, COUNTED)
    scores = heads * queries * ((keys + 1) / 2 if causal(name) else keys)
    lines = [line for report in reports for line in report.counters()["lines"]]
    shared = [line for line in lines if line["space"] == "shared"]
    model = max((report.timeline().modelled() for report in reports), key=lambda each: each.busy("tensor"))
    return Sheet(len(reports), 32 * sum(line.get("sectors", 0) for line in lines) / scores,
                 1000 * sum(line["wavefronts"] for line in shared) / scores,
                 sum(line["wavefronts"] - line["ideal"] for line in shared), model.busy("tensor"),
                 max(program.smem for program in compiled), max(program.registers for program in compiled),
                 sum(program.spills for program in compiled), sum(map(instructions, compiled)))


def instructions(program: Any) -> int:
    """How many instructions a kernel has, without the padding behind its end."""
    return sum("NOP" not in line for line in re.findall(r"/\*[0-9a-f]{4,}\*/ +(.*?;)", program.sass))


# --- the code that is new --------------------------------------------------------------------------------------------


def said(name: str) -> tuple[str, str]:
    """The title of a step, and its text."""
    title, _, text = (step(name).__doc__ or "").strip().partition("\n\n")
    return title, " ".join(text.split())


def parts(name: str) -> list[str]:
    """What a file defines, below its imports: constants with their texts, classes, functions."""
    text = (FOLDER / f"{name}.py").read_text()
    lines, found = text.splitlines(), []
    nodes = [node for node in ast.parse(text).body[1:] if not isinstance(node, (ast.Import, ast.ImportFrom, ast.If))]
    for node in nodes:
        decorators = getattr(node, "decorator_list", [])
        first = decorators[0].lineno if decorators else node.lineno
        part = "\n".join(lines[first - 1:node.end_lineno])
        if isinstance(node, ast.Expr) and found:        # the text of the constants above it
            found[-1] += f"\n{part}"
        else:
            found.append(part)
    return found


def code(name: str, before: str | None) -> str:
    """Fenced blocks: what is new, and a kernel that is much like the one before as its difference."""
    kernel = next((part for part in parts(before) if part.startswith("@mo.kernel")), "") if before else ""
    blocks: list[tuple[str, list[str]]] = []
    for part in parts(name):
        alike = part.startswith("@mo.kernel") and difflib.SequenceMatcher(
            None, kernel.splitlines(), part.splitlines()).ratio() > ALIKE
        language = "diff" if alike else "py"
        shown = difference(kernel, part) if alike else part
        if blocks and blocks[-1][0] == language == "py":
            blocks[-1][1].append(shown)
        else:
            blocks.append((language, [shown]))
    return "\n\n".join(f"```{language}\n{joined(texts)}\n```" for language, texts in blocks)


def joined(texts: list[str]) -> str:
    """Two empty lines around functions and classes, none between constants."""
    text = texts[0]
    for before, after in pairwise(texts):
        plain = not any(each.startswith(("@", "def ", "class ")) for each in (before, after))
        text += ("\n" if plain else "\n\n\n") + after
    return text


def difference(before: str, after: str) -> str:
    """Lines that go and come, with one around them."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    return "\n".join("..." if line.startswith("@@") else line for line in list(lines)[2:])


# --- the page --------------------------------------------------------------------------------------------------------


def measured() -> dict[str, dict[str, str]]:
    """The rows of the table of speeds, by name; none where nobody has measured."""
    if not TABLE.exists():
        return {}
    with TABLE.open() as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def speed(rows: dict[str, dict[str, str]], name: str) -> str:
    """Two columns: TFLOP/s, and the ratio to cuDNN in the same run."""
    row = rows.get(name)
    return f"{UNKNOWN} | " if row is None else f"{float(row['tflops']):.0f} | {float(row['of_cudnn']):.2f}"


def section(number: int, name: str, before: str | None, costs: Sheet) -> str:
    """A step."""
    title, text = said(name)
    conflicts = f"{costs.conflicts} of them from bank conflicts" if costs.conflicts else "no bank conflicts"
    counted = (f"A score asks for {costs.bytes:,.1f} bytes of global memory, 1,000 scores for {costs.wavefronts:,.0f} "
               f"wavefronts of shared memory, {conflicts}. {costs.shared:,} bytes of shared memory, {costs.registers} "
               f"registers, {costs.spills} spills, {costs.instructions:,} instructions. "
               f"[{name}.py](attention/{name}.py)")
    picture = f"![{title}: a block in modelled clocks](attention/{name}.svg)"
    shown = [picture, PICTURES[name]] if name in PICTURES else []
    return "\n\n".join([f"### {number}. {title}", wrapped(text), code(name, before), wrapped(counted), *shown])


def wrapped(text: str) -> str:
    """In lines as those of the other pages."""
    return textwrap.fill(text, 132, break_on_hyphens=False, break_long_words=False)


def table(sheets: dict[str, Sheet]) -> str:
    """All steps, the library and cuDNN."""
    rows, lines = measured(), [
        "| step | launches | bytes a score | wavefronts per 1,000 | tensor cores busy, modelled | shared memory | "
        "registers | instructions | H200, TFLOP/s | of cuDNN |", f"|{'---|' * 10}"]
    for number, (name, costs) in enumerate(sheets.items(), 1):
        busy = f"{costs.busy:.0%}" if costs.busy else ""
        lines.append(f"| {number}. {said(name)[0]} | {costs.launches} | {costs.bytes:,.1f} | "
                     f"{costs.wavefronts:,.0f} | {busy} | {costs.shared:,} | {costs.registers} | "
                     f"{costs.instructions:,} | {speed(rows, name)} |")
    for name in ("attention", "attention, causal"):
        lines.append(f"| `moye.kernels.{name.partition(',')[0]}`{name.partition(',')[1]}{name.partition(',')[2]} "
                     f"|  |  |  |  |  |  |  | {speed(rows, name)} |")
    return "\n".join(lines)


def filled(page: str, sheets: dict[str, Sheet]) -> str:
    """The page with the steps between its marks."""
    head, rest = page.split(BEGIN)
    sections = [section(number, name, steps()[number - 2] if number > 1 else None, costs)
                for number, (name, costs) in enumerate(sheets.items(), 1)]
    body = "\n\n".join([*sections, f"### All together\n\n{note()}\n\n{table(sheets)}"])
    return f"{head}{BEGIN}\n{body}\n\n{END}{rest.split(END)[1]}"


def note() -> str:
    """What the columns of the table are."""
    rows, (_, queries, keys) = measured(), COUNTED
    where = f"on {next(iter(rows.values()))['device']}" if rows else "on an H200; nobody has measured yet"
    return wrapped(
        f"Bytes of global memory and wavefronts of shared memory are those of one head of {queries} queries and {keys} "
        f"keys. What TMA brings to shared memory and `wgmma` reads there makes no wavefronts of a warp. The model is "
        f"that of [timelines](timeline.md#in-modelled-clocks); it counts tiles alone. Registers and instructions are "
        f"those of {compiler()}. Speeds are measured by "
        f"[attention_steps.py](../benchmarks/attention_steps.py) {where}: 32 heads of 4,096 queries and keys, beside "
        f"cuDNN in the same run; 1 to 8 are full, 9 is causal.")


def compiler() -> str:
    """Which compiler the figures of compiled kernels are of."""
    return compiler_version().partition("+")[0].replace("nvrtc-", "NVRTC ")


def picture(name: str) -> str:
    """A block of a step in modelled clocks."""
    report, = checked(name, DRAWN, timeline=True)
    return str(report.timeline().modelled().svg())


def main() -> None:
    """Write the page and its pictures."""
    for name in PICTURES:
        (FOLDER / f"{name}.svg").write_text(picture(name))
    PAGE.write_text(filled(PAGE.read_text(), {name: sheet(name) for name in steps()}))


if __name__ == "__main__":
    main()
