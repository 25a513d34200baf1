"""Random ways to a number that a kernel reads from its surroundings, and random changes of them: no old code runs.

    python tests/fuzz/read_again.py 1000 3000           # first seed, programs

In: a seed.  Out: ``Program``: a module with a kernel, and statements that change what it reads.

A number lies in a name, a class, an object, a default, a closure, another module; functions, methods, operators and
containers stand before it.  After each change, of the number or of anything on the way, the kernel must compute what
Python does, or be refused.
"""

from __future__ import annotations

import linecache
import random
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

from fuzz import command
from moye.errors import MoyeError

HEAD = """import copy
import enum
import functools
import operator
import sys
from abc import ABC, abstractmethod
from collections import namedtuple
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import moye as mo

"""


@dataclass
class Way:
    """An expression that gives the number, and statements each of which makes it give another one."""

    text: str
    changes: list[str]


@dataclass
class Program:
    seed: int
    modules: dict[str, str]
    text: str
    changes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"read_again_{self.seed}"


class Generator:
    def __init__(self, seed: int) -> None:
        self.rng, self.seed = random.Random(f"read again {seed}"), seed
        self.lines: list[str] = []
        self.other: list[str] = []          # of the other module
        self.count = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def number(self) -> int:
        return self.rng.randint(10, 99)

    def define(self, text: str) -> None:
        self.lines += [text, ""]

    # --- where the number lies ---

    def leaf(self) -> Way:
        kinds = [self.global_, self.class_, self.object_, self.default, self.keyword, self.closure, self.tuple_,
                 self.function_attribute, self.of_module, self.of_module, self.nested_class, self.frozen, self.made,
                 self.list_, self.dict_, self.missing, self.metaclass, self.named_tuple, self.class_list, self.slots,
                 self.held_default, self.cell_object, self.enumeration, self.own_class, self.equal]
        return self.rng.choice(kinds)()

    def global_(self) -> Way:
        name = self.fresh("G")
        self.define(f"{name} = 3")
        text = self.rng.choice([name, name, f'globals()["{name}"]', f'eval("{name}")'])
        return Way(text, [f"{name} = {self.number()}"])

    def class_(self) -> Way:
        name = self.fresh("C")
        self.define(f"class {name}:\n    v = 3")
        text = self.rng.choice([f"{name}.v", f"{name}().v", f'getattr({name}, "v")', f'vars({name})["v"]'])
        return Way(text, [f"{name}.v = {self.number()}"])

    def nested_class(self) -> Way:
        name = self.fresh("C")
        self.define(f"class {name}:\n    class Inner:\n        v = 3")
        return Way(f"{name}.Inner.v", [f"{name}.Inner.v = {self.number()}"])

    def metaclass(self) -> Way:
        name = self.fresh("C")
        self.define(f"class M{name}(type):\n    @property\n    def v(cls):\n        return cls.w\n\n\n"
                    f"class {name}(metaclass=M{name}):\n    w = 3")
        return Way(f"{name}.v", [f"{name}.w = {self.number()}", f"M{name}.v = property(lambda cls: {self.number()})"])

    def object_(self) -> Way:
        """A plain function reads it: in a kernel itself it would be refused."""
        name = self.fresh("o")
        self.define(f"class K{name}:\n    def __init__(self):\n        self.v = 3\n\n\n{name} = K{name}()\n\n\n"
                    f"def f{name}():\n    return {name}.v")
        return Way(f"f{name}()", [f"{name}.v = {self.number()}", f"{name} = type('X', (), dict(v={self.number()}))()",
                                  f"f{name} = lambda: {self.number()}"])

    def frozen(self) -> Way:
        name = self.fresh("o")
        self.define(f"@dataclass(frozen=True)\nclass K{name}:\n    v: int\n    w: int = field(default=3, compare=False)"
                    f"\n\n\n{name} = K{name}(3)")
        return Way(f"{name}.{self.rng.choice('vw')}", [f"{name} = K{name}({self.number()}, {self.number()})"])

    def made(self) -> Way:
        name = self.fresh("K")
        self.define(f"@dataclass\nclass {name}:\n    v: int = 0\n\n    def __post_init__(self):\n        self.v += 3")
        post = f"{name}.__post_init__ = lambda self: setattr(self, 'v', {self.number()})"
        return Way(f"{name}().v", [post])

    def default(self) -> Way:
        name = self.fresh("f")
        self.define(f"def {name}(x=3):\n    return x")
        return Way(f"{name}()", [f"{name}.__defaults__ = ({self.number()},)",
                                 f"{name}.__code__ = (lambda x: {self.number()}).__code__"])

    def keyword(self) -> Way:
        name = self.fresh("f")
        self.define(f"def {name}(*, x=3):\n    return x")
        return Way(f"{name}()", [f"{name}.__kwdefaults__ = dict(x={self.number()})",
                                 f'{name}.__kwdefaults__["x"] = {self.number()}'])

    def closure(self) -> Way:
        name = self.fresh("f")
        self.define(f"def make_{name}():\n    v = 3\n\n    def change(x):\n        nonlocal v\n        v = x\n\n"
                    f"    return (lambda: v), change\n\n\n{name}, change_{name} = make_{name}()")
        return Way(f"{name}()", [f"change_{name}({self.number()})"])

    def tuple_(self) -> Way:
        name = self.fresh("T")
        self.define(f"{name} = (1, (2, 3))")
        return Way(f"{name}[1][1]", [f"{name} = (1, (2, {self.number()}))"])

    def named_tuple(self) -> Way:
        name = self.fresh("T")
        self.define(f'K{name} = namedtuple("K{name}", "v")\n{name} = K{name}(3)')
        return Way(f"{name}.v", [f"{name} = K{name}({self.number()})", f"{name} = {name}._replace(v={self.number()})"])

    def list_(self) -> Way:
        name = self.fresh("L")
        self.define(f"{name} = [1, 3]\n\n\ndef f{name}():\n    return {name}[1]")
        return Way(f"f{name}()", [f"{name}[1] = {self.number()}", f"{name}.insert(1, {self.number()})"])

    def dict_(self) -> Way:
        name = self.fresh("D")
        self.define(f"{name} = dict(v=3)\n\n\ndef f{name}():\n    return {name}.get('v', 0)")
        return Way(f"f{name}()", [f"{name}['v'] = {self.number()}", f"{name}.clear()",
                                  f"{name} |= dict(v={self.number()})"])

    def function_attribute(self) -> Way:
        name = self.fresh("f")
        jit = self.rng.choice(["", "@mo.jit\n"])
        self.define(f"{jit}def {name}(x):\n    return x + {name}.v\n\n\n{name}.v = 3\nheld_{name} = ({name},)")
        return Way(self.rng.choice([f"{name}.v", f"held_{name}[0].v", f"{name}(0)"]), [f"{name}.v = {self.number()}"])

    def of_module(self) -> Way:
        name, whole = self.fresh("N"), f"other_{self.seed}"
        self.other.append(f"{name} = 3")
        change = [f"sys.modules['{whole}'].{name} = {self.number()}"]
        way = self.rng.randrange(6)
        if way == 0:
            self.define(f"import {whole}")
            return Way(f"{whole}.{name}", change)
        if way == 1:
            reader = self.fresh("f")
            self.define(f"def {reader}():\n    from {whole} import {name}\n    return {name}")
            return Way(f"{reader}()", change)
        if way == 2:
            reader = self.fresh("f")
            self.define(f"def {reader}():\n    import {whole} as here\n    return here.{name}")
            return Way(f"{reader}()", change)
        if way == 3:
            return Way(f'sys.modules["{whole}"].{name}', change)
        self.define(f"import {whole}\nheld_{name} = ({whole},)")
        return Way(self.rng.choice([f"held_{name}[0].{name}", f'getattr({whole}, "{name}")']), change)

    def missing(self) -> Way:
        name = self.fresh("C")
        self.define(f"class {name}:\n    pass\n\n\nclass D{name}({name}):\n    pass")
        text = self.rng.choice([f'getattr(D{name}, "v{name}", 3)', f'(7 if hasattr(D{name}(), "v{name}") else 3)'])
        return Way(text, [f"{self.rng.choice(['', 'D'])}{name}.v{name} = {self.number()}"])

    def class_list(self) -> Way:
        name = self.fresh("C")
        self.define(f"class {name}:\n    items = [1, 3]\n    table = dict(v=3)\n\n    def get(self):\n"
                    f"        return self.items[1] + self.table['v'] - 3")
        return Way(f"{name}().get()", [f"{name}.items[1] = {self.number()}", f"{name}.table['v'] = {self.number()}",
                                       f"{name}.table = dict(v={self.number()})"])

    def slots(self) -> Way:
        name = self.fresh("o")
        self.define(f"class K{name}:\n    __slots__ = ('v', 'f')\n\n    def __init__(self):\n        self.v = 3\n"
                    f"        self.f = lambda: 0\n\n\n{name} = K{name}()\n\n\ndef f{name}():\n"
                    f"    return {name}.v + {name}.f()")
        return Way(f"f{name}()", [f"{name}.v = {self.number()}", f"{name}.f = lambda: {self.number()}"])

    def held_default(self) -> Way:
        """A default that is an object, a class or a function."""
        name, way = self.fresh("f"), self.rng.randrange(4)
        held, text, change = [
            (f"class K{name}:\n    v = 3", f"x=K{name}", f"K{name}.v = {self.number()}"),
            (f"class K{name}:\n    def __init__(self):\n        self.v = 3", f"x=K{name}()",
             f"{name}.__defaults__[0].v = {self.number()}"),
            (f"def K{name}():\n    pass\n\n\nK{name}.v = 3", f"x=K{name}", f"K{name}.v = {self.number()}"),
            (f"class K{name}:\n    v = 3", f"*, x=(K{name},)[0]", f"K{name}.v = {self.number()}")][way]
        self.define(f"{held}\n\n\ndef {name}({text}):\n    return x.v")
        return Way(f"{name}()", [change])

    def cell_object(self) -> Way:
        name = self.fresh("f")
        self.define(f"def make_{name}():\n    class Held:\n        def __init__(self):\n            self.v = [3]\n\n"
                    f"    held = Held()\n    return (lambda: held.v[0]), held\n\n\n{name}, held_{name} = make_{name}()")
        return Way(f"{name}()", [f"held_{name}.v[0] = {self.number()}", f"held_{name}.v = [{self.number()}]"])

    def enumeration(self) -> Way:
        name = self.fresh("E")
        self.define(f"class {name}(enum.Enum):\n    one = 1\n    two = 3\n\n    def get(self):\n"
                    f"        return self.value")
        return Way(f"{name}.two.get()", [f"{name}.get = lambda self: {self.number()}"])

    def own_class(self) -> Way:
        name = self.fresh("C")
        text = self.rng.choice(["self.__class__.v", "type(self).v", f"super().v + D{name}.w"])
        self.define(f"class {name}:\n    v = 3\n\n\nclass D{name}({name}):\n    w = 0\n\n    def get(self):\n"
                    f"        return {text}")
        return Way(f"D{name}().get()", [f"{name}.v = {self.number()}"])

    def equal(self) -> Way:
        """An object that is equal to what it was."""
        name = self.fresh("o")
        self.define(f"class K{name}:\n    def __init__(self, v):\n        self.v = v\n\n    def __eq__(self, other):\n"
                    f"        return isinstance(other, K{name})\n\n    def __hash__(self):\n        return 1\n\n\n"
                    f"{name} = K{name}(3)\n\n\ndef f{name}():\n    return {name}.v")
        return Way(f"f{name}()", [f"{name} = K{name}({self.number()})", f"{name}.v = {self.number()}"])

    # --- what stands before it ---

    def wrapped(self, way: Way) -> Way:
        kinds = [self.function, self.function, self.method, self.derived, self.property_, self.operator, self.lambdas,
                 self.partial, self.called, self.wraps, self.generator, self.static, self.constructor, self.descriptor,
                 self.scope, self.comprehension, self.dispatch, self.factory, self.super_, self.lookup, self.bound,
                 self.abstract, self.decorated_class, self.copied, self.new, self.by_operator, self.inner_function,
                 self.partial_method, self.enum_method, self.tuple_class, self.subclass_hook, self.setter]
        return self.rng.choice(kinds)(way)

    def function(self, way: Way) -> Way:
        name, jit = self.fresh("f"), self.rng.choice(["", "@mo.jit\n"])
        body = self.rng.choice([f"return {way.text}", f"x = {way.text}\n    return x",
                                f"for _ in (1,):\n        if _:\n            return {way.text}",
                                f"return (lambda: {way.text})()"])
        self.define(f"{jit}def {name}():\n    {body}")
        changes = [f"{name} = lambda: {self.number()}"]
        return Way(f"{name}()", way.changes + (changes if jit else [*changes, f"{name}.__code__ = (lambda: "
                                                                     f"{self.number()}).__code__"]))

    def method(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class {name}:\n    def m(self):\n        return {way.text}")
        return Way(f"{name}().m()", [*way.changes, f"{name}.m = lambda self: {self.number()}"])

    def derived(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class {name}:\n    def m(self):\n        return {way.text}\n\n\nclass M{name}({name}):\n    pass"
                    f"\n\n\nclass D{name}(M{name}):\n    pass")
        return Way(f"D{name}().m()", [*way.changes, f"D{name}.m = lambda self: {self.number()}",
                                      f"M{name}.m = lambda self: {self.number()}"])

    def super_(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class {name}:\n    def m(self):\n        return {way.text}\n\n\nclass M{name}({name}):\n    pass"
                    f"\n\n\nclass D{name}(M{name}):\n    def m(self):\n        return super().m()")
        return Way(f"D{name}().m()", [*way.changes, f"M{name}.m = lambda self: {self.number()}"])

    def property_(self, way: Way) -> Way:
        name, kind = self.fresh("K"), self.rng.choice(["property", "functools.cached_property"])
        self.define(f"class {name}:\n    @{kind}\n    def p(self):\n        return {way.text}")
        return Way(f"{name}().p", [*way.changes, f"{name}.p = property(lambda self: {self.number()})"])

    def operator(self, way: Way) -> Way:
        name = self.fresh("K")
        method, text = self.rng.choice([("__add__(self, o)", "{}() + 0"), ("__getitem__(self, i)", "{}()[0]"),
                                        ("__len__(self)", "len({}())"), ("__index__(self)", "operator.index({}())"),
                                        ("__neg__(self)", "-{}()"), ("__call__(self)", "{}()()"),
                                        ("__radd__(self, o)", "0 + {}()"), ("__int__(self)", "int({}())"),
                                        ("__getattr__(self, name)", "{}().anything"),
                                        ("__iter__(self)", "next(iter({}()))")])
        body = f"return {way.text}" if "iter" not in method else f"yield {way.text}"
        if "getattr" in method:
            body = f"if name.startswith('_'):\n            raise AttributeError(name)\n        {body}"
        self.define(f"class {name}:\n    def {method}:\n        {body}")
        verb = method.partition("(")[0]
        change = "iter(())" if "iter" in method else str(self.number())
        return Way(text.format(name), [*way.changes, *([] if "iter" in method or "getattr" in method else
                                                       [f"{name}.{verb} = lambda self, *o: {change}"])])

    def lambdas(self, way: Way) -> Way:
        name = self.fresh("T")
        self.define(f"{name} = (lambda: 1, lambda: {way.text})")
        return Way(f"{name}[1]()", [*way.changes, f"{name} = (lambda: 1, lambda: {self.number()})"])

    def partial(self, way: Way) -> Way:
        name = self.fresh("p")
        self.define(f"{name} = functools.partial(lambda a, b: a + b + {way.text}, 1, b=-1)")
        return Way(f"{name}()", [*way.changes, f"{name} = functools.partial({name}.func, {self.number()}, b=0)"])

    def called(self, way: Way) -> Way:
        name = self.fresh("o")
        self.define(f"class K{name}:\n    def __init__(self):\n        self.extra = 0\n\n    def __call__(self):\n"
                    f"        return {way.text} + self.extra\n\n\n{name} = K{name}()")
        return Way(f"{name}()", [*way.changes, f"{name}.extra = {self.number()}",
                                 f"K{name}.__call__ = lambda self: {self.number()}"])

    def wraps(self, way: Way) -> Way:
        name, factor = self.fresh("f"), self.fresh("G")
        self.define(f"{factor} = 1\n\n\ndef times_{name}(f):\n    @functools.wraps(f)\n    def g(*args):\n"
                    f"        return f(*args) * {factor}\n    return g\n\n\n@times_{name}\ndef {name}():\n"
                    f"    return {way.text}")
        return Way(f"{name}()", [*way.changes, f"{factor} = 2", f"{name} = lambda: {self.number()}"])

    def generator(self, way: Way) -> Way:
        name = self.fresh("g")
        self.define(f"def {name}():\n    yield {way.text}\n    yield 0")
        return Way(f"sum({name}())", way.changes)

    def static(self, way: Way) -> Way:
        name, kind = self.fresh("K"), self.rng.choice(["staticmethod", "classmethod"])
        self.define(f"class {name}:\n    @{kind}\n    def m({'cls' if kind == 'classmethod' else ''}):\n"
                    f"        return {way.text}")
        return Way(f"{name}.m()", [*way.changes, f"{name}.m = staticmethod(lambda: {self.number()})"])

    def constructor(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class {name}:\n    def __init__(self, x):\n        self.x = x + {way.text}")
        change = f"{name}.__init__ = lambda self, x: setattr(self, 'x', {self.number()})"
        return Way(f"{name}(0).x", [*way.changes, change])

    def descriptor(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class D{name}:\n    def __get__(self, one, cls):\n        return {way.text}\n\n\n"
                    f"class {name}:\n    d = D{name}()")
        return Way(f"{name}().d", [*way.changes, f"{name}.d = {self.number()}",
                                   f"D{name}.__get__ = lambda self, one, cls: {self.number()}"])

    def scope(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class {name}:\n    def __enter__(self):\n        return {way.text}\n\n"
                    f"    def __exit__(self, *error):\n        return False\n\n\ndef f{name}():\n"
                    f"    with {name}() as x:\n        return x")
        return Way(f"f{name}()", [*way.changes, f"{name}.__enter__ = lambda self: {self.number()}"])

    def comprehension(self, way: Way) -> Way:
        return Way(self.rng.choice([f"sum([{way.text} for _ in range(1)])", f"max(x + {way.text} for x in (0, -1))",
                                    f"[*map(lambda x: x + {way.text}, (0,))][0]"]), way.changes)

    def dispatch(self, way: Way) -> Way:
        name = self.fresh("D")
        self.define(f"{name} = dict(a=lambda: {way.text})\n\n\ndef f{name}(key):\n    return {name}[key]()")
        return Way(f"f{name}('a')", [*way.changes, f"{name}['a'] = lambda: {self.number()}"])

    def factory(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"@dataclass\nclass {name}:\n    v: int = field(default_factory=lambda: {way.text})")
        return Way(f"{name}().v", way.changes)

    def lookup(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class {name}:\n    def one(self):\n        return {way.text}\n\n    def two(self):\n"
                    f"        return getattr(self, 'one')()")
        return Way(f"{name}().two()", [*way.changes, f"{name}.one = lambda self: {self.number()}"])

    def bound(self, way: Way) -> Way:
        name = self.fresh("b")
        self.define(f"class K{name}:\n    def m(self):\n        return {way.text}\n\n\n{name} = K{name}().m")
        return Way(f"{name}()", [*way.changes, f"{name} = lambda: {self.number()}"])

    def abstract(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f'T{name} = TypeVar("T{name}")\n\n\nclass A{name}(ABC, Generic[T{name}]):\n    @abstractmethod\n'
                    f"    def m(self):\n        ...\n\n    def twice(self):\n        return self.m()\n\n\n"
                    f"class {name}(A{name}[int]):\n    def m(self):\n        return {way.text}")
        return Way(f"{name}().twice()", [*way.changes, f"{name}.m = lambda self: {self.number()}",
                                         f"{name}.twice = lambda self: {self.number()}"])

    def decorated_class(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"def with_{name}(cls):\n    cls.m = lambda self: {way.text}\n    return cls\n\n\n@with_{name}\n"
                    f"class {name}:\n    pass")
        return Way(f"{name}().m()", [*way.changes, f"{name}.m = lambda self: {self.number()}"])

    def copied(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"@dataclass(frozen=True)\nclass {name}:\n    v: int = 0\n    w: int = 0")
        text = self.rng.choice([f"replace({name}(), v={way.text}).v", f"copy.copy({name}({way.text})).v"])
        return Way(text, way.changes)

    def new(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class {name}:\n    def __new__(cls):\n        made = super().__new__(cls)\n"
                    f"        made.v = {way.text}\n        return made")
        return Way(f"{name}().v", way.changes)

    def by_operator(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class {name}:\n    def m(self):\n        return {way.text}\n\n    @property\n    def p(self):\n"
                    f"        return {way.text}")
        text = self.rng.choice([f'operator.methodcaller("m")({name}())', f'operator.attrgetter("p")({name}())',
                                f"functools.reduce(lambda a, b: a + b.p, ({name}(),), 0)"])
        return Way(text, way.changes)

    def inner_function(self, way: Way) -> Way:
        name = self.fresh("f")
        self.define(f"@mo.jit\ndef {name}():\n    def inner(x):\n        return x + {way.text}\n\n"
                    f"    class Local:\n        def m(self):\n            return inner(0)\n\n    return Local().m()")
        return Way(f"{name}()", way.changes)

    def partial_method(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class {name}:\n    def m(self, x):\n        return x + {way.text}\n\n"
                    f"    n = functools.partialmethod(m, 0)")
        return Way(f"{name}().n()", [*way.changes, f"{name}.n = lambda self: {self.number()}"])

    def enum_method(self, way: Way) -> Way:
        name = self.fresh("E")
        self.define(f"class {name}(enum.IntEnum):\n    one = 1\n\n    @property\n    def p(self):\n"
                    f"        return self + {way.text} - 1")
        return Way(f"{name}.one.p", way.changes)

    def tuple_class(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f'class {name}(namedtuple("{name}", "a b")):\n    def m(self):\n        return self.a + {way.text}')
        return Way(f"{name}(0, 1).m()", [*way.changes, f"{name}.m = lambda self: {self.number()}"])

    def subclass_hook(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class {name}:\n    made = []\n\n    def __init_subclass__(cls):\n"
                    f"        {name}.made.append(cls)\n\n\n"
                    f"class D{name}({name}):\n    def m(self):\n        return {way.text}\n\n\ndef f{name}():\n"
                    f"    return {name}.made[-1]().m()")
        return Way(f"f{name}()", [*way.changes, f"D{name}.m = lambda self: {self.number()}",
                                  f"{name}.made.append(type('Z', (), dict(m=lambda self: {self.number()})))"])

    def setter(self, way: Way) -> Way:
        name = self.fresh("K")
        self.define(f"class {name}:\n    @property\n    def p(self):\n        return self.q\n\n    @p.setter\n"
                    f"    def p(self, x):\n        self.q = x + {way.text}\n\n\ndef f{name}():\n    made = {name}()\n"
                    f"    made.p = 0\n    return made.p")
        return Way(f"f{name}()", way.changes)

    # --- the whole ---

    def program(self) -> Program:
        way = self.leaf()
        for _ in range(self.rng.choice([0, 1, 1, 2, 2, 3])):
            way = self.wrapped(way)
        text, inside = way.text, self.rng.choice(["", "", "given", "object"])
        if inside == "given":
            self.define(f"def given():\n    return {text}")
            kernel = "def kernel(out, f):\n    out[0] = f()"
        elif inside == "object":
            self.define(f"class Given:\n    def get(self):\n        return {text}\n\n\ngiven = Given()")
            kernel = "def kernel(out, f: mo.Constexpr):\n    out[0] = f.get()"
        else:
            self.define("given = None")
            kernel = f"def kernel(out, f):\n    out[0] = {text}"
        self.define(f"@mo.kernel\n{kernel}")
        self.define(f"def plain():\n    return {text}")
        changes = self.rng.sample(way.changes, min(2, len(way.changes)))
        modules = {f"other_{self.seed}": "\n".join(self.other) + "\n", f"read_again_{self.seed}":
                   HEAD + f"sys.modules['other_{self.seed}']\n" + "\n".join(self.lines)}
        return Program(self.seed, modules, text, changes)


def draw(seed: int) -> Program:
    return Generator(seed).program()


def failure(one: Program) -> str | None:
    """What is wrong with a program: a result that is not Python's after a change; None if nothing is."""
    try:
        for name, text in one.modules.items():
            _made(name, text)
        return _failure(one, vars(sys.modules[one.name]))
    finally:
        for name in one.modules:
            sys.modules.pop(name, None)


def _made(name: str, text: str) -> None:
    module = types.ModuleType(name)
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.modules[name] = module
    exec(compile(text, file, "exec"), vars(module))


def _failure(one: Program, names: dict[str, Any]) -> str | None:
    out = np.zeros(1, np.int32)
    told: list[str] = []
    for change in ("pass", *one.changes):
        exec(change, names)
        told.append(change)
        try:
            wanted = int(names["plain"]())
        except Exception:
            return None                                     # what Python does not compute
        try:
            names["kernel"][1, 1](out, names["given"])
        except MoyeError as error:
            if change != "pass" or "may change between launches" in str(error):
                return None
            return f"refused: {error}"
        if out[0] != wanted:
            return f"{one.text} is {out[0]} and not {wanted} after {told}"
    return None


def judged(programs: list[Program]) -> list[str]:
    found = []
    for one in programs:
        try:
            why = failure(one)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        found += [] if why is None else [f"{one.seed}: {why}"]
    return found


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 500))
