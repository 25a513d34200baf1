"""The state of one kernel's printing, shared by the modules that print its parts.

In: a Func.  Out: ``Kernel``: its writer, names, values, memory, helpers, and the loop nests they are printed in.

    with kernel.nest([(8, "i"), (2, "j")]): kernel.writer.line(...)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from moye.cuda.printing.expressions import Text
from moye.cuda.printing.intrinsics import Intrinsics
from moye.cuda.printing.memory import Memory
from moye.cuda.printing.names import Names, identifier
from moye.cuda.printing.uses import Uses
from moye.cuda.printing.values import Values
from moye.cuda.printing.writer import Writer
from moye.ir import ops
from moye.ir.nodes import Func, TensorParam

_INDICES = ("i", "j", "l", "n", "o", "p", "q", "r")
UNROLLED = 2048
"""Turns of a loop up to which it is unrolled: fragments of more elements are no registers, and ptxas takes minutes."""


class Kernel:
    """One Func on its way to text."""

    def __init__(self, func: Func, lineinfo: bool, asserts: bool, capability: int = 0) -> None:
        self.func = func
        self.capability = capability  # of the architecture that it is printed for: 90 of sm_90a, 0 of any
        self.asserts = asserts
        self.helpers = Intrinsics()
        self.writer = Writer(lineinfo)
        self.names = Names()
        self.uses = Uses(func, asserts)
        self.values = Values(self.uses, self.names, self.writer, self.helpers)
        self.memory = Memory(func, self.uses, self.names, self.values, self.helpers)
        self.warpgroup = ""  # the name of the thread's warpgroup, once asked for
        self.loops: list[ops.Op] = []  # those that are open, outermost first
        self.when = ""  # the name of the condition that the copies being printed are predicated on
        self.labels: dict[tuple[int, str], str] = {}  # (id(target), kind of exit) -> its goto label
        users = _users_names(func, self.uses.ops)
        self.indices = tuple(self._index(name, users) for name in _INDICES)
        self.k_index, self.back_index = self._index("k", users), self._index("jj", users)

    def _index(self, name: str, users: set[str]) -> str:
        while name in users:
            name += name[0]
        return self.names.fresh(name)

    @contextmanager
    def nest(self, loops: Sequence[tuple[Text | int, str]], unroll: bool = True) -> Iterator[None]:
        """Counting loops (extent, index name), the first outermost; loops of one iteration are left out."""
        depth = 0
        for extent, index in loops:
            if isinstance(extent, int) and extent == 1:
                continue
            if unroll and isinstance(extent, int) and extent <= UNROLLED:
                self.writer.line("#pragma unroll")
            stop = extent if isinstance(extent, int) else extent.text
            self.writer.open(f"for (int {index} = 0; {index} < {stop}; ++{index}) {{")
            depth += 1
        with self.names.scope() if depth else nullcontext():
            yield
        for _ in range(depth):
            self.writer.close()


def _users_names(func: Func, walked: list[ops.Op]) -> set[str]:
    """Every name that the user's program has for something in this kernel."""
    found: set[str] = set()
    for param in func.params:
        found.add(param.name)
        if isinstance(param, TensorParam):
            found.update(value.name for value in (*param.shape, *param.strides) if not isinstance(value, int))
    found.update(buffer.name for buffer in func.buffers)
    for op in walked:
        result = op.defines()
        if result is not None:
            found.add(result.name)
        elif isinstance(op, ops.For):
            found.add(op.iv.name)
        elif isinstance(op, ops.Declare):
            found.add(op.var.name)
    return {identifier(name) for name in found if name}
