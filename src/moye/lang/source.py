"""A function -> its ``def`` as an AST whose lines and columns are those of the user's file.

In: a Python function.  Out: a ``Source``: the file, and a private copy of the node that a rewriter may change.

>>> source_of(kernel).node.name
'kernel'

The whole file (or notebook cell) is parsed, so positions need no correction.  Source that no longer belongs to the
function's code is refused.  It does not judge what the function does.
"""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import inspect
import linecache
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import TypeVar

from moye.errors import Frame, Loc, TraceError

FUTURES = __future__.annotations.compiler_flag                # every other future is here by now
NO_SOURCE = "put the kernel in a file or a notebook cell, or register its source with linecache"
Node = TypeVar("Node", bound=ast.AST)
_FACTORY, _INNER = "__factory__", "__kernel__"


@dataclass(frozen=True, slots=True)
class Source:
    """A ``def`` without decorators, defaults and annotations (they belong to the function object), and its file."""

    file: str
    node: ast.FunctionDef

    def loc(self, node: ast.AST, function: str = "") -> Loc:
        """The program point of a node; columns count characters, not the bytes that ``ast`` counts."""
        line, end_line = getattr(node, "lineno", 1), getattr(node, "end_lineno", 0)
        raw = linecache.getline(self.file, line).encode()
        column = len(raw[:getattr(node, "col_offset", 0)].decode(errors="replace"))
        end = len(raw[:getattr(node, "end_col_offset", 0)].decode(errors="replace")) if end_line == line else -1
        return Loc((Frame(self.file, line, column, end, function or self.node.name),))


def source_of(fn: FunctionType) -> Source:
    """The source of a plain function; a TraceError says why there is none."""
    code = fn.__code__
    _refuse_other_kinds(fn)
    node = next((found for found in _definitions(fn).get((code.co_name, code.co_firstlineno), ())
                 if len(found.args.args) + len(found.args.posonlyargs) == code.co_argcount), None)
    if node is None:
        raise TraceError(f"no def of {code.co_name} at {code.co_filename}:{code.co_firstlineno}", hint=NO_SOURCE)
    node = cloned(node)
    _strip(node)
    if (owner := _class_around(code)) is not None:
        node = _Mangle(owner, node).visit(node)
    source = Source(code.co_filename, node)
    if not _belongs(source, code):
        raise TraceError(f"the source of {fn.__qualname__} in {code.co_filename} has changed since it was defined",
                         hint="import or define it again", locs=[source.loc(head_of(node))])
    return source


def cloned(node: Node) -> Node:
    """A copy of a tree: several times faster than ``copy.deepcopy``, as trees share nothing and hold no cycles.

    Only what ``ast`` itself knows of a node is copied: other tools hang their own attributes on nodes, also on those
    that all trees share.
    """
    new = type(node).__new__(type(node))
    todo: list[tuple[ast.AST, ast.AST]] = [(node, new)]
    while todo:
        old, copied = todo.pop()
        known, fields = _names_of(type(old)), vars(copied)  # type: ignore[arg-type]
        for name, value in vars(old).items():
            if name in known:
                fields[name] = value if type(value) in _LEAVES else _cloned_field(value, todo)
    return new


_LEAVES = frozenset({int, str, type(None)})
"""What most fields of nodes are, beside nodes and lists."""


@functools.cache
def _names_of(kind: type[ast.AST]) -> frozenset[str]:
    return frozenset((*kind._fields, *kind._attributes))


def _cloned_field(value: object, todo: list[tuple[ast.AST, ast.AST]]) -> object:
    """A field's copy, whose own fields are still to do."""
    if isinstance(value, ast.AST):
        new = type(value).__new__(type(value))
        todo.append((value, new))
        return new
    return [_cloned_field(item, todo) for item in value] if isinstance(value, list) else value


def head_of(node: ast.FunctionDef) -> ast.stmt:
    """A node that spans ``def name``."""
    return ast.Pass(lineno=node.lineno, col_offset=node.col_offset, end_lineno=node.lineno,
                    end_col_offset=node.col_offset + len(f"def {node.name}".encode()))


def compile_inner(source: Source, code: CodeType, extra: tuple[str, ...] = ()) -> CodeType:
    """The node's code object under the original's name, with the original's free variables and ``extra`` ones free."""
    node = copy.copy(source.node)
    node.name = _INNER
    parameters = ", ".join(dict.fromkeys((*code.co_freevars, *extra)))
    module = ast.parse(f"def {_FACTORY}({parameters}): pass")
    factory = module.body[0]
    assert isinstance(factory, ast.FunctionDef), "the factory's text is a def"
    factory.body = [node]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)      # the user saw them when the file was compiled
        outer = _compiled(module, source, code)
    inner = next(c for f in _nested(outer) for c in _nested(f) if c.co_name == _INNER)
    return _renamed(inner.replace(co_name=code.co_name), inner.co_qualname, code.co_qualname)


def _compiled(module: ast.Module, source: Source, code: CodeType) -> CodeType:
    try:
        found: CodeType = compile(module, source.file, "exec", flags=code.co_flags & FUTURES, dont_inherit=True)
        return found
    except SyntaxError as error:                            # the user's own text was compiled before
        if "too many statically nested blocks" not in str(error):
            raise
        raise TraceError(f"loops of {code.co_name} are nested deeper than Python allows for a kernel",
                         hint="put the inner ones into a function with @mo.jit", locs=(definition(code),)) from None


