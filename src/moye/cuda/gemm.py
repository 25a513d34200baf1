"""Gemm as loops over register fragments: plain C++ for scalar FMAs, one inline function per PTX instruction.

In: a Gemm op.  Out: k outermost, then rows, then columns; serpentine turns back on every odd row.

>>> gemm(kernel, op)     # tCrC[i + 4 * j] += tCrA[i] * tCrB[j];

A PTX atom is called with one argument per value that a thread holds; the function packs narrow elements into registers.
``MmaOp.ptx`` is the instruction, either bare (``mma.sync.aligned...``) or with ``{d}, {a}, {b}, {c}`` where its operand
lists go.
"""

from __future__ import annotations

from moye import dtypes as dt
from moye.atoms.atom import MmaOp
from moye.cuda.expressions import Text, combine, convert
from moye.cuda.intrinsics import Intrinsics, constraint
from moye.cuda.kernel import Kernel
from moye.cuda.names import identifier
from moye.cuda.tiles import flat_steps, merged
from moye.dtypes import DType
from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Extent, TileRef

Step = tuple[Text, Extent]


def gemm(kernel: Kernel, op: ops.Gemm) -> None:
    """d = a * b + c over the index space."""
    if op.mma.ptx == "" and op.mma.threads != 1:
        raise UnsupportedError(f"{op.mma} has no PTX text, and its {op.mma.threads} threads cannot share plain C++")
    kernel.helpers.need(op.mma.arch)
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
    """How many points a role has, and per operand the steps of one index that walks them."""
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
    d, a, b, c = (_element(kernel, ref, own, values[0]) for ref, own, values in
                  zip(_operands(op), steps, (op.d_values, op.a_values, op.b_values, op.c_values), strict=True))
    a, b = convert(op.a.dtype, wide, a, helpers), convert(op.b.dtype, wide, b, helpers)
    if d.text == c.text and dtype == op.mma.d_dtype and dtype.bits >= 32:
        kernel.writer.line(f"{d.text} += {combine('mul', wide, a, b, helpers).text};")
        return
    whole = combine("add", wide, combine("mul", wide, a, b, helpers), convert(op.c.dtype, wide, c, helpers), helpers)
    kernel.writer.line(f"{d.text} = {convert(wide, op.d.dtype, whole, helpers).text};")


# --- PTX atoms -------------------------------------------------------------------------------------------------------


def _call(kernel: Kernel, op: ops.Gemm, steps: list[list[Step]]) -> None:
    """One call of the atom's function: the values of d, a, b, c in order."""
    lists = (op.d_values, op.a_values, op.b_values, op.c_values)
    name = _function(op.mma, [len(values) for values in lists], kernel.helpers)
    groups = [", ".join(_element(kernel, ref, own, value).text for value in values)
              for ref, own, values in zip(_operands(op), steps, lists, strict=True)]
    call = f"{name}({', '.join(groups)});"
    if len(call) <= 100:
        kernel.writer.line(call)
        return
    kernel.writer.line(f"{name}({groups[0]},")
    for group in groups[1:-1]:
        kernel.writer.line(f"    {group},")
    kernel.writer.line(f"    {groups[-1]});")


def _function(mma: MmaOp, counts: list[int], helpers: Intrinsics) -> str:
    """The inline function of a PTX atom."""
    name = "mma_" + identifier(mma.name).lower()
    dtypes = (mma.d_dtype, mma.a_dtype, mma.b_dtype, mma.c_dtype)
    parameters = ",".join(_parameters(helpers.ctype(dtype), letter, count)
                           for letter, dtype, count in zip("dabc", dtypes, counts, strict=True) if count)
    before, outputs, after = _outputs(mma.d_dtype, counts[0])
    inputs = [_inputs(dtype, letter, count, helpers)
              for letter, dtype, count in zip("abc", dtypes[1:], counts[1:], strict=True)]
    first, places = len(outputs), {"d": _places(0, len(outputs))}
    for letter, group in zip("abc", inputs, strict=True):
        places[letter] = _places(first, len(group))
        first += len(group)
    ptx = mma.ptx if "{d}" in mma.ptx else f"{mma.ptx.rstrip('; ')} {{d}}, {{a}}, {{b}}, {{c}};"
    for letter, text in places.items():
        ptx = ptx.replace(f"{{{letter}}}", text)
    rows = [", ".join(group) for group in inputs if group]
    body = [*before, f'asm volatile("{ptx}"', f"    : {', '.join(outputs)}",
            "    : " + ",\n          ".join(rows) + ");", *after]
    return helpers.function(name, f"void ({parameters})", *body, arch=mma.arch)


def _parameters(ctype: str, letter: str, count: int) -> str:
    reference = "&" if letter == "d" else ""
    text = ", ".join(f"{ctype}{reference} {letter}{i}" for i in range(count))
    return text if letter == "d" else f"\n    {text}"


def _places(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def _inputs(dtype: DType, letter: str, count: int, helpers: Intrinsics) -> list[str]:
    """The asm inputs of one operand's registers: one per value, or one per 32 bits of narrow values."""
    if dtype.bits >= 32:
        return [f'"{_letter(dtype)}"({_raw(dtype, f"{letter}{i}")})' for i in range(count)]
    per_word = 32 // dtype.bits
    if count % per_word:
        raise UnsupportedError(f"{count} values of {dtype} do not fill 32-bit registers")
    pack = helpers.pack(dtype, per_word)
    return [f'"r"({pack}({", ".join(f"{letter}{i + lane}" for lane in range(per_word))}))'
            for i in range(0, count, per_word)]


def _letter(dtype: DType) -> str:
    return "r" if dtype.name == "tfloat32" else constraint(dtype)


def _raw(dtype: DType, name: str) -> str:
    return f"__float_as_uint({name})" if dtype.name == "tfloat32" else name


def _outputs(dtype: DType, count: int) -> tuple[list[str], list[str], list[str]]:
    """(declarations, asm outputs, statements that unpack) of d's registers."""
    if dtype.bits >= 32:
        return [], [f'"={constraint(dtype)}"(d{i})' for i in range(count)], []
    per_word = 32 // dtype.bits
    if dtype.bits != 16 or count % per_word:
        raise UnsupportedError(f"{count} results of {dtype} do not fill 32-bit registers")
    words = [f"w{i}" for i in range(count // per_word)]
    after = [f"d{i}.bits = (unsigned short){f'w{i // 2}' if i % 2 == 0 else f'(w{i // 2} >> 16)'};"
             for i in range(count)]
    return [f"unsigned {', '.join(words)};"], [f'"=r"({word})' for word in words], after
