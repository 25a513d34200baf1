"""Gemm as loops over register fragments: plain C++ for scalar FMAs, one inline function per PTX instruction.

In: a Gemm op.  Out: k outermost, then rows, then columns; serpentine turns back on every odd row.

    gemm(kernel, op)     # tCrC[i + 4 * j] += tCrA[i] * tCrB[j];

A PTX atom is called with one argument per register that a thread holds: narrow values lie in 32-bit words
(narrow_elements.py).
``MmaOp.ptx`` is the instruction, either bare (``mma.sync.aligned...``) or with ``{d}, {a}, {b}, {c}`` where its operand
lists go.
"""

from __future__ import annotations

from moye import dtypes as dt
from moye.atoms.atom import MmaOp
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import prints
from moye.cuda.printing.expressions import Text, combine, convert, from_bits, infix
from moye.cuda.printing.intrinsics import Intrinsics, constraint
from moye.cuda.printing.names import identifier
from moye.cuda.printing.tiles import flat_steps, merged
from moye.cuda.printing.vectors import packed
from moye.dtypes import DType
from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Extent, TileRef

Step = tuple[Text, Extent]


@prints(ops.Gemm)
def gemm(kernel: Kernel, op: ops.Gemm) -> None:
    """d = a * b + c over the index space."""
    if op.mma.ptx == "" and op.mma.threads != 1:
        raise UnsupportedError(f"{op.mma} has no PTX text, and its {op.mma.threads} threads cannot share plain C++")
    kernel.helpers.need(op.mma.arch, f"{op.mma} operations")
    kernel.values.before(op)
    rows, columns = kernel.indices[0], kernel.indices[1]
    i, m_steps = _role(op, "m", rows)
    j, n_steps = _role(op, "n", columns)
    k, k_steps = _role(op, "k", kernel.k_index)
    back = op.order == "serpentine" and i > 1 and j > 1
    with kernel.nest([(k, kernel.k_index), (i, rows), (j, kernel.back_index if back else columns)]):
        if back:
            kernel.writer.line(f"const int {columns} = {rows} & 1 ? {j - 1} - {kernel.back_index} : "
                               f"{kernel.back_index};")
        steps = [[*m_steps[x], *n_steps[x], *k_steps[x]] for x in range(4)]
        if op.mma.ptx:
            _call(kernel, op, steps)
        else:
            _multiply(kernel, op, steps)


def _operands(op: ops.Gemm) -> tuple[TileRef, TileRef, TileRef, TileRef]:
    return op.d, op.a, op.b, op.c


def _role(op: ops.Gemm, role: str, index: str) -> tuple[int, list[list[Step]]]:
    """The number of points that a role has, and the steps of one index that walks them, by operand."""
    dims = [d for d, r in enumerate(op.roles) if r == role]
    space = merged([op.extents[d] for d in dims], [[ref.strides[d] for d in dims] for ref in _operands(op)])
    extents = [extent for extent in space.extents if isinstance(extent, int)]
    count = 1
    for extent in extents:
        count *= extent
    if count == 1:
        return 1, [[] for _ in range(4)]
    return count, [flat_steps(Text(index), extents, strides) for strides in space.strides]


def _element(kernel: Kernel, ref: TileRef, steps: list[Step], value: int) -> Text:
    return kernel.memory.element(ref, kernel.memory.offset(ref, steps, value))


def _multiply(kernel: Kernel, op: ops.Gemm, steps: list[list[Step]]) -> None:
    dtype, helpers = op.mma.c_dtype, kernel.helpers
    wide = dtype if dtype.bits >= 32 else dt.float32 if dtype.is_float else dt.int32
    to = kernel.memory.offset(op.d, steps[0], op.d_values[0])
    d, a, b, c = (_element(kernel, ref, own, values[0]) for ref, own, values in
                  zip(_operands(op), steps, (op.d_values, op.a_values, op.b_values, op.c_values), strict=True))
    a, b = convert(op.a.dtype, wide, a, helpers), convert(op.b.dtype, wide, b, helpers)
    if d.text == c.text and dtype == op.mma.d_dtype and dtype.bits >= 32:
        kernel.writer.line(f"{d.text} += {combine('mul', wide, a, b, helpers).text};")
        return
    whole = combine("add", wide, combine("mul", wide, a, b, helpers), convert(op.c.dtype, wide, c, helpers), helpers)
    kernel.writer.line(kernel.memory.set(op.d, to, convert(wide, op.d.dtype, whole, helpers)))


# --- PTX atoms -------------------------------------------------------------------------------------------------------


def _call(kernel: Kernel, op: ops.Gemm, steps: list[list[Step]]) -> None:
    """One call of the atom's function: the registers of d, a, b, c in order."""
    lists = (op.d_values, op.a_values, op.b_values, op.c_values)
    name = _function(op.mma, [len(values) for values in lists], kernel.helpers)
    results, after = _results(kernel, op, steps[0])
    groups = [results, *(_registers(kernel, ref, own, values) for ref, own, values in
                         zip(_operands(op)[1:], steps[1:], lists[1:], strict=True))]
    texts = [", ".join(group) for group in groups if group]
    call = f"{name}({', '.join(texts)});"
    if len(call) <= 100:
        kernel.writer.line(call)
    else:
        kernel.writer.line(f"{name}({texts[0]},")
        for text in texts[1:-1]:
            kernel.writer.line(f"    {text},")
        kernel.writer.line(f"    {texts[-1]});")
    for line in after:
        kernel.writer.line(line)


