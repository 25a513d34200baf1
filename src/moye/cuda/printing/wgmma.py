"""wgmma: one inline function per operation, descriptors made once and advanced by adding, fences and waits.

In: Wgmma, WgmmaFence, WgmmaCommit and WgmmaWait ops.  Out: loops over k, rows and columns around one call.

    wgmma(kernel, op)    # wgmma_64x256x16_f32bf16bf16_ss(acc, tCrA_desc + 2 * k, tCrB_desc + 2 * k, k > 0);

A descriptor has the address of its tile in units of 16 bytes in its low bits, so steps of a tile are additions.
Source: PTX ISA, "wgmma.mma_async", "Matrix Descriptor Format".
"""

from __future__ import annotations

from dataclasses import replace

from moye.atoms.atom import MmaOp
from moye.cuda.printing import pins
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import prints
from moye.cuda.printing.expressions import Text, infix, non_negative, scaled, total
from moye.cuda.printing.intrinsics import Intrinsics, constraint
from moye.cuda.printing.names import identifier
from moye.cuda.printing.tiles import flat_steps, merged
from moye.errors import UnsupportedError
from moye.hardware import WARPGROUP
from moye.ir import ops
from moye.ir.nodes import Extent, Literal, Operand, TileRef, Value
from moye.layout import size

Step = tuple[Text, Extent]
_UNIT = 16
_MODES = {0: 0, 128: 1, 64: 2, 32: 3}
_ROW = 16
_WHAT = "warpgroup products (wgmma)"
"""Operands to a line of the inline functions."""


@prints(ops.Wgmma)
def wgmma(kernel: Kernel, op: ops.Wgmma) -> None:
    """d = a * b + d over the index space."""
    kernel.helpers.need(op.mma.arch, f"{op.mma} operations")
    kernel.helpers.need_only(90, _WHAT)
    for operand in op.operands():
        kernel.values.evaluated(operand)
    kernel.values.before(op)
    rows, columns, depth = (_role(op, role, index) for role, index in
                            zip("mnk", (kernel.indices[0], kernel.indices[1], kernel.k_index), strict=True))
    steps = [[*rows[1][x], *columns[1][x], *depth[1][x]] for x in range(3)]
    name = _function(op.mma, kernel.helpers)
    a = None if op.a_descriptor is None else _descriptor(kernel, op.a, op.a_descriptor, "a")
    b = _descriptor(kernel, op.b, op.b_descriptor, "b")
    first = infix(">", Text(kernel.k_index), Text("0")) if depth[0] > 1 else None
    with kernel.nest([(depth[0], kernel.k_index), (rows[0], kernel.indices[0]), (columns[0], kernel.indices[1])]):
        to = [_registers(kernel, op.d, steps[0]),
              _registers(kernel, op.a, steps[1]) if a is None else _advanced(a, op.a, steps[1]),
              _advanced(b, op.b, steps[2]), _accumulate(kernel, op, first)]
        kernel.writer.line(f"{name}({', '.join(text.text for text in to)});")


def _role(op: ops.Wgmma, role: str, index: str) -> tuple[int, list[list[Step]]]:
    """The number of instructions that a role has, and the steps of one index that walks them, by operand (d, a, b)."""
    dims = [d for d, r in enumerate(op.roles) if r == role]
    space = merged([op.extents[d] for d in dims], [[ref.strides[d] for d in dims] for ref in (op.d, op.a, op.b)])
    extents = [extent for extent in space.extents if isinstance(extent, int)]
    count = 1
    for extent in extents:
        count *= extent
    if count == 1:
        return 1, [[] for _ in range(3)]
    return count, [flat_steps(Text(index), extents, strides) for strides in space.strides]


def _accumulate(kernel: Kernel, op: ops.Wgmma, first: Text | None) -> Text:
    """Whether an instruction adds to what d holds: all do but perhaps the first along k."""
    if isinstance(op.accumulate, Literal):
        return first if first is not None and not op.accumulate.value else Text(str(op.accumulate.value).lower())
    given = kernel.values.operand(op.accumulate)
    return given if first is None else infix("||", first, given)


# --- operands --------------------------------------------------------------------------------------------------------


