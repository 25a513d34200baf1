"""The house (DESIGN.md, section 3) as a test: layer order, sizes, names, and what an import may pull in."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "moye"

# A module may import only from entries above its own.
LAYERS = ["errors", "env", "depth", "origin", "dtypes", "display", "layout", "atoms", "mma", "ir", "tensor", "lang",
          "pipelines", "schedulers", "passes", "cuda", "sim", "runtime", "pictures", "testing", "pytest_plugin", "cli", "kernels"]
# The same inside a package; a module that is not listed is bound only by the ban on cycles.
INSIDE = {
    "layout": ["ints", "tuples", "layout", "algebra", "swizzle", "analysis"],
    "atoms": ["atom", "universal", "warp", "sm70", "sm75", "sm80", "sm89", "sm90"],
    "ir": ["nodes", "ops", "verify", "builder"],
    "tensor": ["expr", "tensor", "tiled", "algorithms"],
    "lang": ["rewrite", "control", "builtins", "trace"],
    "cuda": ["printer", "cubin", "nvrtc", "driver"],
    "sim": ["memory", "semantics", "machine", "checkers"],
    "runtime": ["cache", "arrays", "compile", "kernel", "tune"],
}
# The back ends and the passes read the IR and the atoms and nothing above them; the back ends are brothers.
FRONT = {"tensor", "lang", "pipelines", "schedulers"}
NEVER = {"passes": FRONT, "cuda": FRONT, "sim": FRONT | {"cuda"}}
STDLIB_ONLY = {"errors", "env", "origin", "dtypes", "display", "layout"}
BAD_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "core", "base"}
MAX_FILE, MAX_FUNCTION, MAX_MEDIAN, MAX_DOCSTRING = 500, 60, 15, 12

Function = ast.FunctionDef | ast.AsyncFunctionDef


class House:
    """A source tree: its modules by dotted name below the root package ('' is the package itself)."""

    def __init__(self, root: Path) -> None:
        self.trees: dict[str, ast.Module] = {}
        self.texts: dict[str, str] = {}
        self.packages: set[str] = set()
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
                self.packages.add(".".join(parts))
            name = ".".join(parts)
            self.texts[name] = path.read_text()
            self.trees[name] = ast.parse(self.texts[name])

    def imports(self, module: str) -> Iterator[tuple[str, int]]:
        """(dotted absolute name, line) of everything that a module imports, wherever the statement stands."""
        for node in ast.walk(self.trees[module]):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                package = self._origin(module, node)
                for alias in node.names:
                    yield f"{package}.{alias.name}", node.lineno

    def _origin(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        here = ["moye", *filter(None, module.split("."))]
        up = node.level - (module in self.packages)
        return ".".join([*here[: len(here) - up], *([node.module] if node.module else [])])

    def own(self, name: str) -> str | None:
        """The module of this tree that the absolute name lies in, or None for a foreign one."""
        if name != "moye" and not name.startswith("moye."):
            return None
        parts = name.split(".")[1:]
        while parts and ".".join(parts) not in self.trees:
            parts.pop()
        return ".".join(parts)


def _rank(module: str) -> int:
    head = module.split(".")[0]
    return LAYERS.index(head) if head in LAYERS else -1


def layer_violations(house: House) -> list[str]:
    found = []
    for module in house.trees:
        if not module:
            continue                                    # moye/__init__.py: the public names, lazy
        if _rank(module) < 0:
            found.append(f"{module}: no layer of DESIGN.md section 3")
            continue
        for name, line in house.imports(module):
            target = house.own(name)
            if target is not None and (why := _forbidden(module, target)):
                found.append(f"{module}:{line}: imports {target or 'moye'}, {why}")
    return found


def _forbidden(module: str, target: str) -> str | None:
    head, goal = module.split(".")[0], target.split(".")[0]
    if head == "kernels":
        return None if goal in ("", "kernels") else "but kernels use the public API only"
    if not goal:
        return "but the public names sit above every module"
    if goal in NEVER.get(head, ()):
        return "which the IR separates it from"
    if head != goal:
        return "which lies below it in the layer order" if _rank(target) > _rank(module) else None
    order = INSIDE.get(head, [])
    mine, its = module.partition(".")[2].split(".")[0], target.partition(".")[2].split(".")[0]
    if mine != its and mine in order and its in order and order.index(its) > order.index(mine):
        return "which lies below it in the package's order"
    return None


def cycles(house: House) -> list[str]:
    edges = {m: {t for name, _ in house.imports(m) if (t := house.own(name)) is not None and t != m}
             for m in house.trees if m}
    found: list[str] = []
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            found.append(" -> ".join([*path[path.index(module):], module]))
        elif module not in done:
            for target in sorted(edges.get(module, ())):
                visit(target, [*path, module])
            done.add(module)

    for module in edges:
        visit(module, [])
    return found


def foreign_imports(house: House) -> list[str]:
    return [f"{module}:{line}: imports {name}, but this module is standard library only"
            for module in house.trees if module.split(".")[0] in STDLIB_ONLY or not module
            for name, line in house.imports(module)
            if house.own(name) is None and name.split(".")[0] not in sys.stdlib_module_names]


def functions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """(name, line, length) of every function, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def size_violations(house: House) -> list[str]:
    found = []
    for module, tree in house.trees.items():
        lines = house.texts[module].count("\n")
        if lines > MAX_FILE:
            found.append(f"{module}: {lines} lines, more than {MAX_FILE}")
        found += [f"{module}:{line}: {name} has {length} lines, more than {MAX_FUNCTION}"
                  for name, line, length in functions(tree) if length > MAX_FUNCTION]
        docstring = ast.get_docstring(tree)
        if tree.body and not docstring:
            found.append(f"{module}: no module docstring")
        if docstring and docstring.count("\n") >= MAX_DOCSTRING:
            found.append(f"{module}: docstring of {docstring.count(chr(10)) + 1} lines, more than {MAX_DOCSTRING}")
    return found