def _registers(kernel: Kernel, ref: TileRef, steps: list[Step], values: tuple[int, ...]) -> list[str]:
    """The registers of an operand: its values, or words of narrow ones."""
    if ref.dtype.bits >= 32:
        return [_element(kernel, ref, steps, value).text for value in values]
    found = []
    for group in _words(ref.dtype, values):
        word = kernel.memory.word(ref, steps, group[0], len(group)) if _side_by_side(group) else None
        if word is None:
            found.append(packed(kernel, ref.dtype, [_element(kernel, ref, steps, value) for value in group]).text)
        else:
            found.append(f"{kernel.memory.name(ref.buffer)}[{word.text}]")
    return found


def _results(kernel: Kernel, op: ops.Gemm, steps: list[Step]) -> tuple[list[str], list[str]]:
    """The registers of d as lvalues, and the lines that take them apart where they are not stored so."""
    ref, values, memory = op.d, op.d_values, kernel.memory
    if ref.dtype.bits >= 32 and not memory.in_words(ref.buffer):
        return [_element(kernel, ref, steps, value).text for value in values], []
    places, after = [], []
    for group in _words(ref.dtype, values):
        word = memory.word(ref, steps, group[0], len(group)) if _side_by_side(group) and ref.dtype.bits < 32 else None
        if word is not None:
            places.append(f"{memory.name(ref.buffer)}[{word.text}]")
            continue
        name = kernel.names.fresh("w")
        ctype = kernel.helpers.ctype(ref.dtype) if ref.dtype.bits >= 32 else "unsigned"
        kernel.writer.line(f"{ctype} {name};")
        places.append(name)
        for lane, value in enumerate(group):
            part = Text(name)
            if ref.dtype.bits < 32:
                shifted = infix(">>", part, Text(str(lane * ref.dtype.bits))) if lane else part
                part = from_bits(ref.dtype, shifted, kernel.helpers)
            after.append(memory.set(ref, memory.offset(ref, steps, value), part))
    return places, after


def _words(dtype: DType, values: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The values in groups that share a 32-bit register."""
    each = max(1, 32 // dtype.bits)
    if len(values) % each:
        raise UnsupportedError(f"{len(values)} values of {dtype} do not fill 32-bit registers")
    return [values[i:i + each] for i in range(0, len(values), each)]


def _side_by_side(values: tuple[int, ...]) -> bool:
    return values == tuple(range(values[0], values[0] + len(values)))


def _function(mma: MmaOp, counts: list[int], helpers: Intrinsics) -> str:
    """The inline function of a PTX atom: one parameter per register."""
    name = "mma_" + identifier(mma.name).lower()
    dtypes = (mma.d_dtype, mma.a_dtype, mma.b_dtype, mma.c_dtype)
    counts = [len(_words(dtype, tuple(range(count)))) for dtype, count in zip(dtypes, counts, strict=True)]
    parameters = ",".join(_parameters(_ctype(dtype, helpers), letter, count)
                           for letter, dtype, count in zip("dabc", dtypes, counts, strict=True) if count)
    outputs = [f'"={_letter(mma.d_dtype)}"(d{i})' for i in range(counts[0])]
    inputs = [[f'"{_letter(dtype)}"({_raw(dtype, f"{letter}{i}")})' for i in range(count)]
              for letter, dtype, count in zip("abc", dtypes[1:], counts[1:], strict=True)]
    first, places = len(outputs), {"d": _places(0, len(outputs))}
    for letter, group in zip("abc", inputs, strict=True):
        places[letter] = _places(first, len(group))
        first += len(group)
    ptx = mma.ptx if "{d}" in mma.ptx else f"{mma.ptx.rstrip('; ')} {{d}}, {{a}}, {{b}}, {{c}};"
    for letter, text in places.items():
        ptx = ptx.replace(f"{{{letter}}}", text)
    rows = [", ".join(group) for group in inputs if group]
    body = [f'asm volatile("{ptx}"', f"    : {', '.join(outputs)}", "    : " + ",\n          ".join(rows) + ");"]
    return helpers.function(name, f"void ({parameters})", *body, arch=mma.arch)


def _parameters(ctype: str, letter: str, count: int) -> str:
    reference = "&" if letter == "d" else ""
    text = ", ".join(f"{ctype}{reference} {letter}{i}" for i in range(count))
    return text if letter == "d" else f"\n    {text}"


def _places(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def _ctype(dtype: DType, helpers: Intrinsics) -> str:
    """The C type of one register."""
    return "unsigned" if dtype.bits < 32 else helpers.ctype(dtype)


def _letter(dtype: DType) -> str:
    return "r" if dtype.bits < 32 or dtype.name == "tfloat32" else constraint(dtype)


def _raw(dtype: DType, name: str) -> str:
    return f"__float_as_uint({name})" if dtype.name == "tfloat32" else name