def definition(code: CodeType) -> Loc:
    """The line of the ``def``, below any decorators."""
    line = code.co_firstlineno
    for below in range(line, line + 50):
        text = linecache.getline(code.co_filename, below)
        if re.match(rf"\s*(async\s+)?def\s+{re.escape(code.co_name)}\b", text):
            line = below
            break
    return Loc((Frame(code.co_filename, line, 0, -1, "" if code.co_name == "<lambda>" else code.co_name),))


def _refuse_other_kinds(fn: FunctionType) -> None:
    flags, where = fn.__code__.co_flags, definition(fn.__code__)
    if flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise TraceError(f"{fn.__qualname__} is an async function, and code of a kernel is a plain def",
                         hint="drop async; asynchronous copies need no await", locs=[where])
    if flags & inspect.CO_GENERATOR:
        raise TraceError(f"{fn.__qualname__} is a generator, and code of a kernel is a plain def",
                         hint="write into an array instead; a function with @mo.jit may return a tuple", locs=[where])
    if fn.__code__.co_name == "<lambda>":
        raise TraceError("a lambda can be no kernel, and no function with @mo.jit", hint="write it as a def",
                         locs=[where])


Definitions = dict[tuple[str, int], list[ast.FunctionDef]]


def _definitions(fn: FunctionType) -> Definitions:
    """The defs of the function's file.  ``inspect`` would look through all modules for that of each new file."""
    code = fn.__code__
    try:
        linecache.checkcache(code.co_filename)
        around = fn.__globals__ if fn.__globals__.get("__file__") == code.co_filename else None
        if lines := linecache.getlines(code.co_filename, around):
            return _parse("".join(lines))
        why = None
    except (OSError, SyntaxError) as error:
        why = error
    raise TraceError(f"the source of {fn.__qualname__} is not available: its code says it comes from "
                     f"{code.co_filename}", hint=NO_SOURCE) from why


@functools.lru_cache(maxsize=32)
def _parse(text: str) -> Definitions:
    """By name and first line, which is that of the first decorator, if any: arguments tell one-liners apart."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        tree = ast.parse(text)
    found: Definitions = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found.setdefault((node.name, first), []).append(node)
    return found


def _strip(node: ast.FunctionDef) -> None:
    """Drop what runs outside the function's own code."""
    node.decorator_list, node.returns = [], None
    node.args.defaults, node.args.kw_defaults = [], [None] * len(node.args.kwonlyargs)
    if hasattr(node, "type_params"):
        node.type_params = []
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    for argument in filter(None, every):
        argument.annotation = None


# --- private names of classes ----------------------------------------------------------------------------------------

def _class_around(code: CodeType) -> str | None:
    """The innermost class whose body the def stands in, by its qualified name ``A.method.<locals>.kernel``."""
    for part in reversed(code.co_qualname.split(".<locals>.")):
        if "." in part:
            return part.split(".")[-2].lstrip("_") or None
    return None


class _Mangle(ast.NodeTransformer):
    """``__name`` -> ``_Class__name``, as the compiler does it inside a class; nested classes are left to it."""

    def __init__(self, owner: str, root: ast.FunctionDef) -> None:
        self._prefix, self._root = f"_{owner}", root

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.ClassDef):
            return node
        for field in ("id", "attr", "arg", "asname", *(["name"] if isinstance(node, ast.FunctionDef) else [])):
            text = getattr(node, field, None)
            if isinstance(text, str) and text.startswith("__") and not text.endswith("__") and node is not self._root:
                setattr(node, field, self._prefix + text)
        return super().generic_visit(node)


# --- does the source belong to the code? -----------------------------------------------------------------------------

def _belongs(source: Source, code: CodeType) -> bool:
    """Whether all names and constants of the source are in the code (which import hooks may have added to)."""
    if "__moye__" in code.co_freevars:
        return True                                         # a nested def that was rewritten with its kernel
    fresh = compile_inner(source, code)
    count = code.co_argcount + code.co_kwonlyargcount
    missing = _vocabulary(fresh) - _vocabulary(code)
    if missing and any(name.startswith("@py_") for name in code.co_varnames):
        # pytest takes asserts apart, so that the parts of 2**40 are constants there, and not what they make.
        literals = {repr(node.value) for node in ast.walk(source.node) if isinstance(node, ast.Constant)}
        missing = {word for word in missing if word.isidentifier() or word in literals}
    return fresh.co_varnames[:count] == code.co_varnames[:count] and not missing


def _vocabulary(code: CodeType) -> set[str]:
    words = {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
    words |= {repr(value) for value in code.co_consts if not isinstance(value, (CodeType, frozenset))}
    return words.union(*(_vocabulary(inner) for inner in _nested(code)))


def _nested(code: CodeType) -> Iterator[CodeType]:
    return (value for value in code.co_consts if isinstance(value, CodeType))


def _renamed(code: CodeType, old: str, new: str) -> CodeType:
    """The code with the prefix ``old`` of its qualified name, and of what is nested in it, replaced."""
    def rename(value: object) -> object:
        if isinstance(value, CodeType):
            return _renamed(value, old, new)
        return new + value.removeprefix(old) if isinstance(value, str) and value.startswith(old) else value

    return code.replace(co_consts=tuple(map(rename, code.co_consts)),
                        co_qualname=new + code.co_qualname.removeprefix(old))
