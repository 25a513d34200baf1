"""What comes from the user stays inside of its comment or string, at every place where printed CUDA has it."""

from __future__ import annotations

import linecache
import types

import numpy as np
import pytest

import moye as mo
from moye.cuda.compiler import nvrtc
from moye.cuda.printing.escapes import comment, string
from moye.cuda.printing.names import identifier
from moye.cuda.printing.printer import print_kernel

HOSTILE = ["a\nint injected;", "a\rint injected;", "a\\\nint injected;", "a\\", "a??/", "a??/\nint injected;",
           'a"; int injected;', "*/ int injected; /*", "\0", "\ud800", "\udcff", "\u2028int injected;",
           "\x0bint injected;", "é\u202eint", "a%s%n"]
KERNEL = """
def k(x, text):
    i = mo.thread_idx().x
    print({message!r}, i)
    {name} = x[i] + 1.0
    assert i < 100, {message!r}
    x[i] = {name}
"""


def build(file, name="k", message="m", variable="v"):
    """A kernel as if a file of this name held it."""
    source = KERNEL.format(message=message, name=variable)
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space = {"mo": mo}
    exec(compile(source, file.replace("\0", "0"), "exec"), space)
    function = types.FunctionType(space["k"].__code__, space, name)
    return mo.kernel(function)


def printed(kernel, text="t"):
    func = kernel.trace(np.zeros(4, np.float32), text, block=4)
    return print_kernel(func, lineinfo=True, asserts=True).source


def code_of(source):
    """The lines without comments, strings and directives: what the compiler takes for code."""
    found = []
    for line in source.split("\n"):
        code, quoted, i = "", False, 0
        while i < len(line):
            if quoted and line[i] == "\\":
                i += 1
            elif line[i] == '"':
                quoted = not quoted
            elif not quoted and line.startswith("//", i):
                break
            elif not quoted:
                code += line[i]
            i += 1
        assert not quoted, line
        found.append(code)
    return "\n".join(found)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_comment_and_a_string_stay_one_line(text):
    for shown in (comment(text), string(text)):
        assert len(shown.splitlines()) == 1 and "??" not in shown and shown.isprintable()
        shown.encode()
    assert not comment(text).endswith("\\")
    assert not string(text).replace("\\\\", "").replace('\\"', "").count('"')


@pytest.mark.parametrize(("place", "text"), [(place, text) for place in ("file", "kernel", "message", "argument")
                                             for text in HOSTILE if place != "file" or "\0" not in text], ids=ascii)
def test_every_place(place, text):
    file = f"<{place}>.py" if place != "file" else f"/tmp/{text}.py"
    kernel = build(file, name=text if place == "kernel" else "k", message=text if place == "message" else "m")
    source = printed(kernel, text if place == "argument" else "t")
    plain = printed(build("<plain>.py"))
    assert "injected" not in code_of(source).replace(identifier(text), "")
    assert code_of(source).count(";") == code_of(plain).count(";")
    source.encode()
    assert all(c == "\n" or c.isprintable() for c in source)


@pytest.mark.parametrize("place", ["file", "kernel", "message", "argument"])
def test_it_compiles(place):
    """NVRTC takes the worst of them, at each place."""
    text = "a\n\\\r??/\" */ é\ud800\u2028 int injected;\\"
    file = f"/tmp/{text}.py" if place == "file" else "<k>.py"
    kernel = build(file, name=text if place == "kernel" else "k", message=text if place == "message" else "m")
    func = kernel.trace(np.zeros(4, np.float32), text if place == "argument" else "t", block=4)
    shown = print_kernel(func, lineinfo=True, asserts=True)
    assert nvrtc.compile_cubin(shown.source, shown.name, "sm_80").registers > 0


@pytest.mark.parametrize("name", ["naïve", "Δ", "变量", "x\u0301", "ﬁ", "shl", "int_", "asm"])
def test_variables_with_any_identifier(name):
    source = printed(build("<names>.py", variable=name))
    assert code_of(source).isascii()
