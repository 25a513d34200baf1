"""The reference pages of the site, as Markdown: every public name, the atoms, the classes of defects.

In: moye as it is imported.  Out: ``{page: text}``, for the hooks of MkDocs.  It reads what is imported, and not the
sources as mkdocstrings does: names are loaded on first use, and functions of math, atoms and dtypes are rows of tables.

``mo.<name>`` has the anchor ``mo.<name>`` on exactly one page.
"""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import moye as mo
from moye.mma import ALL
from moye.sim.findings.codes import CODES

GROUPS = (
    ("kernels", "Kernels, launches and checks", ("moye.runtime", "moye.sim.timeline", "moye.pictures", "moye.torch")),
    ("signatures", "Parameters, loops and looking inside",
     ("moye.lang.signature", "moye.lang.trace", "moye.lang.ranges", "moye.lang.unpack", "moye.lang.debug")),
    ("tensors", "Tensors, copies and products", ("moye.tensor",)),
    ("atoms", "Atoms", ("moye.atoms",)),
    ("pipelines", "Pipelines and tile schedulers", ("moye.pipelines", "moye.schedulers")),
    ("threads", "Threads, barriers, atomics", ("moye.lang.builtins", "moye.lang.collectives")),
    ("sm90", "sm_90: mbarriers, clusters, warpgroups", ("moye.lang.hopper",)),
    ("math", "Mathematics, bits and random numbers",
     ("moye.lang.math", "moye.lang.bits", "moye.lang.inline", "moye.lang.random")),
    ("layout", "The layout algebra", ("moye.layout",)),
    ("dtypes", "Dtypes", ("moye.dtypes",)),
    ("errors", "Errors", ("moye.errors",)),
)
"""Page, title, and the rooms whose public names it has; a name is on the page of the longest prefix of its module."""
WHEN = {"T": "tracing", "L": "launch", "S": "simulator", "P": "a lint"}


def pages() -> dict[str, str]:
    """Every generated page of the reference, by its name."""
    made = {f"{page}.md": "\n".join(_names(page, title)) for page, title, _ in GROUPS}
    made["modules.md"] = "\n".join(_modules())
    made["operations.md"] = "\n".join(_operations())
    made["codes.md"] = "\n".join(_codes())
    made["environment.md"] = "\n".join(_environment())
    made["index.md"] = "\n".join(_index())
    return made


def titles() -> list[tuple[str, str]]:
    """Page and title, in the order of the navigation."""
    return [("index.md", "Every name"), *((f"{page}.md", title) for page, title, _ in GROUPS),
            ("modules.md", "Modules"), ("operations.md", "Operations of tensor cores"),
            ("codes.md", "Codes of defects"), ("environment.md", "Environment variables")]


def page_of(name: str) -> str:
    """The page that has ``mo.<name>``."""
    module = mo._HOME[name][0]
    fits = [(len(prefix), page) for page, _, prefixes in GROUPS for prefix in prefixes
            if module == prefix or module.startswith(f"{prefix}.")]
    if not fits:
        raise LookupError(f"mo.{name} is in {module}, which no page has: see GROUPS in docs/site_reference.py")
    return max(fits)[1]


def _names(page: str, title: str) -> Iterator[str]:
    yield f"# {title}\n"
    for name in sorted(mo._HOME, key=str.lower):
        if page_of(name) == page:
            yield from _entry(f"mo.{name}", *mo._HOME[name])


def _entry(shown: str, module: str, attribute: str) -> Iterator[str]:
    """The heading of a name, its signature and docstring; what is no function and no class is shown as it prints."""
    yield f"## `{shown}` {{ #{shown} }}\n"
    yield from described(shown, getattr(importlib.import_module(module), attribute))


def described(shown: str, value: Any) -> Iterator[str]:
    """The signature and the docstring; of a class also its methods and properties."""
    if isinstance(value, type) or inspect.isroutine(value):
        yield f"```py\n{_signature(shown, value)}\n```\n"
    else:
        yield f"`{_plain(value)}`\n"
    if isinstance(value, type | types.FunctionType) or type(value).__module__.startswith("moye"):
        yield f"{words(value)}\n"
    if isinstance(value, type):
        yield from _methods(value)


def words(value: object) -> str:
    """A docstring as Markdown: what a session shows becomes a block of code."""
    lines, inside = [], False
    for line in (inspect.getdoc(value) or "").splitlines():
        if line.startswith(">>>") and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


def _plain(value: object) -> str:
    text = repr(value)
    return text if " at 0x" not in text else type(value).__name__


class _Raw:
    """An annotation that prints as it was written, without quotes."""

    def __init__(self, told: object) -> None:
        self.text = told if isinstance(told, str) else inspect.formatannotation(told)

    def __repr__(self) -> str:
        return self.text.replace("moye.", "")


