"""Trips of unrolled loops as loops: what becomes one, what stays, and that both compute the same."""

from __future__ import annotations

import random
import re

import pytest

from moye.cuda.printing.reroll import rolled
from moye.cuda.printing.writer import Line


def trips(*bodies, name="k", first=0, step=1):
    """Lines of trips, each a text."""
    return [Line(1, text, ((name, first + step * i),)) for i, body in enumerate(bodies) for text in body.split("\n")]


def texts(lines):
    return [line.text for line in lines]


def loop(*body, head="for (int k = 0; k < 4; ++k) {"):
    return ["#pragma unroll", head, *body, "}"]


@pytest.mark.parametrize(("bodies", "expected"), [
    ([f"f(p + {8 * i}, {i});\ng({i + 1});" for i in range(4)], loop("f(p + 8 * k, k);", "g(k + 1);")),
    (["f(p, 0);\ng(p);", *(f"f(p + {8 * i}, {i});\ng(p + {i});" for i in (1, 2, 3))],
     loop("f(p + 8 * k, k);", "g(p + k);")),
    (["f(&A[x + i]);\ng();", *(f"f(&A[x + {64 * k} + i]);\ng();" for k in (1, 2, 3))],
     loop("f(&A[x + 64 * k + i]);", "g();")),
    (["f(2 * t);\ng(t);", *(f"const int t{k} = t + {16 * k};\nf(2 * t{k});\ng(t{k});" for k in (1, 2, 3))],
     loop("const int t1 = t + 16 * k;", "f(2 * t1);", "g(t1);")),
    (["f(2 * t);\ng();", *(f"f(2 * (t + {16 * k}));\ng();" for k in (1, 2, 3))], loop("f(2 * (t + 16 * k));", "g();")),
    (["f(d, k0 > 0);\ng();", *("f(d, true);\ng();" for _ in range(3))], loop("f(d, k > 0 || k0 > 0);", "g();")),
    (["const int a = 2 * x;\nf(a, 0);\ng();", *(f"f(a, {k});\ng();" for k in (1, 2, 3))],
     ["const int a = 2 * x;", *loop("f(a, k);", "g();")]),
    ([f"f({k} * i);\ng(x % {k + 1});" for k in range(1, 5)],
     loop("f(k * i);", "g(x % (k + 1));", head="for (int k = 1; k < 5; ++k) {")),
], ids=["constants", "zero", "middle summand", "named", "parentheses", "since", "hoisted", "precedence"])
def test_loops(bodies, expected):
    first = 1 if "k = 1" in expected[1] else 0
    assert texts(rolled(trips(*bodies, first=first))) == expected


SAME = ["f({0});\ng({0});\nh();", "f({1});\ng({1});\nh();", "f({2});\ng({2});\nh();", "f({3});\ng({3});\nh();"]


@pytest.mark.parametrize("body", [
    "if (x) {{\nf({0});\n}}", "f({0});\n__syncthreads();", "f({0});\nmbarrier_wait(b, {0});", "f({0}.0f);\ng({0}.0f);",
    "f<{0}>();\ng();", "f({0}u);\ng();", "goto out;\nf({0});", 'printf("{0}");\nf();', "const int x[{0}];\nf(x);",
    "for (int i = 0; i < {0}; ++i) {{\nf();\n}}", "f16{{{0}}};\ng();"],
    ids=["branch", "barrier", "wait", "float", "template", "suffix", "jump", "text", "array", "trip count", "braces"])
def test_what_stays(body):
    lines = trips(*(body.format(i) for i in range(1, 5)))
    assert texts(rolled(lines)) == texts(lines)
    assert len(rolled(trips(*(SAME[i].format(*range(4)) for i in range(4))))) < 12


@pytest.mark.parametrize("numbers", [(1, 2, 4, 8), (3, 2, 1, 0), (0, 1, 2, 4), (1 << 29, 1 << 30, 3 << 29, 1 << 31)])
def test_numbers_that_are_no_progression_stay(numbers):
    lines = trips(*(f"f({number});\ng();\nh();" for number in numbers))
    found = texts(rolled(lines))
    assert found == texts(lines) or (numbers == (0, 1, 2, 4) and found[-3:] == ["f(4);", "g();", "h();"])


