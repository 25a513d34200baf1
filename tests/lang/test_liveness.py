"""What loops and ifs carry, by hand: one function per law, its answer in the comments of the expected list."""

from __future__ import annotations

import ast
import textwrap

import pytest

from moye.lang.liveness import Liveness, assigned, captured, effects

HEAD = "def f(a, b, c, n):\n"


def carried(body: str) -> list[tuple[str, tuple[str, ...]]]:
    """(source line of the statement, names) in source order."""
    text = HEAD + textwrap.indent(textwrap.dedent(body), "    ")
    [function] = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    lines = text.splitlines()
    found = sorted(Liveness(function).carried.items(), key=lambda item: item[0].lineno)
    return [(lines[node.lineno - 1].strip(), names) for node, names in found]


def only(body: str) -> tuple[str, ...]:
    [(_, names)] = carried(body)
    return names


FIRST = {
    "read before written": ("x = 0\nfor i in range(n):\n    x = x + i", ("x",)),
    "augmented": ("x = 0\nfor i in range(n):\n    x += i", ("x",)),
    "written before read": ("for i in range(n):\n    x = i\n    print(x)", ()),
    "live after": ("x = 0\nfor i in range(n):\n    x = i\nreturn x", ("x",)),
    "dead after": ("x = 0\nfor i in range(n):\n    x = i\nx = 1\nreturn x", ()),
    "only read": ("x = 0\nfor i in range(n):\n    print(x)\nreturn x", ()),
    "written on one path": ("x = 0\nfor i in range(n):\n    if i: x = 1\n    print(x)", ("x",)),
    "written on both paths": ("for i in range(n):\n    if i: x = 1\n    else: x = 2\n    print(x)", ()),
    "written after continue": ("x = 0\nfor i in range(n):\n    if i: continue\n    x = 1\n    print(x)", ()),
    "read after a skipping continue": ("for i in range(n):\n    if i: print(x); continue\n    x = 1", ("x",)),
    "written before break": ("x = 0\nfor i in range(n):\n    if i:\n        x = 1\n        break\nreturn x", ("x",)),
    "target": ("for i in range(n):\n    print(i)", ()),
    "target, live": ("for i in range(n):\n    print(i)\nreturn i", ("i",)),
    "target, read by the next loop": ("for i in range(n):\n    print(i)\nfor i in a:\n    print(i)", ()),
    "target reassigned, dead": ("for i in range(n):\n    print(i)\n    i = i + 1", ()),
    "target reassigned, live": ("for i in range(n):\n    i = i + 1\nreturn i", ("i",)),
    "tuple target": ("for i, (j, k) in a:\n    j = k = i + j", ()),
    "element": ("for i in range(n):\n    a[i] = b[i]", ()),
    "attribute": ("for i in range(n):\n    a.x = i", ()),
    "read by target": ("for a[c] in b:\n    c = 1", ("c",)),
    "swap": ("x, y = 0, 1\nfor i in range(n):\n    x, y = y, x", ("x", "y")),
    "starred": ("x, y = 0, 1\nfor i in range(n):\n    x, *y = y", ("y",)),
    "walrus": ("for i in range(n):\n    print(x := i, x)", ()),
    "walrus that may not run": ("for i in range(n):\n    print(i and (x := i))\n    print(x)", ("x",)),
    "walrus in comprehension": ("for i in range(n):\n    [x := j for j in a]\nreturn x", ("x",)),
    "comprehension's own names": ("j = 0\nfor i in range(n):\n    [j for j in a]\nreturn j", ()),
    "comprehension reads": ("x = 0\nfor i in range(n):\n    [x + j for j in a]\n    x = i", ("x",)),
    "comprehension's first iter": ("x = a\nfor i in range(n):\n    [x for x in x]\n    x = b", ("x",)),
    "with as": ("for i in range(n):\n    with a as x:\n        print(x)", ()),
    "import as": ("for i in range(n):\n    import math as x, os.path\nreturn x, os", ("os", "x")),
    "def": ("for i in range(n):\n    def x(): pass\n    x()\nreturn 1", ()),
    "def, live": ("for i in range(n):\n    def x(): pass\nreturn x", ("x",)),
    "lambda reads": ("x = 0\nfor i in range(n):\n    b(lambda: x)\n    x = i", ("x",)),
    "lambda's parameter": ("x = 0\nfor i in range(n):\n    b(lambda x: x)\n    x = i", ()),
    "lambda's default": ("x = 0\nfor i in range(n):\n    b(lambda x=x: x)\n    x = i", ("x",)),
    "declared only": ("for i in range(n):\n    x: int\nreturn x", ()),
    "annotated": ("for i in range(n):\n    x: int = i\nreturn x", ("x",)),
    "raise": ("x = 0\nfor i in range(n):\n    x = i\nraise ValueError(x)", ("x",)),
    "after a return": ("x = 0\nfor i in range(n):\n    x = i\nreturn 1\nprint(x)", ()),
    "class reads": ("x = 0\nfor i in range(n):\n    x = i\n    class A:\n        y = x", ("x",)),
}


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_outermost_statement(case):
    body, names = FIRST[case]
    assert carried(body)[0][1] == names


def test_while_test_counts_as_part_of_the_turn():
    assert only("x = 0\nwhile x < n:\n    y = x\n    x = y + 1") == ("x",)
    assert only("while (x := a()) < n:\n    print(x)\n    x = 0") == ()
    assert only("while (x := a()) < n:\n    pass\nreturn x") == ("x",)


