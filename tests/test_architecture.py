"""The house of docs/architecture.md as a test: order of the rooms, sizes, names, what an import may pull in."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "moye"

# The rooms, and the modules that have none: each may import only from entries above its own.  A room is a folder; what
# lies in a folder of a room is a room of its own.
ROOMS = ["errors", "env", "depth", "origin", "dtypes", "display", "hardware", "layout", "layout.analysis", "atoms",
         "mma", "ir",
         "tensor", "lang", "pipelines", "schedulers", "passes",
         "cuda.printing", "cuda.compiler", "cuda.device", "cuda.export",
         "sim.findings", "sim.values", "sim.flow", "sim.costs", "sim.checks", "sim.operations", "sim.timeline",
         "sim.generate", "sim.machine",
         "runtime", "runtime.check", "runtime.tuning", "jax", "pictures", "testing", "puzzles", "pytest_plugin",
         "cli", "kernels", "kernels.gemm.parts", "kernels.gemm.simt", "kernels.gemm.sm80", "kernels.gemm.sm90",
         "kernels.gemm.shallow", "kernels.gemm.streamed", "kernels.gemm", "kernels.gemm.grouped", "kernels.rows",
         "kernels.attention.parts",
         "kernels.attention.sm80", "kernels.attention.simt", "kernels.attention.decode",
         "kernels.attention.sm90", "kernels.attention", "torch", "torch.operators"]
# The same inside a room; a module that is not listed is bound only by the ban on cycles.
INSIDE = {
    "layout": ["ints", "tuples", "layout", "algebra", "swizzle"],
    "atoms": ["atom", "universal", "mma_sync", "sm90"],
    "ir": ["nodes", "ops", "verify", "builder"],
    "tensor": ["expr", "tensor", "tiled", "algorithms"],
    "lang": ["rewrite", "control", "builtins", "trace"],
    "sim.values": ["memory", "masks", "scalars"],
    "sim.machine": ["launch", "batch", "machine"],
    "runtime": ["cache", "arrays", "compile", "kernel"],
    "runtime.check": ["report", "checking", "check"],
}
# The back ends and the passes read the IR and the atoms and nothing above them; the back ends are brothers.
FRONT = {"tensor", "lang", "pipelines", "schedulers"}
NEVER = {"passes": FRONT, "cuda": FRONT, "sim": FRONT | {"cuda"}}
STDLIB_ONLY = {"errors", "env", "origin", "dtypes", "display", "hardware", "layout"}
BAD_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "core", "base"}
EMPTY = {"sim", "cuda"}                                # folders of rooms, without a module of their own
MAIN = "__main__"                                       # python -m moye: the command, which is the room cli
MAX_FILE, MAX_FUNCTION, MAX_MEDIAN, MAX_DOCSTRING = 700, 60, 15, 12
SMALL = 120
# Smaller modules that one other imports, or none, and what parts them from it.
ALONE = {
    "one of several that the importer chooses among": (
        "kernels.attention.simt.host", "kernels.attention.sm80.host", "pictures.html", "pictures.text",
        "pictures.tikz", "pictures.typst", "sim.timeline.table"),
    "one pass each": ("passes.arms", "passes.barriers", "passes.dce", "passes.wgmma_registers",
                        "passes.wraps"),
    "one lint or one class of defects each": (
        "runtime.check.needless_barriers", "sim.checks.sent_copies", "sim.checks.unwritten_global",
        "sim.costs.mixed_swizzles", "sim.costs.wgmma_waits"),
    "one step of a kernel each": (
        "kernels.attention.sm90.turns", "kernels.gemm.shallow.multiply"),
    "one way to share the work of a kernel": (
        "kernels.gemm.simt.few_kernel", "kernels.gemm.sm90.shares", "kernels.top_k_warps"),
    "one family of instructions each": (
        "cuda.printing.async_stores", "cuda.printing.bulk_copies",
        "cuda.printing.device_maps", "cuda.printing.inline", "cuda.printing.matrix_copies", "cuda.printing.pins",
        "sim.operations.async_stores", "sim.operations.inline", "tensor.matrix_copy"),
    "of another room than its importer": (
        "ir.text", "sim.costs.table", "sim.costs.tma_boxes", "sim.flow.choices",
        "sim.flow.widened"),
    "one rule of the memory model": ("sim.checks.patterns",),
    "when threads of a schedule give way, which batches ask, too": ("sim.machine.pauses",),
    "arithmetic of counters alone, without memory": ("sim.flow.remainders",),
    "words for users, which no other code of the importer needs": (
        "puzzles.notebook", "runtime.check.report_html", "runtime.host_text",
        "runtime.snapshots"),
    "a process of its own, or loaded without what the importer loads": (
        "runtime.toolchain", "runtime.tuning.worker"),
    "a type or a table of its own, and the importer is long": (
        "lang.fleeting", "lang.swaps", "puzzles.progress", "runtime.rooms", "sim.generate.guarded",
        "sim.machine.cluster_barrier", "sim.machine.warp_arrivals", "tensor.operators", "tensor.retile"),
    "what another library asks for, which no one else reads": (
        "kernels.gemm.operator", "torch.promises", "torch.schemas"),
    "what a launch is, and what a kernel is compiled for": (
        "kernels.attention.sm80.forward", "kernels.upload"),
    "the home of public names": (
        "pipelines.tensor_maps", "runtime.addresses", "schedulers.quantisation",
        "tensor.async_stores", "tensor.smem_atoms", "torch.operators.gated",
        "torch.operators.linear", "kernels.rows.norm"),
}

TOP = {".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "NOTICE", "README.md",
       "benchmarks", "docs", "examples", "mkdocs.yml", "pyproject.toml", "src", "tests"}

BOOK = "puzzles/book"                                   # programs for users, which are data of the package

Function = ast.FunctionDef | ast.AsyncFunctionDef


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements of a tree, at any depth: it has some twenty times as many nodes."""
    for blocks in (getattr(tree, name, ()) for name in ("body", "orelse", "finalbody", "handlers", "cases")):
        for node in blocks:
            yield node
            yield from statements(node)


