"""A function's source: from files, linecache, classes and one-liners; exact positions; refused where it is stale."""

from __future__ import annotations

import ast
import itertools
import linecache
import textwrap
from types import CodeType

import pytest

from moye.errors import TraceError
from moye.lang.source import FUTURES, compile_inner, source_of

_count = itertools.count()


def define(text: str, name: str = "f", file: str | None = None, register: bool = True):
    """Execute a text as a notebook does, and return one of its functions (a dotted name reaches into classes)."""
    file = file or f"<source test {next(_count)}>"
    text = textwrap.dedent(text)
    if register:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, object] = {"__name__": "notebook"}
    exec(compile(text, file, "exec"), namespace)
    found: object = namespace
    for part in name.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    return found


def positions(code: CodeType) -> list[tuple[int | None, ...]]:
    """All but those of RESUME and its like, which lie on the first line: a decorator's, if there is one."""
    own = [position for position in code.co_positions() if position[2:] != (0, 0)]
    return own + [p for value in code.co_consts if isinstance(value, CodeType) for p in positions(value)]


def decorate(fn):
    return fn


def plain(a, b=[1, 2], *rest: int, key: str = "k", **others: int) -> int:  # noqa: B006
    """Doc."""
    return a + b[0] + sum(x + 1 for x in rest) if key else a


@decorate
@decorate
def decorated(a):

    return a


class Class:
    __private = 1

    @decorate
    def method(self, a):
        return [a + self.__private for _ in "ab"], __class__


def test_file():
    source = source_of(plain)
    assert source.file == __file__
    assert source.node.lineno == plain.__code__.co_firstlineno
    assert ast.unparse(source.node.args) == "a, b, *rest, key, **others"


@pytest.mark.parametrize("fn", [plain, decorated, Class.method], ids=lambda fn: fn.__name__)
def test_compiled_again_it_is_the_same_code(fn):
    source = source_of(fn)
    code = compile_inner(source, fn.__code__)
    assert code.co_code == fn.__code__.co_code
    assert (code.co_name, code.co_qualname) == (fn.__name__, fn.__qualname__)
    assert {c.co_qualname for c in code.co_consts if isinstance(c, CodeType)} == \
           {c.co_qualname for c in fn.__code__.co_consts if isinstance(c, CodeType)}
    assert code.co_freevars == fn.__code__.co_freevars
    assert positions(code) == positions(fn.__code__)


def test_each_call_gives_a_copy_to_work_on():
    assert source_of(plain).node is not source_of(plain).node


def test_indented_in_a_function():
    z = 1

    def inner(a):
        return a + z

    [statement] = source_of(inner).node.body
    assert statement.col_offset == 8
    assert compile_inner(source_of(inner), inner.__code__).co_freevars == ("z",)


def test_notebook_cell():
    assert source_of(define("x = 1\ndef f(a):\n    return a\n")).node.lineno == 2


def test_two_on_one_line_are_told_apart():
    pair = "f = 0\nif 1:\n    def f(a): return a\ndef g(): return f\n"
    assert len(source_of(define(pair)).node.args.args) == 1


def test_columns_count_characters():
    fn = define("def f(x):\n    ä = 'äöü'; return x\n")
    source = source_of(fn)
    frame = source.loc(source.node.body[1]).innermost
    assert frame is not None
    assert frame.text()[frame.column:frame.end] == "return x"


def test_future_annotations_are_kept():
    fn = define("from __future__ import annotations\ndef f(x):\n    def g(y: undefined): return y\n    return g(x)\n")
    assert fn.__code__.co_flags & FUTURES
    assert compile_inner(source_of(fn), fn.__code__).co_flags & FUTURES


def message(fn) -> str:
    with pytest.raises(TraceError) as caught:
        source_of(fn)
    return str(caught.value)


def test_no_source():
    assert message(define("def f(x):\n    return x\n", file="<nowhere>", register=False)) == (
        "the source of f is not available: its code says it comes from <nowhere>\n"
        "hint: put the kernel in a file or a notebook cell, or register its source with linecache")


def test_lambda():
    assert "a lambda can be no kernel, and no function with @mo.jit\n" in message(lambda x: x)
    assert message(lambda x: x).endswith("hint: write it as a def")


def test_async():
    assert message(define("async def f(x):\n    return x\n")) == (
        "f is an async function, and code of a kernel is a plain def\n"
        f"  <source test {next(_count) - 1}>:1 in f\n    async def f(x):\n    ^^^^^^^^^^^^^^^\n"
        "hint: drop async; asynchronous copies need no await")


def test_generator():
    told = message(define("def f(x):\n    yield x\n"))
    assert told.startswith("f is a generator, and code of a kernel is a plain def\n")


@pytest.mark.parametrize("after", ["def f(x):\n    return x + 2\n", "def f(x):\n    return y + 1\n",
                                   "def f(y):\n    return x + 1\n"])
def test_stale_source(after):
    file = f"<stale {next(_count)}>"
    before = define("def f(x):\n    return x + 1\n", file=file)
    define(after, file=file)
    assert message(before).startswith(f"the source of f in {file} has changed since it was defined\n")


def test_moved_source():
    file = f"<moved {next(_count)}>"
    before = define("def f(x):\n    return x + 1\n", file=file)
    define("\n\n\ndef f(x):\n    return x + 1\n", file=file)
    assert message(before).startswith(f"no def of f at {file}:1\n")


def test_numbers_that_pytest_takes_apart():
    """Its asserts compute 2**40 from 2 and 40, which stand in no constant of the source as Python compiles it."""
    def f(x):
        assert x + 2**40 > 3, "large"
        return x

    assert any(name.startswith("@py_") for name in f.__code__.co_varnames)
    assert source_of(f).node.name == "f"


def test_changed_file(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text("def f(x):\n    return x + 1\n")
    namespace: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text("def f(x):\n    return x + 1000000\n")
    assert "has changed since it was defined" in message(namespace["f"])


def test_import_hooks_may_add_to_the_code():
    file = f"<hooked {next(_count)}>"
    fn = define("def f(x):\n    hook(x)\n    return x + 1\n", file=file)
    text = "def f(x):\n    return x + 1\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    assert len(source_of(fn).node.body) == 1