def test_while_true_is_left_by_break_alone():
    assert carried("""
        x = 0
        while True:
            x = a()
            if x:
                break
        return x
    """) == [("while True:", ("x",)), ("if x:", ())]


def test_if_carries_what_a_branch_assigns_and_what_is_read_later():
    assert only("if c: x = 1\nelse: y = 2\nreturn x") == ("x",)
    assert only("x = 0\nif c: x = 1\nreturn 0") == ()


def test_if_carries_what_its_else_reads():
    assert carried("x = 0\nif c: x = 1\nelif b: print(x)\nelse: x = 2\nreturn 0") == [
        ("if c: x = 1", ("x",)), ("elif b: print(x)", ())]


def test_if_carries_what_its_else_takes_to_the_next_turn():
    assert carried("""
        x = 0
        for i in range(n):
            print(x)
            if c:
                x = 1
            else:
                continue
            x = 2
    """)[1] == ("if c:", ("x",))


def test_back_edge_makes_a_name_live_after_an_inner_if():
    assert carried("x = 0\nfor i in range(n):\n    print(x)\n    if c:\n        x = i")[1] == ("if c:", ("x",))


def test_break_of_an_inner_loop_leads_after_it():
    assert carried("""
        for i in range(n):
            x = 0
            for j in range(n):
                if j:
                    x = j
                    break
                x = 3
            print(x)
    """) == [("for i in range(n):", ()), ("for j in range(n):", ("x",)), ("if j:", ())]


def test_names_of_a_nested_def_are_live_everywhere():
    body = "x = 0\ndef g(): return x\nfor i in range(n):\n    x = i\n{}\nreturn 1"
    assert only(body.format("g()")) == ("x",)
    assert only(body.replace("return x", "return y").format("g()")) == ()
    assert only("x = 0\ng = lambda: x\nfor i in range(n):\n    x = i") == ("x",)


def test_match_captures_are_assigned_and_may_not_run():
    assert carried("""
        x = 0
        for i in range(n):
            match a:
                case [x, *y] if y: print(x, y)
                case {'k': 1, **z}: print(z)
            print(x)
        return z
    """) == [("for i in range(n):", ("x", "z"))]


def test_with_is_transparent():
    assert carried("x = 0\nfor i in range(n):\n    with a(x) as b:\n        x = b") == [("for i in range(n):", ("x",))]


def test_the_reference_s_double_buffer():
    """smem_read, smem_write, tCsA_p, tCsB_p are carried; k_block_next, written before read, is not."""
    stages = ("smem_read", "smem_write", "tCsA_p", "tCsB_p")
    assert carried("""
        smem_read, smem_write = 0, 1
        tCsA_p = tCsA[:, :, :, smem_read]
        tCsB_p = tCsB[:, :, :, smem_read]
        for k_tile in range(k_tile_max):
            for k_block in mo.static_range(k_block_max):
                k_block_next = k_block + 1
                if k_block == k_block_max - 1:
                    mo.cp_async_wait()
                    tCsA_p = tCsA[:, :, :, smem_read]
                    tCsB_p = tCsB[:, :, :, smem_read]
                    k_block_next = 0
                mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
                mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
                if k_block == 0 and k_tile < k_tile_max - 1:
                    mo.copyto(copy_A, tAsA[:, :, :, smem_write], tAgA[:, :, :, k_tile + 1])
                    smem_read, smem_write = smem_write, smem_read
                mo.gemm(mma_C, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        mo.copyto(tCgC, tCrC)
    """) == [("for k_tile in range(k_tile_max):", stages),
             ("for k_block in mo.static_range(k_block_max):", stages),
             ("if k_block == k_block_max - 1:", ("k_block_next", "tCsA_p", "tCsB_p")),
             ("if k_block == 0 and k_tile < k_tile_max - 1:", ("smem_read", "smem_write"))]


def test_deep_nests_take_no_exponential_time():
    depth = 18
    loops = "".join(f"{' ' * d}for i{d} in a:\n" for d in range(1, depth))
    text = f"def f():\n x = 0\n{loops}{' ' * depth}x += 1"
    [function] = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert set(Liveness(function).carried.values()) == {("x",)}


def _statements(text: str) -> list[ast.stmt]:
    return ast.parse(textwrap.dedent(text)).body


def test_assigned_knows_every_binding_form():
    assert assigned(_statements("""
        a, (b, *c) = d.x = e[i] = 1
        f += 1
        g: int = 1
        h: int
        import os.path, sys as s
        from m import n as k
        with o as (p, q): pass
        for r in t: u = 1
        def v(w=(x := 1)): inner = 1
        class y: inner = 1
        [z := own for own in []]
        del dd
        lambda own: 1
    """)) == {*"abcfgskpqruvxyz", "os", "dd"}


def test_effects_follow_the_order_of_evaluation():
    assert effects(*_statements("x = y; z = x + w; w = 1")) == ({"y", "w"}, {"x", "z", "w"})
    assert effects(*_statements("a[i := j] = k; print(i)")) == ({"a", "j", "k", "print"}, {"i"})
    assert effects(*_statements("p if q else (r := 1); r")) == ({"p", "q", "r"}, set())
    assert effects(*_statements("a < (b := 1) < (c := 2); b; c")) == ({"a", "c"}, {"b"})


def test_captured_leaves_out_what_is_bound_inside():
    [function] = _statements("def f(a, *b, c, **d):\n    e = g + a\n    return [h + e for h in i], lambda j: j + k")
    assert captured(function) == {"g", "i", "k"}