class House:
    """A source tree: its modules by dotted name below the root package ('' is the package itself)."""

    def __init__(self, root: Path) -> None:
        self.trees: dict[str, ast.Module] = {}
        self.texts: dict[str, str] = {}
        self.packages: set[str] = set()
        self._imports: dict[str, list[tuple[str, int]]] = {}
        for path in sorted(root.rglob("*.py")):
            if path.is_relative_to(root / BOOK):
                continue
            parts = path.relative_to(root).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
                self.packages.add(".".join(parts))
            name = ".".join(parts)
            self.texts[name] = path.read_text()
            self.trees[name] = ast.parse(self.texts[name])

    def imports(self, module: str) -> Iterator[tuple[str, int]]:
        """(dotted absolute name, line) of everything that a module imports, wherever the statement stands."""
        if module not in self._imports:
            self._imports[module] = list(self._imported(module))
        yield from self._imports[module]

    def _imported(self, module: str) -> Iterator[tuple[str, int]]:
        for node in statements(self.trees[module]):
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


def room_of(house: House, module: str) -> str:
    """The folder that a module lies in, or the module itself at the top of the house; of a folder, the folder."""
    if module in house.packages:
        return module
    return module.rpartition(".")[0] or module


def room_violations(house: House) -> list[str]:
    """Imports against the order of the rooms, so that rooms, too, have no cycle.

    A folder's ``__init__`` is its face, and may also show what lies in the rooms inside it.
    """
    found = []
    for module in house.trees:
        if not module or module in EMPTY or module == MAIN:
            continue                                    # moye/__init__.py: the public names, lazy
        if (room := room_of(house, module)) not in ROOMS:
            found.append(f"{module}: no room of the list ROOMS")
            continue
        for name, line in house.imports(module):
            target = house.own(name)
            if target is not None and target not in EMPTY and (why := _forbidden(house, module, room, target)):
                found.append(f"{module}:{line}: imports {target or 'moye'}, {why}")
    return found


def _forbidden(house: House, module: str, room: str, target: str) -> str | None:
    head, goal = module.split(".")[0], target.split(".")[0]
    if head == "kernels" and goal not in ("", "kernels"):
        return "but kernels use the public API only"
    if not goal:
        return None if head == "kernels" else "but the public names sit above every module"
    if goal in NEVER.get(head, ()):
        return "which the IR separates it from"
    other = room_of(house, target)
    if module in house.packages and other.startswith(f"{module}."):
        return None
    if room != other:
        return "which lies below it in the order of rooms" if _rank(other) > _rank(room) else None
    order = INSIDE.get(room, [])
    mine, its = module.rpartition(".")[2], target.rpartition(".")[2]
    if module in house.packages or mine == its or mine not in order or its not in order:
        return None
    if order.index(its) > order.index(mine):
        return "which lies below it in the room's order"
    return None