def _descriptor(kernel: Kernel, ref: TileRef, numbers: tuple[int, int, int], letter: str) -> Text:
    """A const with the descriptor of the first tile.

    The compiler does not see how it was made, unless the kernel wants that: from the first product of a tile on it
    would keep one sum for each instruction, up to 14 registers of a thread, and spill where a loop has none left.
    """
    hide = [] if kernel.func.keeps_addresses else ['asm volatile("" : "+l"(matrix));']
    make = kernel.helpers.function(
        "wgmma_descriptor", "unsigned long long (unsigned smem, unsigned long long layout)",
        "unsigned long long matrix = (smem & 0x3ffff) >> 4 | layout;", *hide, "return matrix;", arch=90)
    address = kernel.memory.shared_address(ref, kernel.memory.offset(replace(ref, swizzle=None)))
    name = kernel.names.fresh(f"{identifier(ref.name or ref.buffer.name or letter)}_desc")
    kernel.writer.line(f"const unsigned long long {name} = {make}({address.text}, {_matrix(kernel, *numbers)});")
    return Text(name)


def _matrix(kernel: Kernel, leading: int, stride: int, swizzle: int) -> str:
    """The name of what a descriptor says beside the address: byte offsets between core matrices, and the swizzle."""
    name = f"wgmma_sw{swizzle}_{leading}_{stride}"
    value = f"{_MODES[swizzle]}ull << 62 | {stride}ull / {_UNIT} << 32 | {leading}ull / {_UNIT} << 16"
    what = f"{swizzle}-byte swizzle" if swizzle else "no swizzle"
    return kernel.helpers.declare(
        name, f"// A matrix in shared memory: {what}, leading offset {leading}, stride offset {stride} bytes.\n"
              f"constexpr unsigned long long {name} = {value};")