def _parameters(value: Any) -> tuple[list[str], str]:
    """The parameters as they were written, and what follows them."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ["..."], ")"
    told = [each if each.annotation is each.empty else each.replace(annotation=_Raw(each.annotation))
            for each in signature.parameters.values()]
    empty = signature.return_annotation is signature.empty or isinstance(value, type)
    after = "" if empty else f" -> {_Raw(signature.return_annotation)}"
    inner = str(inspect.Signature(told))
    return _split(inner.removeprefix("(").removesuffix(")")), f"){after}"


def _signature(shown: str, value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, BaseException):
        return shown
    inner, after = _parameters(value)
    line = f"{shown}({', '.join(inner)}{after}"
    if len(line) <= 100:
        return line
    return f"{shown}(\n" + "".join(f"    {part},\n" for part in inner) + after


def _split(parameters: str) -> list[str]:
    """The parameters of a signature: at commas outside of brackets."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "[({") - (letter in "])}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _methods(value: type) -> Iterator[str]:
    """The public methods and properties of a class that have a docstring."""
    for name, member in vars(value).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        inner, after = _parameters(function)
        call = "" if isinstance(member, property) else f"({', '.join(inner[inner[:1] == ['self']:])}{after}"
        yield f"**`.{name}{call if len(call) < 90 else '(...)'}`**\n"
        yield f"{words(function)}\n"


def _modules() -> Iterator[str]:
    yield "# Modules\n\nThe modules of `mo`. What they offer is listed by name.\n"
    for name in mo._MODULES:
        module = getattr(mo, name)
        yield f"## `mo.{name}` {{ #mo.{name} }}\n"
        yield f"{_docstring(module)}\n"
        if name == "mma":
            yield "Its operations have [a page of their own](operations.md).\n"
        for member in public(module) if name not in ("layout", "errors", "mma") else ():
            yield f"### `mo.{name}.{member}` {{ #mo.{name}.{member} }}\n"
            yield from described(member, getattr(module, member))


def public(module: types.ModuleType) -> list[str]:
    """What a module offers: its ``__all__``, or what it defines itself."""
    if told := getattr(module, "__all__", None):
        return list(told)
    return [name for name, value in vars(module).items() if not name.startswith("_")
            and getattr(value, "__module__", module.__name__) == module.__name__ and not inspect.ismodule(value)]


def _docstring(module: types.ModuleType) -> str:
    """The first paragraph of the module's text."""
    return (inspect.getdoc(module) or "").split("\n\n")[0]


def _operations() -> Iterator[str]:
    yield """# Operations of tensor cores

Every operation of `mo.mma` that a warp carries out, under CuTe's name: its shape, the first architecture that has it,
and the dtypes. [Warpgroups](../kernel-language.md#warpgroups) have theirs by dtypes: `mo.mma.wgmma`.
`mo.draw(mo.mma.NAME)` shows who holds what.
"""
    yield "| operation | M, N, K | from | A | B | C |"
    yield "|---|---|---|---|---|---|"
    for name in ALL:
        op = getattr(mo.mma, name)
        yield (f"| `{name}` | {', '.join(map(str, op.shape_mnk))} | sm_{op.arch} | `{op.a_dtype}` | `{op.b_dtype}` | "
               f"`{op.c_dtype}` |")


def _codes() -> Iterator[str]:
    yield """# Codes of defects

The code is at the front of a message, and in `error.code`. `moye explain CODE` tells of it in a terminal. The links
lead to a kernel that has the defect, and the line that mends it.
"""
    yield "| code | found while | what it means |"
    yield "|---|---|---|"
    for code in CODES.values():
        when = ", ".join(WHEN[letter] for letter in code.when.split("/"))
        yield f"| [{code.code}](../{code_page(code.code)}) | {when} | {code.title} |"


def code_page(code: str) -> str:
    """Where docs/ tells of a class of defects: a page, and an anchor of the site."""
    return f"checker.md#{code.lower()}"


def _environment() -> Iterator[str]:
    yield "# Environment variables\n\n`moye env` shows them with their values.\n"
    yield "| variable | default | type | what it does |"
    yield "|---|---|---|---|"
    for variable in mo.env.TABLE:
        yield f"| `{variable.name}` | `{variable.default or '(none)'}` | {variable.type} | {variable.help} |"


def _index() -> Iterator[str]:
    yield ("# Every name\n\nThe public names of `import moye as mo`. For what they mean together, see "
           "[the kernel language](../kernel-language.md).\n")
    for page, title, _ in GROUPS:
        names = [f"[`{name}`]({page}.md#mo.{name})" for name in sorted(mo._HOME, key=str.lower)
                 if page_of(name) == page]
        yield f"**[{title}]({page}.md)**\n\n{' '.join(names)}\n"
    yield "**[Modules](modules.md)**\n\n" + " ".join(f"[`{name}`](modules.md#mo.{name})" for name in mo._MODULES)