def test_a_name_that_the_next_trip_uses_stays():
    lines = trips("const int a = f(x);\ng();", *(f"const int a_{i} = f(a_{i - 1});\ng();".replace("a_0", "a")
                                               for i in (1, 2, 3)))
    assert texts(rolled(lines)) == texts(lines)


@pytest.mark.parametrize("use", ["f(a_3);", "{\nf(a_2);\n}"])
def test_a_name_that_is_used_behind_the_loop_stays(use):
    lines = trips("const int a = x;\ng(a);", *(f"const int a_{i} = x + {i};\ng(a_{i});" for i in (1, 2, 3)))
    behind = [Line(1 + (text == "f(a_2);"), text) for text in use.split("\n")]
    assert texts(rolled([*lines, *behind])) == texts([*lines, *behind])
    assert len(rolled([*lines, Line(0, "}"), *behind])) == 5 + 1 + len(behind)


def test_what_a_trip_writes_is_read_where_it_was():
    """A const of the first trip is not made before what it depends on: that trip stays beside the loop."""
    lines = trips("f(&x);\nconst int a = x + 1;\ng(a, 0);", *(f"f(&x);\ng(a, {i});" for i in (1, 2, 3)))
    assert texts(rolled(lines))[:4] == ["f(&x);", "const int a = x + 1;", "g(a, 0);", "#pragma unroll"]


def test_the_variable_hides_nothing():
    lines = trips(*(f"f(k, {i});\nh();" for i in range(4)))
    assert texts(rolled(lines)) == loop("f(k, kk);", "h();", head="for (int kk = 0; kk < 4; ++kk) {")


def test_loops_of_loops():
    lines = [Line(0, f"f({8 * i}, {j});", (("i", i), ("j", j))) for i in range(4) for j in range(8)]
    assert texts(rolled(lines)) == [
        "#pragma unroll", "for (int i = 0; i < 4; ++i) {", "#pragma unroll", "for (int j = 0; j < 8; ++j) {",
        "f(8 * i, j);", "}", "}"]


def test_the_ends_stay_beside_the_loop():
    lines = trips("a();\nb();\nc();", *(f"f({i});\ng();" for i in range(1, 6)), "d();")
    inner = loop("f(k);", "g();", head="for (int k = 1; k < 6; ++k) {")
    assert texts(rolled(lines)) == ["a();", "b();", "c();", *inner, "d();"]


# --- the same result -------------------------------------------------------------------------------------------------


def drawn(rng, count):
    """Trips of statements with random sums, named or not, that leave out a 0 as the printer does."""
    shapes = [(rng.choice(["x", "y", "x + y", "2 * x"]), rng.choice([0, 1, 8, 24]), rng.choice([0, 0, 3]),
               rng.random() < 0.5) for _ in range(rng.randint(2, 4))]
    odd = rng.randrange(count) if rng.random() < 0.3 else -1
    for trip in range(count):
        lines = []
        for n, (base, slope, constant, named) in enumerate(shapes):
            number = slope * trip + constant + (trip == odd)
            whole = f"{base} + {number}" if number else base
            if named and (number or " " in base):
                lines.append(f"const int t{trip}_{n} = {whole};")
                whole = f"t{trip}_{n}"
            lines.append(f"out({n}, {whole});")
        yield "\n".join(lines)


def run(lines):
    """What the lines put out, as Python."""
    source, depth = ["def body(out, x, y):"], 1
    for text in texts(lines):
        head = re.match(r"for \(int (\w+) = (\d+); \w+ < (\d+);", text)
        if text == "}":
            depth -= 1
        elif head:
            source.append(f"{' ' * depth}for {head[1]} in range({head[2]}, {head[3]}):")
            depth += 1
        elif not text.startswith("#"):
            source.append(" " * depth + text.replace("const int ", "").rstrip(";"))
    found, namespace = [], {}
    exec("\n".join(source), namespace)
    namespace["body"](lambda *values: found.append(values), 1000, 77)
    return found


def test_random_trips_compute_the_same():
    rng, loops = random.Random(0), 0
    for _ in range(400):
        lines = trips(*drawn(rng, rng.randint(2, 6)))
        after = rolled(lines)
        loops += len(after) < len(lines)
        assert run(after) == run(lines), "\n".join(texts(lines))
    assert loops > 150
