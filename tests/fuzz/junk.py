"""Calls of public functions with arguments of wrong types and values, drawn from a seed, and their judgement.

In: a namespace, a pool of values.  Out: the calls that end in anything but a result or an error of moye's own.

>>> faults(calls("moye.layout", random.Random(0), 3), 5.0)        # a sketch; by hand: python tests/fuzz/junk.py 0 40
[]

A TypeError that Python raises because the arguments do not bind to the signature is Python's own sentence, and fine.
A call that takes longer than the limit is a hang.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import random
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

import numpy as np

import moye as mo

NAMESPACES = ("moye", "moye.layout", "moye.layout.analysis", "moye.kernels", "moye.testing", "moye.mma")
# These wait, open files, run a command line or show the machine on purpose.
NOT_CALLED = {"main", "breakpoint", "do_bench", "interleave"}
SEP = 60
KERNEL = "in a kernel"


class Plain:
    """An object that no function of moye knows."""


@dataclass(frozen=True)
class Call:
    """A function by its public name, and what it is called with."""

    name: str
    function: Callable[..., Any]
    args: tuple[object, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(short, self.args))})"


@dataclass(frozen=True)
class Fault:
    """A call that ended in an exception that is not moye's, or did not end."""

    call: str
    error: str
    where: str


def short(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception as error:
        text = f"<repr failed: {type(error).__name__}>"
    return text if len(text) < SEP else f"{text[:SEP]}..."


def host_pool() -> list[object]:
    """What users pass by mistake, and things of moye that belong elsewhere."""
    layout = mo.make_layout((4, 8))
    atom = mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float32)
    return [
        None, True, 0, 1, -1, 3, 8, 2**31, 2**40, 10**30, 0.0, 1.5, float("nan"), float("inf"), 1j, "", "abc", "\0",
        "(4,8):(1,4)", b"bytes", (), (0,), (4, 8), (-1, 2), ((2, 2), 8), (None, 1), ("a", 1), [], [4, 8], [[1], 2], {},
        {"a": 1}, set(), range(4), slice(None), slice(0, 2), Ellipsis, NotImplemented, int, float, str, object, len,
        lambda *a: 0, Plain(), Plain, mo, np, np.int64(100), np.int32(-3), np.uint8(7), np.float32(1.5), np.float64(2),
        np.bool_(True), np.float32, np.int64, np.dtype("f4"), np.dtype("U3"), np.zeros(4, np.float32),
        np.zeros((2, 3), np.int64), np.array(5), np.array([], np.float32), np.array(["a"]), np.zeros(2, "f4,i4"),
        np.array([None, 1], object), mo.float32, mo.int32, mo.bfloat16, mo.bool, layout, mo.make_layout(8, 0),
        mo.make_layout((np.int64(4), 8)), mo.make_layout(((2, 2), 8), ((1, 4), 2)), mo.make_layout(4, -1), mo.E(0),
        mo.Swizzle(3, 3, 3), mo.composition(mo.Swizzle(2, 0, 3), mo.make_layout((8, 8), (8, 1))), atom,
        mo.make_tiled_copy(atom, mo.make_layout((8, 4)), mo.make_layout((4, 1))),
        mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((4, 8))),
        mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.UniversalCopy(mo.float32), mo.TensorLike(mo.float32, (4, 8)),
        mo.identity_tensor((4, 8)), mo.make_identity_layout((4, 8)), mo.Constexpr, mo.Static, mo.ArgumentError("x"),
    ]


def functions(namespace: str) -> dict[str, Callable[..., Any]]:
    """The public callables of a module: functions and classes."""
    module: ModuleType = importlib.import_module(namespace)
    names = [name for name in getattr(module, "__all__", dir(module)) if not name.startswith("_")]
    found = {f"{namespace}.{name}": getattr(module, name) for name in names if name not in NOT_CALLED}
    return {name: value for name, value in found.items()
            if callable(value) and str(getattr(value, "__module__", None)).startswith("moye")
            and not (isinstance(value, type) and issubclass(value, BaseException))}


def arity(function: Callable[..., Any]) -> tuple[int, int]:
    """The fewest and the most positional arguments that bind."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return 0, 3
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    fewest = sum(p.default is p.empty for p in positional)
    return fewest, max(fewest, len(positional), *(fewest + 2 for p in parameters if p.kind is p.VAR_POSITIONAL), 0)


def calls(namespace: str, rng: random.Random, each: int, pool: list[object] | None = None) -> Iterator[Call]:
    """``each`` drawn calls of every function, and one with every value of the pool where one argument is enough."""
    pool = host_pool() if pool is None else pool
    for name, function in functions(namespace).items():
        low, high = arity(function)
        if low <= 1 <= high:
            yield from (Call(name, function, (value,)) for value in pool)
        for _ in range(each):
            count = rng.randint(low, min(high, low + 2))
            yield Call(name, function, tuple(rng.choice(pool) for _ in range(count)))


@dataclass(frozen=True)
class Traced:
    """Stands for a value that exists only inside of a kernel."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