def _advanced(first: Text, ref: TileRef, steps: list[Step]) -> Text:
    """The descriptor of another tile."""
    units = [scaled(index, stride * ref.dtype.bytes // _UNIT) for index, stride in steps
             if isinstance(stride, int) and stride]
    return total([first, *units])


def _registers(kernel: Kernel, ref: TileRef, steps: list[Step]) -> Text:
    """A pointer to the registers of an instruction, which follow one another."""
    narrow = ref.dtype.bits < 32
    at = kernel.memory.word(ref, steps, 0, 32 // ref.dtype.bits) if narrow else kernel.memory.offset(ref, steps)
    if at is None:
        raise UnsupportedError(f"the registers of {ref.name or ref.buffer.name} do not begin with whole words")
    return total([Text(kernel.memory.name(ref.buffer)), at])


# --- the instruction -------------------------------------------------------------------------------------------------


def _function(mma: MmaOp, helpers: Intrinsics) -> str:
    """The inline function of one operation: its registers, descriptors, and whether it accumulates."""
    name = identifier("wgmma_" + mma.name.partition("_")[2]).lower()
    counts = [_registers_of(mma, operand) for operand in "da"]
    first = counts[0] + (1 if "a" in mma.shared else counts[1])
    places = {"{d}": _list([f"%{i}" for i in range(counts[0])]), "{b}": f"%{first}",
              "{a}": f"%{counts[0]}" if "a" in mma.shared else _list([f"%{counts[0] + i}" for i in range(counts[1])])}
    instruction, _, operands = mma.ptx.partition(" ")
    for place, text in places.items():
        operands = operands.replace(place, text)
    letter = "r" if mma.d_dtype.bits < 32 else constraint(mma.d_dtype)
    results = [f'"+{letter}"(d[{i}])' for i in range(counts[0])]
    if "a" in mma.shared:
        parameter, inputs = "unsigned long long a", ['"l"(a)']
    else:
        word = "__float_as_uint(a[{}])" if mma.a_dtype.bits == 32 else "a[{}]"
        parameter = f"const {helpers.ctype(mma.a_dtype) if mma.a_dtype.bits == 32 else 'unsigned'}* a"
        inputs = [f'"r"({word.format(i)})' for i in range(counts[1])]
    lines = operands.split("\n")
    body = [f'asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{first + 1}, 0; "', f'    "{instruction} "',
            *(f'    "{line} "' for line in lines[:-1]), f'    "{lines[-1]} }}"',
            "    : " + _wrapped(results), "    : " + _wrapped([*inputs, '"l"(b)', '"r"(accumulate)']) + ");"]
    ctype = "unsigned" if mma.d_dtype.bits < 32 else helpers.ctype(mma.d_dtype)
    return helpers.function(name, f"void ({ctype}* d, {parameter}, unsigned long long b, int accumulate)",
                            *"\n".join(body).split("\n"), arch=mma.arch)


def _registers_of(mma: MmaOp, operand: str) -> int:
    """32-bit registers of D or A of a thread."""
    layout, dtype = (mma.c_layout, mma.d_dtype) if operand == "d" else (mma.a_layout, mma.a_dtype)
    values = size(layout, 1)
    assert isinstance(values, int), "an operation's layouts are static"
    return values * dtype.bits // 32


def _list(places: list[str]) -> str:
    return "{" + ",\n".join(", ".join(places[i:i + _ROW]) for i in range(0, len(places), _ROW)) + "}"


def _wrapped(operands: list[str]) -> str:
    return ",\n      ".join(", ".join(operands[i:i + _ROW // 2]) for i in range(0, len(operands), _ROW // 2))


# --- which warpgroup ---


def warpgroup(kernel: Kernel, op: ops.Binary) -> Text | None:
    """``thread / 128`` of a kernel with wgmma, as a number that the compiler knows to be the same in a whole warp.

    So are ``thread % 256 / 128``, ``(thread - 128) / 128`` and ``thread / 32 / 4``.  Descriptors that depend on one of
    them then live in uniform registers.  None for every other op.
    """
    func = kernel.func
    if op.kind != "floordiv" or not kernel.uses.has_wgmma or func.threads % 32 or func.block_dim[1:] != (1, 1):
        return None
    source, unit = _threads(op)
    count = unit // WARPGROUP
    if unit % WARPGROUP or not count or (count > 1 and not non_negative(source)):
        return None
    groups = _in_groups(kernel, source)
    return groups if groups is None or count == 1 else infix("/", groups, Text(str(count)))


def _threads(op: ops.Binary) -> tuple[Operand, int]:
    """What is divided, and by how much, of one division after the other; 0 where that is not known."""
    unit = 1
    source: Operand | None = op.result
    while isinstance(source, Value) and isinstance(inner := source.op, ops.Binary) and inner.kind == "floordiv" and \
            isinstance(inner.b, Literal) and inner.b.dtype.is_integer and inner.b.value > 0:
        source, unit = inner.a, unit * int(inner.b.value)
    assert source is not None, "it divides something"
    return source, unit if source is not op.result else 0


def _in_groups(kernel: Kernel, source: Operand) -> Text | None:
    """The number of a thread, or what whole warpgroups are added to or taken from, divided by 128."""
    inner = source.op if isinstance(source, Value) else None
    if isinstance(inner, ops.Special) and inner.kind == "thread_x":
        kernel.warpgroup = kernel.warpgroup or kernel.names.fresh("warpgroup", everywhere=True)
        return Text(kernel.warpgroup)
    if not isinstance(inner, ops.Binary) or inner.kind not in ("add", "sub", "mod"):
        return None
    count, groups = _groups(inner.b), None
    if count is not None and (inner.kind != "mod" or (count > 0 and non_negative(inner.a))):
        groups = _in_groups(kernel, inner.a)
    if groups is None or count is None:
        return None
    if inner.kind == "mod":
        return infix("%", groups, Text(str(count)))
    return total([groups, Text(str(count if inner.kind == "add" else -count))])


def _groups(operand: Operand) -> int | None:
    """A constant number of threads in warpgroups; None if they are not whole."""
    if not isinstance(operand, Literal) or not operand.dtype.is_integer or operand.value % WARPGROUP:
        return None
    return int(operand.value) // WARPGROUP


def declaration(kernel: Kernel) -> str:
    """The number of the thread's warpgroup, at the start of the kernel, where all lanes are."""
    return f"const int {kernel.warpgroup} = __shfl_sync(0xffffffffu, threadIdx.x / {WARPGROUP}, 0);"


# --- fences and waits ------------------------------------------------------------------------------------------------


@prints(ops.WgmmaFence)
def fence(kernel: Kernel, op: ops.WgmmaFence) -> None:
    """The registers settled, then wgmma.fence."""
    kernel.helpers.need_only(90, _WHAT)
    kernel.values.before(op)
    pins.registers(kernel, op.registers)
    name = kernel.helpers.function("warpgroup_arrive", "void ()",
                                   'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");', arch=90)
    kernel.writer.line(f"{name}();")


@prints(ops.WgmmaCommit)
def commit(kernel: Kernel, op: ops.WgmmaCommit) -> None:
    """wgmma.commit_group."""
    kernel.helpers.need_only(90, _WHAT)
    kernel.values.before(op)
    name = kernel.helpers.function("warpgroup_commit_batch", "void ()",
                                   'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");', arch=90)
    kernel.writer.line(f"{name}();")


@prints(ops.WgmmaWait)
def wait(kernel: Kernel, op: ops.WgmmaWait) -> None:
    """wgmma.wait_group, then its results may be read."""
    kernel.helpers.need_only(90, _WHAT)
    kernel.values.before(op)
    name = kernel.helpers.function(
        f"warpgroup_wait_{op.pending}", "void ()",
        f'asm volatile("wgmma.wait_group.sync.aligned {op.pending};" ::: "memory");', arch=90)
    kernel.writer.line(f"{name}();")
    pins.registers(kernel, op.results)
