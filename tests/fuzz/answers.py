"""One program, several answers: the simulator's, the interpreter's, and that of the CUDA compiled for the host.

In: ``Program``.  Out: ``Verdict``: "clean", "overflow", "unclear", "refused", or a failure with its kind and text.

>>> judge(draw(3)).kind
'clean'

A failure's kind is one of alarm (a finding on a right program), missed (none on a wrong one), values, crash, refused,
cuda (the host's answer differs) and compiler.
"""

from __future__ import annotations

import linecache
import math
import pickle
import re
import traceback
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import moye as mo
from fuzz import interpreter
from fuzz.programs import Program, arguments
from fuzz.scalars import EXACT, SCRAMBLED, Num, Unclear
from moye.errors import MoyeError

_LOST = re.compile("does not fit (8|16) bits")
EXPECTED = {"A11": {"A11"}, "B1": {"B1", "B2", "A4"}}


@dataclass
class Verdict:
    kind: str
    text: str = ""
    printed: Any = None     # what the CUDA printer made, of a clean program
    memories: Any = None    # of the interpreter

    @property
    def failed(self) -> bool:
        return self.kind not in ("clean", "overflow", "fault", "unclear")


def kernel_of(program: Program) -> Any:
    """The kernel that the source defines."""
    file = f"<{program.name}>"
    lines = program.source.splitlines(keepends=True)
    linecache.cache[file] = (len(program.source), None, lines, file)
    names: dict[str, Any] = {"__name__": program.name}
    exec(compile(program.source, file, "exec"), names)
    return names[program.name]


def for_moye(items: list[Any]) -> list[Any]:
    """The arguments as a user passes them."""
    found: list[Any] = []
    for item in items:
        if isinstance(item, tuple):
            values, t = item
            found.append(np.asfortranarray(values.astype(ml_dtypes.bfloat16)) if t == "bf16" else
                         values.copy(order="F"))
        else:
            found.append(item.v if isinstance(item, Num) else item)
    return found


def differences(items: list[Any], memories: list[Any], found: list[Any], names: list[str]) -> list[str]:
    """Elements whose bits differ; any NaN is like any other."""
    told = []
    for name, item, memory, array in zip(names, items, memories, found, strict=True):
        if not isinstance(item, tuple) or name[0] not in "oqz":
            continue
        t, flat = item[1], array.ravel(order="F")
        got = flat.astype(np.float32 if t == "bf16" else flat.dtype).tolist()
        for at, (x, y) in enumerate(zip(memory, got, strict=True)):
            if not same(x, y):
                place = np.unravel_index(at, array.shape, order="F")
                told.append(f"{name}[{', '.join(str(int(i)) for i in place)}] is {y}, not {x}")
    return told


def same(x: Any, y: Any) -> bool:
    if isinstance(x, float):
        return (x != x and y != y) or (x == y and math.copysign(1, x) == math.copysign(1, y))
    return bool(x == y)


def judge(program: Program) -> Verdict:
    """The simulator against the interpreter."""
    items = arguments(program)
    try:
        codes, memories = interpreter.run(program.source, program.name, items, program.grid, program.block)
    except (Unclear, RecursionError) as why:
        return Verdict("unclear", str(why))
    except Exception as error:      # a program that reduction broke: no program
        return Verdict("unclear", f"{type(error).__name__}: {error}")
    return against(program, items, codes, memories)


def with_trace(kernel: Any, passed: list[Any], program: Program, traced: bytes) -> Any:
    """The kernel, with what tracing it for these arguments gave."""
    from moye.runtime.arguments import classify
    from moye.runtime.compile import Specialised
    from moye.runtime.guards import compile_guards

    func = pickle.loads(traced)
    key = (classify(kernel.signature, tuple(passed), {}).key, (program.block, 1, 1), (1, 1, 1))
    kernel._specialised[key] = Specialised(func, {}, compile_guards(func), 0)
    return kernel


def against(program: Program, items: list[Any], codes: set[str], memories: list[Any], traced: bytes = b"") -> Verdict:
    """With the pickled IR (``traced``) only the simulator is asked: nothing is traced, printed, or told of costs."""
    passed = for_moye(items)
    try:
        kernel = kernel_of(program)
        kernel = with_trace(kernel, passed, program, traced) if traced else kernel
        report = mo.check(kernel, lints=not traced)[program.grid, program.block](*passed)
    except MoyeError as error:
        if codes and (getattr(error, "code", None) in EXPECTED.get(next(iter(codes)), ())):
            return Verdict("fault", str(error))
        return Verdict("refused", str(error).splitlines()[0])
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Verdict("crash", f"{type(error).__name__} in {last.filename.rpartition('/')[2]}: {error}"[:300])
    # Bits of narrow integers that are lost and would matter are told too (tests/sim/test_lost_bits.py): here they wrap.
    findings = [f for f in report.findings if not _LOST.search(f.message)]
    found = {f.code for f in findings}
    if codes:
        if codes == {"A11"} and not found and unread(program, items, memories):
            return Verdict("overflow", "of what nobody reads")
        if codes == {"A11"} and not found and exact(program, items, passed):
            return Verdict("overflow", "of what folding leaves out: what is left computes with exact integers")
        return _of_a_fault(codes, found, report)
    if found or report.unsupported:
        return Verdict("alarm", f"{sorted(found)} {findings[0] if found else report.unsupported}"[:600])
    told = differences(items, memories, passed, program.parameters)
    if told:
        return Verdict("values", f"{len(told)} elements: {'; '.join(told[:3])}")
    return Verdict("clean", "", None if traced else printed_of(kernel, passed, program), memories)


def unread(program: Program, items: list[Any], memories: list[Any]) -> bool:
    """Whether the program writes the same when what overflows is another number."""
    SCRAMBLED.append(True)
    try:
        return repr(interpreter.run(program.source, program.name, items, program.grid, program.block)[1]) == \
            repr(memories)
    except Exception:
        return False
    finally:
        SCRAMBLED.clear()


def exact(program: Program, items: list[Any], found: list[Any]) -> bool:
    """Whether the arrays hold what the program computes if no integer overflows."""
    EXACT.append(True)
    try:
        memories = interpreter.run(program.source, program.name, items, program.grid, program.block)[1]
        return not differences(items, memories, found, program.parameters)
    except Exception:
        return False
    finally:
        EXACT.clear()


def _of_a_fault(codes: set[str], found: set[str], report: Any) -> Verdict:
    """Any of the faults that the interpreter saw, and no finding of another kind."""
    wanted = set().union(*(EXPECTED.get(code, {code}) for code in codes))
    if not found:
        return Verdict("missed", f"{sorted(codes)} in a launch that is told clean")
    if "B1" in codes or found <= wanted:
        return Verdict("overflow" if codes == {"A11"} else "fault")
    return Verdict("alarm", f"{sorted(found)} where {sorted(codes)} is right: {report.findings[0]}"[:600])


def printed_of(kernel: Any, passed: list[Any], program: Program) -> Any:
    """The printed CUDA, or the error that printing is."""
    from moye.cuda.printing.printer import print_kernel

    try:
        return print_kernel(kernel.trace(*passed, block=program.block))
    except Exception as error:          # what it is says the verdict
        return error