def name_violations(house: House) -> list[str]:
    return [f"{module}: a module called {part} says nothing" for module in house.trees
            for part in module.split(".")[-1:] if part.strip("_") in BAD_NAMES]


def mute_asserts(house: House) -> list[str]:
    return [f"{module}:{node.lineno}: assert without text" for module, tree in house.trees.items()
            for node in ast.walk(tree) if isinstance(node, ast.Assert) and node.msg is None]


RULES = [layer_violations, cycles, foreign_imports, size_violations, name_violations, mute_asserts]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_house(rule):
    assert not (found := rule(House(SRC))), "\n".join(found)


def test_median_function_is_short():
    lengths = [length for tree in House(SRC).trees.values() for _, _, length in functions(tree)]
    median = statistics.median(lengths)
    print(f"{len(lengths)} functions, median length {median}, longest {max(lengths)}")
    assert median <= MAX_MEDIAN, f"median function length {median}, more than {MAX_MEDIAN}"


def _pulled_in(statement: str) -> set[str]:
    code = (f"import sys; before = set(sys.modules); {statement}; "
            "print(*{m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(SRC.parent)})
    return set(done.stdout.split()) - {"moye"}


@pytest.mark.parametrize("statement",
                         ["import moye", "import moye.layout", "import moye.errors, moye.env, moye.dtypes",
                          "import moye; moye.draw('4:1').html"])
def test_import_pulls_in_nothing_but_the_standard_library(statement):
    assert not _pulled_in(statement)


def test_the_import_probe_sees_foreign_modules():
    assert "numpy" in _pulled_in("import numpy")


# --- each rule catches a house that breaks it ------------------------------------------------------------------------

BROKEN = {
    "upward": ({"layout/layout.py": "from moye.tensor import tensor\n", "tensor/tensor.py": ""},
               layer_violations, "layout.layout:1: imports tensor.tensor, which lies below"),
    "upward under TYPE_CHECKING": ({"atoms/atom.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
                                                     "    import moye.lang.trace\n", "lang/trace.py": ""},
                                   layer_violations, "atoms.atom:3: imports lang.trace"),
    "upward in a function": ({"ir/ops.py": "def f():\n    from ..runtime import kernel\n", "runtime/kernel.py": ""},
                             layer_violations, "ir.ops:2: imports runtime.kernel"),
    "package order": ({"layout/ints.py": "from .algebra import x\n", "layout/algebra.py": ""},
                      layer_violations, "layout.ints:1: imports layout.algebra, which lies below it in the package"),
    "back end reads front end": ({"cuda/printer.py": "from moye.lang.trace import x\n", "lang/trace.py": ""},
                                 layer_violations, "cuda.printer:1: imports lang.trace, which the IR separates"),
    "brothers": ({"sim/machine.py": "import moye.cuda.driver\n", "cuda/driver.py": ""},
                 layer_violations, "sim.machine:1: imports cuda.driver"),
    "public names from within": ({"ir/ops.py": "import moye as mo\n"}, layer_violations, "ir.ops:1: imports moye, but"),
    "kernel with private API": ({"kernels/gemm.py": "from moye.ir import ops\n", "ir/ops.py": ""},
                                layer_violations, "kernels.gemm:1: imports ir.ops, but kernels use the public API"),
    "unknown module": ({"frobnicate.py": ""}, layer_violations, "frobnicate: no layer"),
    "cycle": ({"pictures/a.py": "from moye.pictures import b\n", "pictures/b.py": "from .a import x\n"},
              cycles, "pictures.a -> pictures.b -> pictures.a"),
    "foreign in layout": ({"layout/ints.py": "def f():\n    import numpy.linalg\n"},
                          foreign_imports, "layout.ints:2: imports numpy.linalg"),
    "foreign in the root": ({"__init__.py": "import numpy\n"}, foreign_imports, ":1: imports numpy"),
    "long file": ({"errors.py": '"""Doc."""\n' + "x = 1\n" * 500}, size_violations, "errors: 501 lines"),
    "long function": ({"errors.py": '"""Doc."""\ndef f():\n' + "    x = 1\n" * 60},
                      size_violations, "errors:2: f has 61 lines"),
    "no docstring": ({"errors.py": "x = 1\n"}, size_violations, "errors: no module docstring"),
    "long docstring": ({"errors.py": '"""' + "line\n" * 12 + 'end"""\n'}, size_violations, "docstring of 13 lines"),
    "bad name": ({"ir/utils.py": ""}, name_violations, "ir.utils: a module called utils"),
    "mute assert": ({"errors.py": "assert True\n"}, mute_asserts, "errors:1: assert without text"),
}


def _build(root: Path, files: dict[str, str]) -> House:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.parent != root and not (path.parent / "__init__.py").exists():
            (path.parent / "__init__.py").write_text("")
    return House(root)


@pytest.mark.parametrize("case", BROKEN, ids=str)
def test_each_rule_catches_its_violation(case, tmp_path):
    files, rule, expected = BROKEN[case]
    assert expected in "\n".join(rule(_build(tmp_path, files)))


def test_a_tidy_house_passes_every_rule(tmp_path):
    house = _build(tmp_path, {
        "__init__.py": '"""Public."""\nfrom moye.layout import layout\n',
        "errors.py": '"""E."""\nimport re\n',
        "layout/ints.py": '"""I."""\nfrom moye.errors import x\n',
        "layout/layout.py": '"""L."""\nfrom .ints import x\n',
        "runtime/kernel.py": '"""K."""\nimport numpy\nfrom moye.cuda import driver\nassert True, "text"\n',
        "cuda/driver.py": '"""D."""\nfrom ..layout import layout\n',
        "kernels/gemm.py": '"""G."""\nimport moye as mo\n',
    })
    assert [violation for rule in RULES for violation in rule(house)] == []
