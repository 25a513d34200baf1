"""The names that MOYE_CHECK chooses classes of defects by, and what a class means, for ``moye explain``.

In: the classes of codes.py.  Out: ``GROUPS``; the codes that names mean; an explanation.

>>> sorted(chosen(["bounds", "d3"]))
['B1', 'B2', 'D3']
"""

from __future__ import annotations

from collections.abc import Iterable

from moye.errors import MoyeError
from moye.sim.findings.codes import CODES, hints, page_of

_WHEN = {"T": "while a kernel is traced", "L": "at a launch", "S": "in the simulator",
         "P": "as a lint, which never fails"}


def explanation(code: str) -> str:
    """What a class means, when it is found, what mends it, and where to read on; MoyeError for a code that is none."""
    found = CODES.get(code.upper())
    if found is None:
        raise MoyeError(f"there is no class {code!r} of defects; the classes are {', '.join(CODES)}")
    when = " and ".join(_WHEN[letter] for letter in found.when.split("/"))
    lines = [f"{found.code}: {found.title}", f"found {when}"]
    lines += [f"hint: {text}" for text in hints(found.code) if "{" not in text]
    groups = [name for name, codes in GROUPS.items() if found.code in codes]
    lines += [f"MOYE_CHECK={','.join(groups)} looks for it"] if groups else []
    lines.append(f"a kernel that has it, and the line that mends it: docs/checker.md, {found.code}; "
                 f"in the site {page_of(found.code)}")
    return "\n".join(lines)


GROUPS: dict[str, frozenset[str]] = {
    "bounds": frozenset({"B1", "B2"}),
    "alignment": frozenset({"B3", "B4", "B5"}),
    "uninitialised": frozenset({"B6", "B7", "B8", "B11", "E2", "E5"}),
    "races": frozenset({"B9", "C1", "C2", "C3", "D3", "D4", "D6", "D13", "D15", "D16", "D17", "D19", "E3", "E4", "F1",
                        "G1", "G2", "G3", "G5"}),
    "copies": frozenset({"D1", "D2", "D3", "D4", "B9", "D6", "D7", "D8", "D12", "D13", "D14", "D15", "D16", "D17",
                         "D18", "D20", "D21", "D22", "E1", "E2", "E3", "E4", "F1", "F2"}),
    "barriers": frozenset({"C4", "C5", "C6", "C7", "D7", "D8", "D9", "D10", "D11", "E6", "F1", "F3", "F4", "F5",
                           "F6", "F7", "G4"}),
    "overflow": frozenset({"A11"}),
    "asserts": frozenset({"A12"}),
}
"""What the simulator judges, by the names of MOYE_CHECK and in the order in which a Report tells it."""


SHORT = {"align": "alignment", "init": "uninitialised", "uninitialized": "uninitialised", "race": "races",
         "copy": "copies", "barrier": "barriers", "assert": "asserts"}
"""Other names of groups."""


def chosen(names: Iterable[str]) -> frozenset[str]:
    """The codes of the groups and classes named, in any case; MoyeError for a name that is none."""
    return frozenset[str]().union(*(_named(name) for name in sorted(names)))


def _named(name: str) -> frozenset[str]:
    low, code = name.lower(), CODES.get(name.upper())
    if low == "all":
        return frozenset(code for code, row in CODES.items() if row.when != "P")
    if code is not None:
        if code.when == "P":
            raise MoyeError(f"MOYE_CHECK: {code.code} ({code.title}) is a lint, and no lint makes a launch fail",
                            hint="mo.check(kernel) reports lints")
        return frozenset({code.code})
    group = SHORT.get(low, low)
    if group not in GROUPS:
        raise MoyeError(f"MOYE_CHECK: there is no checker {name!r}; the checkers are {', '.join(GROUPS)}, all, and "
                        f"classes such as D3")
    return GROUPS[group]