def _rank(room: str) -> int:
    return ROOMS.index(room) if room in ROOMS else len(ROOMS)


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


def importers(house: House) -> dict[str, set[str]]:
    """Who imports each module; the root package also imports those that its table of public names has as text."""
    found: dict[str, set[str]] = {module: set() for module in house.trees}
    for module in house.trees:
        names = [name for name, _ in house.imports(module)]
        if not module:
            names += [node.value for node in ast.walk(house.trees[module])
                      if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        for name in names:
            target = house.own(name)
            if target is not None and target != module:
                found[target].add(module)
    return found


def lonely(house: House) -> set[str]:
    """Small modules of rooms that one other imports, or none; the face of a room is none of them."""
    return {module for module, by in importers(house).items()
            if len(by) < 2 and "." in module and module not in house.packages
            and house.texts[module].count("\n") < SMALL}


def small_modules(house: House) -> list[str]:
    """Small ones go back to their one importer, unless a reason is given why not."""
    kept = {module for modules in ALONE.values() for module in modules}
    by = importers(house)
    return [f"{module}: {house.texts[module].count(chr(10))} lines that {', '.join(by[module]) or 'nobody'} imports: "
            "put it there, or say in ALONE what parts them" for module in sorted(lonely(house) - kept)]


def name_violations(house: House) -> list[str]:
    return [f"{module}: a module called {part} says nothing" for module in house.trees
            for part in module.split(".")[-1:] if part.strip("_") in BAD_NAMES]


def mute_asserts(house: House) -> list[str]:
    return [f"{module}:{node.lineno}: assert without text" for module, tree in house.trees.items()
            for node in ast.walk(tree) if isinstance(node, ast.Assert) and node.msg is None]


RULES = [room_violations, cycles, foreign_imports, size_violations, name_violations, mute_asserts]


@cache
def ours() -> House:
    """The tree that the rules are for, read once."""
    return House(SRC)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_house(rule):
    assert not (found := rule(ours())), "\n".join(found)


def test_small_modules_stand_alone_for_a_reason():
    assert not (found := small_modules(ours())), "\n".join(found)
    stale = {module for modules in ALONE.values() for module in modules} - lonely(ours())
    assert not stale, f"{sorted(stale)}: no longer small with one importer; take them out of ALONE"


def test_nothing_lies_about():
    """What is tracked at the top of the repository is known: a file that landed there by mistake is told."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        pytest.skip("no repository")
    told = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout
    top = {line.partition("/")[0] for line in told.splitlines()}
    assert top <= TOP, f"{sorted(top - TOP)}: is this meant to be here?"


def test_the_verbs_of_tensors_share_one_protocol():
    found = {f"{module}.{node.name}" for module, tree in ours().trees.items() if room_of(ours(), module) == "tensor"
             for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
             and any(isinstance(kind, ast.Name) and kind.id == "Protocol" for kind in node.bases)}
    assert found == {"tensor.view.View"}, "what a verb needs of a tensor belongs into tensor/view.py"


def test_median_function_is_short():
    lengths = [length for tree in ours().trees.values() for _, _, length in functions(tree)]
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
               room_violations, "layout.layout:1: imports tensor.tensor, which lies below"),
    "upward under TYPE_CHECKING": ({"atoms/atom.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
                                                     "    import moye.lang.trace\n", "lang/trace.py": ""},
                                   room_violations, "atoms.atom:3: imports lang.trace"),
    "upward in a function": ({"ir/ops.py": "def f():\n    from ..runtime import kernel\n", "runtime/kernel.py": ""},
                             room_violations, "ir.ops:2: imports runtime.kernel"),
    "package order": ({"layout/ints.py": "from .algebra import x\n", "layout/algebra.py": ""},
                      room_violations, "layout.ints:1: imports layout.algebra, which lies below it in the room"),
    "back end reads front end": ({"cuda/printing/printer.py": "from moye.lang.trace import x\n", "lang/trace.py": ""},
                                 room_violations, "printing.printer:1: imports lang.trace, which the IR separates"),
    "brothers": ({"sim/machine/machine.py": "import moye.cuda.device.driver\n", "cuda/device/driver.py": ""},
                 room_violations, "sim.machine.machine:1: imports cuda.device.driver"),
    "rooms of one house": ({"sim/values/masks.py": "from moye.sim.checks import clocks\n", "sim/checks/clocks.py": ""},
                           room_violations, "imports sim.checks.clocks, which lies below it in the order of rooms"),
    "room and the rooms in it": ({"runtime/kernel.py": "from moye.runtime.check import check\n",
                                  "runtime/check/check.py": "from moye.runtime import kernel\n"},
                                 room_violations, "imports runtime.check.check, which lies below it"),
    "public names from within": ({"ir/ops.py": "import moye as mo\n"}, room_violations, "ir.ops:1: imports moye, but"),
    "kernel with private API": ({"kernels/gemm.py": "from moye.ir import ops\n", "ir/ops.py": ""},
                                room_violations, "kernels.gemm:1: imports ir.ops, but kernels use the public API"),
    "unknown module": ({"frobnicate.py": ""}, room_violations, "frobnicate: no room"),
    "unknown room": ({"sim/frobs/x.py": ""}, room_violations, "sim.frobs.x: no room"),
    "cycle": ({"pictures/a.py": "from moye.pictures import b\n", "pictures/b.py": "from .a import x\n"},
              cycles, "pictures.a -> pictures.b -> pictures.a"),
    "foreign in layout": ({"layout/ints.py": "def f():\n    import numpy.linalg\n"},
                          foreign_imports, "layout.ints:2: imports numpy.linalg"),
    "foreign in the root": ({"__init__.py": "import numpy\n"}, foreign_imports, ":1: imports numpy"),
    "long file": ({"errors.py": '"""Doc."""\n' + "x = 1\n" * 700}, size_violations, "errors: 701 lines"),
    "long function": ({"errors.py": '"""Doc."""\ndef f():\n' + "    x = 1\n" * 60},
                      size_violations, "errors:2: f has 61 lines"),
    "no docstring": ({"errors.py": "x = 1\n"}, size_violations, "errors: no module docstring"),
    "long docstring": ({"errors.py": '"""' + "line\n" * 12 + 'end"""\n'}, size_violations, "docstring of 13 lines"),
    "bad name": ({"ir/utils.py": ""}, name_violations, "ir.utils: a module called utils"),
    "small and with one importer": ({"sim/costs/turns.py": "x = 1\n", "sim/costs/stops.py": "from .turns import x\n"},
                                    small_modules, "sim.costs.turns: 1 lines that sim.costs.stops imports: put it"),
    "small and imported by nobody": ({"lang/waits.py": "x = 1\n"}, small_modules, "lang.waits: 1 lines that nobody"),
    "mute assert": ({"errors.py": "assert True\n"}, mute_asserts, "errors:1: assert without text"),
}


def _build(root: Path, files: dict[str, str]) -> House:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in path.relative_to(root).parents:
            if folder.name and not (root / folder / "__init__.py").exists():
                (root / folder / "__init__.py").write_text("")
    return House(root)


@pytest.mark.parametrize("case", BROKEN, ids=str)
def test_each_rule_catches_its_violation(case, tmp_path):
    files, rule, expected = BROKEN[case]
    assert expected in "\n".join(rule(_build(tmp_path, files)))


def test_small_modules_with_two_importers_or_a_public_name_may_stay(tmp_path):
    face = "NAMES = {'x': ('moye.ir.ops', 'x'), 'y': ('moye.ir.ops', 'y')}\n"
    two = "from moye.ir.ops import x\n"
    house = _build(tmp_path, {"__init__.py": face, "ir/ops.py": "", "ir/fold.py": two + "#\n" * SMALL})
    assert importers(house)["ir.ops"] == {"", "ir.fold"} and small_modules(house) == []


def test_a_tidy_house_passes_every_rule(tmp_path):
    house = _build(tmp_path, {
        "__init__.py": '"""Public."""\nfrom moye.layout import layout\n',
        "errors.py": '"""E."""\nimport re\n',
        "layout/ints.py": '"""I."""\nfrom moye.errors import x\n',
        "layout/layout.py": '"""L."""\nfrom .ints import x\n',
        "runtime/kernel.py": '"""K."""\nimport numpy\nfrom moye.cuda.device import driver\nassert True, "text"\n',
        "cuda/device/driver.py": '"""D."""\nfrom ...layout import layout\n',
        "kernels/gemm.py": '"""G."""\nimport moye as mo\n',
    })
    assert [violation for rule in RULES for violation in rule(house)] == []
