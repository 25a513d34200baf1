"""How elements of memory are spelled: pointers, offsets, shared-memory addresses, register arrays.

In: ``Ref`` and ``TileRef``, and the texts of loop indices.  Out: lvalues such as ``sA[tid + 130 * k]``.

    memory.element(ref, memory.offset(ref.offset))      # 'A[tid + 32 * i]'

Register buffers that only constants index are named scalars ``tCrA_3``; the others are arrays, of 32-bit words where
narrow elements are operands of tensor cores (narrow_elements.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from moye.atoms.atom import CopyOp
from moye.cuda.printing import cache_hints, narrow_elements, peers
from moye.cuda.printing.expressions import PRIMARY, UNARY, Text, assignment, call, infix, scaled, total
from moye.cuda.printing.intrinsics import Intrinsics
from moye.cuda.printing.names import Names
from moye.cuda.printing.uses import Uses
from moye.cuda.printing.values import Values
from moye.dtypes import Kind, Space
from moye.errors import IRError
from moye.ir import ops
from moye.ir.nodes import Buffer, Extent, Func, Literal, Operand, Ref, TileRef, Value, Var

AnyRef = Ref | TileRef


class Memory:
    """The C++ names of a kernel's buffers, and how references into them are written."""

    def __init__(self, func: Func, uses: Uses, names: Names, values: Values, helpers: Intrinsics) -> None:
        self.func = func
        self.uses = uses
        self.names = names
        self.values = values
        self.helpers = helpers
        self.cached: CopyOp | None = None  # the copy with hints for caches whose accesses are being printed
        self.addresses: dict[int, str] = {}  # buffer id -> its address in the shared window, once asked for
        self._names: dict[int, str] = {}
        self._scalars: dict[tuple[int, int], str] = {}

    def name(self, buffer: Buffer) -> str:
        """The C++ name of a buffer."""
        found = self._names.get(buffer.id)
        if found is None:
            found = self._names[buffer.id] = self.names.fresh(buffer.name or buffer.space.value)
        return found

    def is_const(self, buffer: Buffer) -> bool:
        return buffer.space is Space.GLOBAL and not self.uses.is_written(buffer)

    def is_array(self, buffer: Buffer) -> bool:
        return buffer.space is not Space.REGISTER or buffer.id in self.uses.arrays

    # --- registers ---

    def in_words(self, buffer: Buffer) -> bool:
        """Whether a register buffer is an array of 32-bit words."""
        return buffer.id in self.uses.words

    def word(self, ref: AnyRef, steps: Sequence[tuple[Text, Extent]], first: int, count: int) -> Text | None:
        """The index of the word that holds ``count`` elements from ``first`` on; None if they fill none."""
        each = narrow_elements.per_word(ref.dtype)
        parts = [ref.offset.value if isinstance(ref.offset, Literal) else 1, first, count,
                 *(stride if isinstance(stride, int) else 1 for _, stride in steps)]
        if not self.in_words(ref.buffer) or ref.swizzle is not None or any(part % each for part in parts):
            return None
        terms = [Text(str(parts[0] // each)), *(scaled(index, stride // each) for index, stride in steps
                                                if isinstance(stride, int) and stride), Text(str(first // each))]
        return total(terms)

    def scalars(self, buffer: Buffer) -> list[str]:
        """The names of the elements of a register buffer that is no array."""
        return [self.scalar(buffer, i) for i in range(buffer.elements or 0)]

    def scalar(self, buffer: Buffer, i: int) -> str:
        if not 0 <= i < (buffer.elements or 0):
            raise IRError(f"element {i} of {buffer}, which has {buffer.elements}")
        found = self._scalars.get((buffer.id, i))
        if found is None:
            hint = (buffer.name or "r") if buffer.elements == 1 else f"{buffer.name or 'r'}_{i}"
            found = self._scalars[buffer.id, i] = self.names.fresh(hint)
        return found

    # --- offsets and addresses ---

    def operand_offset(self, operand: Operand) -> Text:
        """An offset or a stride; constants without suffix."""
        return Text(str(operand.value)) if isinstance(operand, Literal) else self.values.evaluated(operand)

    def offset(self, ref: AnyRef, steps: Sequence[tuple[Text, Extent]] = (), extra: int = 0) -> Text:
        """``offset + sum(index * stride) + extra``, in elements, swizzled."""
        swizzle = ref.swizzle if ref.swizzle is not None and ref.swizzle.bits else None
        terms, whole_periods = [self._base(ref)], []
        for index, stride in steps:
            if not isinstance(stride, int):
                terms.append(infix("*", index, self.operand_offset(stride), associative=True))
            elif swizzle is not None and stride % swizzle.period == 0:
                whole_periods.append(scaled(index, stride))     # one swizzled address serves every such step
            elif stride:
                terms.append(scaled(index, stride))
        terms.append(Text(str(extra)))
        if swizzle is None:
            return total(terms)
        return total([call(self.helpers.swizzle(swizzle, ref.offset.dtype), total(terms)),
                      *(step for step in whole_periods if step.text != "0")])

    def _base(self, ref: AnyRef) -> Text:
        """A reference's own offset from its pointer."""
        if _advancing(ref) is not None:
            return Text("0")
        if isinstance(ref, Ref) and not isinstance(ref.offset, Literal):
            return self.values.operand(ref.offset)
        return self.operand_offset(ref.offset)

    def pointer(self, ref: AnyRef, ctype: str | None = None) -> Text:
        """The buffer, or the variable that points into it, as a pointer to the elements, or to ``ctype``."""
        buffer, var = ref.buffer, _advancing(ref)
        if var is not None:
            return Text(self.values.vars[var.id], deps=frozenset((var.id,)))
        wanted = ctype or self.helpers.ctype(ref.dtype)
        name = self.name(buffer)
        if wanted == buffer.dtype.cuda:
            return Text(name)
        return Text(f"({'const ' if self.is_const(buffer) else ''}{wanted}*){name}", UNARY)

    def element(self, ref: AnyRef, offset: Text) -> Text:
        """The element at an offset; an lvalue if it is in registers and no part of a word."""
        deps = self.uses.depends(ref.buffer)
        if self._is_part(ref):
            found = narrow_elements.element(self.name(ref.buffer), offset, ref.dtype, self.helpers)
            return Text(found.text, found.level, found.deps | deps)
        if not self.is_array(ref.buffer):
            return Text(self.scalar(ref.buffer, int(offset.text)), PRIMARY, deps)
        if ref.buffer.space is Space.CLUSTER:
            return self._load(ref, offset, None)
        if self._hinted(ref):
            return self._load_hinted(ref, offset, None)
        if ref.dtype.kind is Kind.BOOL and (ref.buffer.space is not Space.REGISTER
                                            or ref.buffer.id in self.uses.retyped):
            return self._truth(ref, offset)
        return self._place(ref, offset)

    def _place(self, ref: AnyRef, offset: Text, byte: str = "") -> Text:
        """The element of an array at an offset, as an lvalue; with ``byte`` as one of that C type."""
        pointer = self.pointer(ref)
        array = f"(({byte}*){pointer.at(UNARY)})" if byte else pointer.at(PRIMARY)
        return Text(f"{array}[{offset.text}]", PRIMARY, offset.deps | pointer.deps | self.uses.depends(ref.buffer))

    def _truth(self, ref: AnyRef, offset: Text) -> Text:
        """A bool of memory: whoever wrote the byte, any but 0 is true; as a C++ bool, 2 and 1 would differ."""
        const = "const " if self.is_const(ref.buffer) else ""
        return infix("!=", self._place(ref, offset, f"{const}unsigned char"), Text("0"))

    def set(self, ref: AnyRef, offset: Text, value: Text) -> str:
        """The statement that sets the element at an offset."""
        if ref.buffer.space is Space.CLUSTER:
            return self._store(ref, offset, None, value)
        if self._hinted(ref):
            return self._store_hinted(ref, offset, None, value)
        if self._is_part(ref):
            return narrow_elements.put(self.name(ref.buffer), offset, ref.dtype, value, self.helpers)
        if self.is_array(ref.buffer):
            return assignment(self._place(ref, offset).text, value)
        return assignment(self.element(ref, offset).text, value)

    def _is_part(self, ref: AnyRef) -> bool:
        return ref.dtype.bits <= 32 and self.in_words(ref.buffer)

    def address(self, ref: AnyRef, offset: Text) -> Text:
        """The address of the element at an offset."""
        pointer = self.pointer(ref)
        if offset.text == "0":
            return pointer
        return Text(f"&{pointer.at(PRIMARY)}[{offset.text}]", UNARY, offset.deps | pointer.deps)

    def shared_address(self, ref: AnyRef, offset: Text) -> Text:
        """The address of the element at an offset as a 32-bit address of the shared window."""
        return total([Text(self.window(ref.buffer)), scaled(offset, ref.dtype.bytes)])

    def window(self, buffer: Buffer) -> str:
        """The name of the address of a buffer's first byte in the shared window."""
        if buffer.space is not Space.SHARED:
            raise IRError(f"{buffer} is not in shared memory")
        name = self.addresses.get(buffer.id)
        if name is None:
            name = self.addresses[buffer.id] = self.names.fresh(f"{self.name(buffer)}_s", everywhere=True)
        return name

    def peer_address(self, ref: AnyRef, offset: Text) -> Text:
        """The address of the element at an offset in the shared memory of a block of the cluster."""
        if ref.buffer.base is None:
            raise IRError(f"{ref.buffer} is not in the shared memory of a block of the cluster")
        return total([self.values.operand(ref.buffer.base), scaled(offset, ref.dtype.bytes)])

    def _load(self, ref: AnyRef, offset: Text, ctype: str | None) -> Text:
        address = self.peer_address(ref, offset)
        found = call(peers.load(self.helpers, ref.dtype, ctype), address)
        return Text(found.text, found.level, found.deps | self.uses.depends(ref.buffer))

    def _store(self, ref: AnyRef, offset: Text, ctype: str | None, value: Text) -> str:
        return f"{peers.store(self.helpers, ref.dtype, ctype)}({self.peer_address(ref, offset).text}, {value.text});"

    def _hinted(self, ref: AnyRef) -> bool:
        return self.cached is not None and ref.buffer.space is Space.GLOBAL

    def _load_hinted(self, ref: AnyRef, offset: Text, ctype: str | None) -> Text:
        assert self.cached is not None, "a copy with hints"
        found = call(cache_hints.load(self.helpers, ref.dtype, ctype, self.cached), self.address(ref, offset))
        return Text(found.text, found.level, found.deps | self.uses.depends(ref.buffer))

    def _store_hinted(self, ref: AnyRef, offset: Text, ctype: str | None, value: Text) -> str:
        assert self.cached is not None, "a copy with hints"
        name = cache_hints.store(self.helpers, ref.dtype, ctype, self.cached)
        return f"{name}({self.address(ref, offset).text}, {value.text});"

    def set_vector(self, ref: AnyRef, offset: Text, ctype: str, value: Text) -> str:
        """The statement that sets several elements at an offset."""
        if ref.buffer.space is Space.CLUSTER:
            return self._store(ref, offset, ctype, value)
        if self._hinted(ref):
            return self._store_hinted(ref, offset, ctype, value)
        return f"{self.vector(ref, offset, ctype).text} = {value.text};"

    def vector(self, ref: AnyRef, offset: Text, ctype: str) -> Text:
        """Several elements at an offset as one value of a vector type."""
        if ref.buffer.space is Space.CLUSTER:
            return self._load(ref, offset, ctype)
        if self._hinted(ref):
            return self._load_hinted(ref, offset, ctype)
        const = "const " if self.is_const(ref.buffer) else ""
        address = self.address(ref, offset)
        return Text(f"*({const}{ctype}*){address.at(UNARY)}", UNARY,
                    address.deps | self.uses.depends(ref.buffer))

    # --- declarations ---

    def declare_pointer(self, var: Var, init: Operand | None) -> None:
        """A variable that points into a global buffer, at its first element."""
        buffer = var.ref
        if buffer is None or init is None:
            raise IRError(f"{var} advances through no buffer, or from nowhere")
        at = self.operand_offset(init)
        name = self.values.vars[var.id] = self.names.fresh(var.name or buffer.name)
        start = self.name(buffer) if at.text == "0" else f"&{self.name(buffer)}[{at.text}]"
        const = "const " if self.is_const(buffer) else ""
        self.values.writer.line(f"{const}{self.helpers.ctype(buffer.dtype)}* {name} = {start};")

    def declaration(self, buffer: Buffer) -> str:
        """The declaration of a register buffer."""
        if self.in_words(buffer):
            return f"unsigned {self.name(buffer)}[{-(-(buffer.elements or 0) * buffer.dtype.bits // 32)}];"
        ctype = self.helpers.ctype(buffer.dtype)
        if not self.is_array(buffer):
            return f"{ctype} {', '.join(self.scalars(buffer))};"
        align = f"__align__({buffer.align}) " if buffer.align > max(buffer.dtype.bytes, 16) else ""
        return f"{align}{ctype} {self.name(buffer)}[{buffer.elements}];"


def _advancing(ref: AnyRef) -> Var | None:
    """The variable that points at a reference's offset already."""
    op = ref.offset.op if isinstance(ref.offset, Value) else None
    return op.var if isinstance(op, ops.Read) and op.var.advances else None
