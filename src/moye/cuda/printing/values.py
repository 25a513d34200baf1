"""What each Value prints as: its name, or the expression that makes it, written at its one use.

In: the definition of each Value in program order, and the ops that change memory or variables.  Out: ``Text`` operands.

    values.define(op, Text("tid / 32")); values.operand(op.result)

A pure value used once is inlined, one used more often becomes ``const int x = ...;``.  Text that depends on a variable
or on memory waits as well, and is evaluated into a const just before something changes what it depends on (``before``,
``entering``, ``looping``) if it is still needed afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from moye.cuda.printing.expressions import Text, literal
from moye.cuda.printing.intrinsics import Intrinsics
from moye.cuda.printing.names import Names
from moye.cuda.printing.uses import MEMORY, ORDER, Uses
from moye.cuda.printing.writer import Writer
from moye.errors import IRError
from moye.ir import ops
from moye.ir.nodes import Block, Literal, Operand, TileRef, Value

_LONGEST = 96  # characters of an expression that is still inlined
_ORDERED = frozenset((ORDER,))
_WORDS = {"add": "plus", "sub": "minus", "mul": "times", "floordiv": "div", "mod": "mod", "eq": "is", "ne": "is_not",
          "lt": "below", "le": "up_to", "gt": "above", "ge": "from"}
_LONGEST_NAME, _LARGEST = 24, 1 << 16
_TARGET = re.compile(r"\s*([A-Za-z_]\w*)(?:[.\[][^=()<>!]*)?\s*(?::[^=]*)?(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=)")


class Pending:
    """An expression that is not evaluated yet."""

    __slots__ = ("text", "value")

    def __init__(self, value: Value, text: Text) -> None:
        self.value = value
        self.text = text


class Values:
    """The text of every Value at the point ``now`` of the printing."""

    def __init__(self, uses: Uses, names: Names, writer: Writer, helpers: Intrinsics) -> None:
        self.uses = uses
        self.names = names
        self.writer = writer
        self.helpers = helpers
        self.now = 0
        self.vars: dict[int, str] = {}
        self._known: dict[int, Text] = {}
        self._pending: dict[int, Pending] = {}
        self._hints = Hints(uses.ops, self._called)
        self._unnamed: set[str] = set()  # C++ names of values that the user gave none

    # --- definitions ---

    def bind(self, value: Value, name: str) -> None:
        """A Value that has a C++ name: a parameter, a loop counter."""
        self._pending.pop(value.id, None)
        self._known[value.id] = Text(name)

    def is_bound(self, value: Value) -> bool:
        return value.id in self._known

    def define(self, op: ops.Op, text: Text, *, alias: bool = False, initial: str = "", hint: str = "") -> None:
        """The Value that ``op`` makes; ``initial`` is how its const is initialised if not by ``text``.

        An ``alias`` is as cheap as a name, and gets none of its own.
        """
        value: Value = op.result  # type: ignore[attr-defined]
        self.define_value(value, text, alias=alias or isinstance(op, ops.Read), initial=initial, hint=hint)

    def define_value(self, value: Value, text: Text, *, alias: bool = False, initial: str = "", hint: str = "") -> None:
        count = self.uses.count.get(value.id, 0)
        if not count:
            return
        here = self.uses.depth.get(value.id, 0) >= self.uses.use_depth[value.id]
        inline = not (value.name and ORDER in text.deps)  # what lanes do together stays where the user named it
        if alias or (inline and count == 1 and here and self._length(text) <= _LONGEST):
            self._known.pop(value.id, None)             # of the lane before, where a body is printed for each of two
            self._pending[value.id] = Pending(value, text)
        else:
            self.name(value, initial or text.text, hint)

    def name(self, value: Value, initial: str, hint: str = "") -> str:
        """Evaluate now: ``const int x = initial;``.  Returns the name."""
        name = self._fresh(value, hint)
        self.writer.line(f"const {self.helpers.ctype(value.dtype)} {name} = {initial};")
        self.bind(value, name)
        return name

    def result(self, value: Value) -> str | None:
        """The C++ name for a result that a statement computes, or None where nobody reads it."""
        if not self.uses.count.get(value.id):
            return None
        name = self._fresh(value)
        self.bind(value, name)
        return name

    def _fresh(self, value: Value, hint: str = "") -> str:
        hint = value.name or hint
        if hint:
            return self.names.fresh(hint)
        hint = self._hints.of(value)
        name = self.names.fresh(hint) if hint else self.names.numbered("t")
        self._unnamed.add(name)
        return name

    def _length(self, text: Text) -> int:
        """Characters, where names that are ours count as two: what they are called decides nothing."""
        if len(text.text) <= _LONGEST:
            return len(text.text)
        ours = [word for word in re.findall(r"[A-Za-z_]\w*", text.text) if word in self._unnamed]
        return len(text.text) - sum(len(word) - 2 for word in ours)

    def _called(self, value: Value) -> str:
        """The C++ name of a value that has one."""
        known = self._known.get(value.id) or (self._pending[value.id].text if value.id in self._pending else None)
        return known.text if known is not None and known.text.isidentifier() else ""

    # --- operands ---

    def operand(self, operand: Operand) -> Text:
        """The text of an operand."""
        if isinstance(operand, Literal):
            return literal(operand.value, operand.dtype, self.helpers)
        known = self._known.get(operand.id)
        if known is not None:
            return known
        pending = self._pending.get(operand.id)
        if pending is None:
            raise IRError(f"{operand!r} is used where it is not defined")
        return pending.text

    def evaluated(self, operand: Operand) -> Text:
        """The text of an operand that goes into a loop nest: what it reads from memory is read now."""
        text = self.operand(operand)
        if isinstance(operand, Value) and text.deps and self._reads_memory(text.deps):
            return Text(self._settle(operand.id))
        return text

    def unordered(self, operand: Operand) -> Text:
        """The text of an operand that may be skipped: what all lanes must do together is done before."""
        text = self.operand(operand)
        if isinstance(operand, Value) and ORDER in text.deps:
            return Text(self._settle(operand.id))
        return text

    def _reads_memory(self, deps: frozenset[int]) -> bool:
        return MEMORY in deps or ORDER in deps or any(dep in self.uses.buffers for dep in deps)

    def _settle(self, key: int) -> str:
        pending = self._pending.pop(key)
        return self.name(pending.value, pending.text.text)

    # --- what changes under them ---

    def _flush(self, kills: frozenset[int], after: int) -> None:
        for key, pending in list(self._pending.items()):
            if self.uses.last[key] <= self.now:
                if self.uses.last[key] < self.now:
                    del self._pending[key]
            elif self.uses.last[key] > after and pending.text.deps and not pending.text.deps.isdisjoint(kills):
                self._settle(key)

    def before(self, op: ops.Op) -> None:
        """Evaluate what ``op`` would change and later ops still need."""
        if kills := self.uses.kills(op):
            self._flush(kills, self.now)

    def entering(self, *branches: Block) -> None:
        """The same before an if: needed after a branch that changes it, or by the other branch."""
        self._flush(_ORDERED, self.now)
        for branch in branches:
            if kills := self.uses.block_kills(branch):
                self._flush(kills, max(self.now, self.uses.end[id(branch)]))

    def looping(self, body: Block) -> None:
        """The same before a loop: every iteration and what follows needs it."""
        self._flush(self.uses.block_kills(body) | _ORDERED, self.now)


# --- names for values that the user gave none ------------------------------------------------------------------------


class Hints:
    """What unnamed values are called; ``known`` gives the C++ name of a value that has one.

    After what moye's own device code computes them for, what they are made of, where they lead, or what they are part
    of: ``tile_in_strip``, ``tx_mod_32``, ``tAsA_at`` where tAsA begins, ``top_part`` in ``top = ...``.  In a later trip
    of an unrolled loop the loop's variable stands for a number: ``tx + 128`` is ``tx_plus_i`` there.
    """

    def __init__(self, walked: list[ops.Op], known: Callable[[Value], str]) -> None:
        self._known = known
        self._starts: dict[int, str] = {}       # where views begin, by the view that is read or written first
        for op in walked:
            for ref, _ in op.refs():
                name = (isinstance(ref, TileRef) and ref.name) or ref.buffer.name
                if isinstance(ref.offset, Value) and name:
                    self._starts.setdefault(ref.offset.id, f"{name}_at")

    def of(self, value: Value) -> str:
        """A hint for the name of a value."""
        begins = self._starts.get(value.id) or (value.view and f"{value.view}_at")
        return value.name or value.role or self._formula(value) or begins or _part_of(value) or self._offset(value)

    def _formula(self, value: Value) -> str:
        """``tx_mod_32``: the operation in words, where that is short."""
        op = value.op
        if not isinstance(op, ops.Binary) or op.kind not in _WORDS:
            return ""
        left, right = self._name(op.a), self._name(op.b, op.trips)
        if not left or not right or (isinstance(op.b, Value) and not self._called(op.b)):
            return ""
        found = f"{left}_{_WORDS[op.kind]}_{right}"
        return found if len(found) <= _LONGEST_NAME else ""

    def _offset(self, value: Value) -> str:
        """``stage_k_offset``: the names in a sum that is too long to be spelled out."""
        if not isinstance(value.op, ops.Binary) or value.op.kind not in ("add", "sub") or not value.dtype.is_integer:
            return ""
        names = list(dict.fromkeys(self._leaves(value, set())))
        found = "_".join([*names, "offset"])
        return found if names and all(names) and len(found) <= _LONGEST_NAME else ""

    def _leaves(self, operand: Operand, seen: set[int]) -> Iterator[str]:
        """The names of what a formula is made of, "" for what has none.

        What is used twice is walked once: Fibonacci's sums of forty turns have a hundred million ways to a leaf.
        """
        if isinstance(operand, Value) and operand.id not in seen:
            seen.add(operand.id)
            if not operand.name and isinstance(operand.op, ops.Binary):
                yield from self._leaves(operand.op.a, seen)
                yield from self._leaves(operand.op.b, seen)
            else:
                yield self._called(operand)

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