INSIDE = ("float", "int", "wide", "truth", "tensor", "matrix", "huge", "shared", "swizzled", "registers", "slice",
          "thread", "mask", "barriers")


def inside(name: str, x: Any, y: Any, n: Any) -> Any:
    """The value that a ``Traced`` stands for."""
    make: dict[str, Callable[[], Any]] = {
        "float": lambda: x[0], "int": lambda: n, "wide": lambda: n.to(mo.int64), "truth": lambda: n > 0,
        "tensor": lambda: x, "matrix": lambda: y, "huge": lambda: y[:, 0],
        "shared": lambda: mo.shared_array(mo.float32, (4, 8)),
        "swizzled": lambda: mo.shared_array(mo.float16, mo.smem_layout_atom(mo.float16, "k")),
        "registers": lambda: mo.fragment((2, 3), mo.float32), "slice": lambda: y[0, :],
        "thread": lambda: mo.thread_idx().x, "mask": lambda: mo.ballot(n > 0),
        "barriers": lambda: mo.mbarrier_array(2),
    }
    return make[name]()


METHODS = ("with_layout", "fill", "to", "load", "store", "reduce", "view", "recast", "__getitem__", "__setitem__",
           "__add__", "__rsub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__", "__lshift__",
           "__lt__", "__eq__", "__and__", "__neg__", "__invert__", "__iter__", "__len__", "__call__",
           "__contains__", "__bool__", "__index__", "__float__", "__format__", "__matmul__", "__hash__")


def method(name: str) -> Callable[..., Any]:
    def called(value: Any, *args: Any) -> Any:
        own = getattr(type(value), name, None)
        return None if own is None else own(value, *args)

    called.__name__ = name
    return called


def in_a_kernel(call: Call) -> Callable[[], None]:
    """The call inside of a kernel that is traced."""
    def body(x: Any, y: Any, n: Any) -> None:
        args = [inside(a.name, x, y, n) if isinstance(a, Traced) else a for a in call.args]
        result = call.function(*args)
        if hasattr(result, "__next__"):
            next(iter(result), None)

    def k(x, y, n):                                     # type: ignore[no-untyped-def]
        body(x, y, n)

    def run() -> None:
        mo.kernel(k).trace(mo.TensorLike(mo.float32, (64,)), mo.TensorLike(mo.float32, (16, 16)), 3, block=32)

    return run


def calls_in_a_kernel(rng: random.Random, each: int) -> Iterator[Call]:
    """Drawn calls of every public function and of methods of traced values, with traced values among the junk."""
    traced: list[object] = [Traced(name) for name in INSIDE]
    pool = host_pool() + traced * 3
    for call in calls("moye", rng, each, pool):
        yield Call(f"in a kernel: {call}", in_a_kernel(call), ())
    for name in METHODS:
        for first in traced:
            for _ in range(max(1, each // 4)):
                call = Call(name, method(name), (first, *(rng.choice(pool) for _ in range(rng.randint(0, 2)))))
                yield Call(f"in a kernel: {call}", in_a_kernel(call), ())


class Hang(BaseException):
    """A call that takes too long; no ``except Exception`` may swallow it."""


def _hangs(number: int, frame: FrameType | None) -> None:
    raise Hang


def judged(call: Call, seconds: float) -> Fault | None:
    """None where the call returns or raises an error of moye; else the fault."""
    before = signal.signal(signal.SIGALRM, _hangs)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), \
                warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call.function(*call.args)
    except mo.MoyeError as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return None if str(error).strip() else Fault(str(call), "an empty message", type(error).__name__)
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1]
        if isinstance(error, TypeError) and last.filename == __file__:
            return None                                 # the arguments do not bind
        where = f"{last.filename.rpartition('/moye/')[2]}:{last.lineno}"
        return Fault(str(call), f"{type(error).__name__}: {' '.join(str(error).split())[:90]}", where)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return None


def faults(drawn: Iterator[Call], seconds: float) -> list[Fault]:
    return [fault for call in drawn if (fault := judged(call, seconds)) is not None]


def main(seed: int, each: int) -> int:
    rng, count = random.Random(seed), 0
    for namespace in (*NAMESPACES, KERNEL):
        drawn = list(calls_in_a_kernel(rng, each) if namespace == KERNEL else calls(namespace, rng, each))
        found = faults(iter(drawn), 10.0)
        count += len(found)
        names = {fault.call.removeprefix(f"{KERNEL}: ").partition("(")[0] for fault in found}
        print(f"{namespace}: {len(drawn)} calls, {len(found)} faults of {len(names)} functions")
        shown: Counter[str] = Counter()
        for fault in found:
            name = fault.call.partition("(")[0]
            shown[name] += 1
            if shown[name] <= 3:
                print(f"  {fault.call}\n      {fault.error}   [{fault.where}]")
    return count > 0


if __name__ == "__main__":
    raise SystemExit(main(*(int(x) for x in sys.argv[1:3])))
