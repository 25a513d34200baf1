"""Names for values that the user gave none: after what they are made of, where they lead, or what they are part of.

In: a Func, and the C++ names of values that have one.  Out: a hint for ``Names.fresh``, "" where nothing is known.

    hints.of(value)     # tx % 32: "tx_mod_32"; where tAsA begins: "tAsA_at"; in ``top = ...``: "top_part"

In a later trip of an unrolled loop the loop's variable stands for a number: ``tx + 128`` is ``tx_plus_i`` there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from moye.ir import ops
from moye.ir.nodes import Func, Literal, Operand, TileRef, Value

_WORDS = {"add": "plus", "sub": "minus", "mul": "times", "floordiv": "div", "mod": "mod", "eq": "is", "ne": "is_not",
          "lt": "below", "le": "up_to", "gt": "above", "ge": "from"}
_LONGEST, _LARGEST = 24, 1 << 16
_TARGET = re.compile(r"\s*([A-Za-z_]\w*)(?:[.\[][^=()<>!]*)?\s*(?::[^=]*)?(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=)")


class Hints:
    """What unnamed values are called; ``known`` gives the C++ name of a value that has one."""

    def __init__(self, func: Func, known: Callable[[Value], str]) -> None:
        self._known = known
        self._starts: dict[int, str] = {}       # where views begin, by the view that is read or written first
        for op in func.body.walk():
            for ref, _ in op.refs():
                name = (isinstance(ref, TileRef) and ref.name) or ref.buffer.name
                if isinstance(ref.offset, Value) and name:
                    self._starts.setdefault(ref.offset.id, f"{name}_at")

    def of(self, value: Value) -> str:
        """A hint for the name of a value."""
        begins = self._starts.get(value.id) or (value.view and f"{value.view}_at")
        return value.name or self._formula(value) or begins or _part_of(value)

    def _formula(self, value: Value) -> str:
        """``tx_mod_32``: the operation in words, where that is short."""
        op = value.op
        if not isinstance(op, ops.Binary) or op.kind not in _WORDS:
            return ""
        left, right = self._name(op.a), self._name(op.b, op.trips)
        if not left or not right or (isinstance(op.b, Value) and not self._called(op.b)):
            return ""
        found = f"{left}_{_WORDS[op.kind]}_{right}"
        return found if len(found) <= _LONGEST else ""

    def _name(self, operand: Operand, trips: tuple[tuple[str, int], ...] = ()) -> str:
        if isinstance(operand, Value):
            return self._called(operand) or self._formula(operand)
        if trips and trips[-1][1]:
            return trips[-1][0]
        whole = isinstance(operand, Literal) and operand.dtype.is_integer and 0 <= operand.value < _LARGEST
        return str(int(operand.value)) if whole else ""

    def _called(self, value: Value) -> str:
        return self._known(value) or value.name


def _part_of(value: Value) -> str:
    """After the variable that the statement assigns to."""
    frame = value.op.loc.innermost if value.op is not None else None
    match = _TARGET.match(frame.text()) if frame is not None else None
    return f"{match[1]}_part" if match else ""
