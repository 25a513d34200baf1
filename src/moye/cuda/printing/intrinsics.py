"""Device functions that printed kernels call: each instruction's asm once, as an inline function.

In: what a kernel needs, asked for one by one.  Out: the function's name, and at the end the text of all that were
used.

>>> Intrinsics().cp_async(mo.CpAsync(mo.float64), zero_fill=False)
'cp_async_8'

Every function states the instruction it stands for; none of them includes a header.
"""

from __future__ import annotations

from moye import dtypes as dt
from moye.atoms.atom import CopyOp
from moye.cuda.printing.names import is_free
from moye.dtypes import DType, Kind, Space
from moye.errors import UNKNOWN, Loc, UnsupportedError
from moye.layout import Swizzle

_DEVICE = "__device__ __forceinline__"
_STRUCTS = {"f16": "unsigned short", "bf16": "unsigned short", "e4m3": "unsigned char", "e5m2": "unsigned char"}
_BITS = {8: "unsigned char", 16: "unsigned short", 32: "unsigned", 64: "unsigned long long"}
_REGISTER = {8: "h", 16: "h", 32: "r", 64: "l"}
_ADDRESS = {Space.GLOBAL: ("global", '"l"(p)'),
            Space.SHARED: ("shared", '"r"((unsigned)__cvta_generic_to_shared(p))'),
            Space.CLUSTER: ("shared::cluster", '"r"(p)')}

_TO_F32 = {
    "f16": (("float y;", 'asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));', "return y;"), 80),
    "bf16": (("return __uint_as_float((unsigned)x.bits << 16);",), 80),
    "e4m3": (("unsigned y;", 'asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"((unsigned short)x.bits));',
              "return f32(f16{(unsigned short)y});"), 89),
    "e5m2": (("return f32(f16{(unsigned short)(x.bits << 8)});",), 80),
}
_FROM_F32 = {
    "f16": (("f16 y;", 'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));', "return y;"), 80),
    "bf16": (("bf16 y;", 'asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));', "return y;"), 80),
    "e4m3": (("unsigned short y;", 'asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y) : "f"(0.0f), "f"(x));',
              "return e4m3{(unsigned char)y};"), 89),
    "e5m2": (("unsigned short y;", 'asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(y) : "f"(0.0f), "f"(x));',
              "return e5m2{(unsigned char)y};"), 89),
}
_ROUND_TO_ODD = f"""\
// A float with a sticky last bit: rounding it further is like rounding x itself.
{_DEVICE} float round_to_odd({{0}} x) {{{{
    const float y = __{{1}}2float_rz(x);
    return ({{0}})y == x || x != x ? y : __uint_as_float(__float_as_uint(y) | 1u);
}}}}"""
_FLOOR_DIV = f"""\
{_DEVICE} {{0}} floor_div({{0}} a, {{0}} b) {{{{
    const {{0}} q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}}}}"""
_FLOOR_MOD = f"""\
{_DEVICE} {{0}} floor_mod({{0}} a, {{0}} b) {{{{
    const {{0}} r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}}}}"""
# Python's // and % of floats (float_floor_div of CPython); a // 0 is a / 0.
_FLOAT_MOD = f"""\
{_DEVICE} {{0}} floor_mod({{0}} a, {{0}} b) {{{{
    const {{0}} r = fmod{{1}}(a, b);
    return r == 0 ? copysign{{1}}(r, b) : (r < 0) != (b < 0) ? r + b : r;
}}}}"""
_FLOAT_DIV = f"""\
{_DEVICE} {{0}} floor_div({{0}} a, {{0}} b) {{{{
    const {{0}} r = fmod{{1}}(a, b), q = (a - r) / b - (r != 0 && (r < 0) != (b < 0)), f = floor{{1}}(q);
    return b == 0 ? a / b : q == 0 ? copysign{{1}}(q, a / b) : 2 * (q - f) > 1 ? f + 1 : f;
}}}}"""
_WIDEST = 108
# The driver gives each cooperative launch a workspace in %envreg1 (high) and %envreg2: its size, and the word that is
# used here.  Its top bit turns over when all blocks have come, and the bits below are zero again then.
_GRID_SYNC = (
    "unsigned* word;",
    'asm("{.reg .b64 p; mov.b64 p, {%%envreg2, %%envreg1}; add.s64 %0, p, 4;}" : "=l"(word));',
    "__syncthreads();",
    "if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {",
    "    if ((unsigned long long)word == 4) __trap();  // no cooperative launch",
    "    const bool first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;",
    "    const unsigned others = gridDim.x * gridDim.y * gridDim.z - 1, mine = first ? 0x80000000u - others : 1u;",
    "    unsigned before, now;",
    '    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;"',
    '                 : "=r"(before) : "l"(word), "r"(mine) : "memory");',
    "    do {",
    '        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");',
    "    } while (((before ^ now) & 0x80000000u) == 0);",
    "}",
    "__syncthreads();")
APPROXIMATIONS = {"exp2": "ex2.approx.ftz.f32", "log2": "lg2.approx.ftz.f32", "sqrt": "sqrt.approx.ftz.f32",
                  "rsqrt": "rsqrt.approx.ftz.f32", "rcp": "rcp.approx.ftz.f32", "sin": "sin.approx.ftz.f32",
                  "cos": "cos.approx.ftz.f32", "tanh": "tanh.approx.f32"}
NARROW_APPROXIMATIONS = {("exp2", "f16"): "ex2.approx.f16", ("exp2", "bf16"): "ex2.approx.ftz.bf16",
                         ("tanh", "f16"): "tanh.approx.f16", ("tanh", "bf16"): "tanh.approx.bf16"}
_BY_FMA = {"add": ("fma.rn.bf16 %0, %1, %3, %2;", 0x3F80), "sub": ("fma.rn.bf16 %0, %2, %3, %1;", 0xBF80),
           "mul": ("fma.rn.bf16 %0, %1, %2, %3;", 0x8000)}      # with 1, -1 and -0


class Intrinsics:
    """The functions and types that one kernel uses, in the order of first use; ``arch`` is the least that has them."""

    strict = False
    """In tests: a function whose name names.py does not know, or that is there already, is an AssertionError.

    A user's kernel prints without it: a variable that hides a function is seen by NVRTC.
    """

    def __init__(self) -> None:
        self._types: dict[str, str] = {}
        self._functions: dict[str, str] = {}
        self._bodies: dict[str, tuple[str, ...]] = {}
        self._overloads: dict[tuple[str, str], str] = {}
        self._apart: dict[tuple[str, str, tuple[str, ...]], str] = {}
        self.arch = 80
        self.newest = ("", UNKNOWN)  # what needs this arch, and where
        self.accelerated = ("", UNKNOWN)  # what only architectures such as sm_90a have, none without the letter
        self.only: tuple[str, int, Loc] = ("", 0, UNKNOWN)  # what one architecture alone has
        self.gone: tuple[str, int, Loc] = ("", 0, UNKNOWN)  # what no architecture from this one on has
        self.at: Loc = UNKNOWN  # the program point being printed

    def text(self) -> list[str]:
        """Every type and function used, as lines."""
        texts = [*self._types.values(), *self._functions.values()]
        return [line for text in texts for line in text.split("\n")]

    def need(self, arch: int, what: str = "instructions") -> None:
        """``what``, in the plural, needs this compute capability."""
        if arch > self.arch:
            self.arch, self.newest = arch, (what, self.at)

    def need_only(self, arch: int, what: str) -> None:
        """``what``, in the plural, is on this architecture and on no later one."""
        if not self.only[1]:
            self.only = (what, arch, self.at)

    def need_before(self, arch: int, what: str) -> None:
        """``what``, in the plural, is on no architecture from this compute capability on."""
        if not self.gone[1] or arch < self.gone[1]:
            self.gone = (what, arch, self.at)

    def need_accelerated(self, what: str) -> None:
        """``what``, in the plural, needs an architecture with a letter, as in sm_90a."""
        if not self.accelerated[0]:
            self.accelerated = (what, self.at)

    def function(self, name: str, signature: str, *body: str, overload: str = "", arch: int = 80,
                 what: str = "") -> str:
        """Note one function; ``signature`` is 'result (parameters)', ``body`` its statements.  Returns its name."""
        self.need(arch, what or f"instructions in {name}")
        key = f"{name}({overload})"
        if key not in self._functions:
            result, _, parameters = signature.partition(" (")
            if self.strict:
                assert not is_free(name), f"a variable of the user's may be called {name}: names.py has to know it"
                assert self._overloads.setdefault((name, parameters), key) == key, f"two functions {name}({parameters}"
            head = f"{_DEVICE} {result} {name}({parameters} {{"
            flat = " ".join(body)
            lines = [flat] if len(flat) <= _WIDEST and "\n" not in flat else body
            self._functions[key] = "\n".join([head, *(f"    {line}" for line in lines), "}"])
            self._bodies[key] = body
        elif self._bodies.get(key, body) != body:
            raise UnsupportedError(f"the CUDA printer has two functions {name}: one for each of two atoms that its "
                                   "name does not tell apart", locs=(self.at,) if self.at.frames else ())
        return name

    def apart(self, stem: str, signature: str, *body: str, arch: int) -> str:
        """Note a function whose name is the stem, with a number where others of that stem differ."""
        key = (stem, signature, body)
        if key not in self._apart:
            others = sum(each[0] == stem for each in self._apart)
            self._apart[key] = f"{stem}_{others + 1}" if others else stem
        return self.function(self._apart[key], signature, *body, arch=arch)

    # --- types and conversions ---

    def declare(self, name: str, text: str) -> str:
        """Note one type by its definition.  Returns its name."""
        self._types.setdefault(name, text)
        return name

    def ctype(self, dtype: DType) -> str:
        """The C type of an element."""
        bits = _STRUCTS.get(dtype.cuda)
        if bits is not None:
            self._types.setdefault(dtype.cuda, f"struct {dtype.cuda} {{ {bits} bits; }};")
        return dtype.cuda

    def to_f32(self, dtype: DType) -> str:
        """The conversion function from a narrow float to float."""
        body, arch = _TO_F32[self.ctype(dtype)]
        if dtype.bits == 8:
            self.to_f32(dt.float16)
        return self.function("f32", f"float ({dtype.cuda} x)", *body, overload=dtype.cuda, arch=arch,
                             what=f"conversions from {dtype}")

    def from_f32(self, dtype: DType) -> str:
        """The conversion function from float to a narrow float (round to nearest even) or to tf32 (ties away)."""
        if dtype == dt.tfloat32:
            return self.function("to_tf32", "float (float x)", "unsigned y;",
                                 'asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));', "return __uint_as_float(y);")
        body, arch = _FROM_F32[self.ctype(dtype)]
        return self.function(f"to_{dtype.cuda}", f"{dtype.cuda} (float x)", *body, arch=arch,
                             what=f"conversions to {dtype}")

    def pack(self, dtype: DType, count: int) -> str:
        """The function from ``count`` narrow elements to one unsigned word, the first lowest."""
        ctype = self.ctype(dtype)
        parts = [f"x{i}.bits" if ctype in _STRUCTS else f"(unsigned char)x{i}" if dtype.kind is Kind.INT and
                 dtype.bits == 8 else f"(unsigned short)x{i}" if dtype.kind is Kind.INT else f"x{i}"
                 for i in range(count)]
        word = " | ".join(f"(unsigned){part} << {i * dtype.bits}" if i else part for i, part in enumerate(parts))
        return self.function("pack", f"unsigned ({', '.join(f'{ctype} x{i}' for i in range(count))})",
                             f"return {word};", overload=f"{ctype}{count}")

    def round_to_odd(self, ctype: str) -> str:
        """The conversion from double, long long or unsigned long long to a float with a sticky last bit."""
        self._overload("round_to_odd", _ROUND_TO_ODD, ctype, {"long long": "ll", "double": "double"}.get(ctype, "ull"))
        return "round_to_odd"

    # --- arithmetic ---

    def floor(self, kind: str, dtype: DType) -> str:
        """``floor_div`` or ``floor_mod`` of one C type."""
        if dtype.is_float:
            name, template = ("floor_div", _FLOAT_DIV) if kind == "floordiv" else ("floor_mod", _FLOAT_MOD)
            self._overload(name, template, dtype.cuda, "" if dtype.bits == 64 else "f")
        else:
            name, template = ("floor_div", _FLOOR_DIV) if kind == "floordiv" else ("floor_mod", _FLOOR_MOD)
            self._overload(name, template, "long long" if dtype.bits == 64 else "int")
        return name

    def low16(self) -> str:
        """The function from an int to the short of its low half.

        A cast leaves it to the compiler to find that ``a - 2 * a`` of shorts, say, is neg.s16, whose result at -32768
        ptxas 13.0 takes for 32768 in comparisons and maxima.  It does not look through this instruction.
        """
        return self.function("low16", "short (int x)",
                             'int y; asm("bfe.s32 %0, %1, 0, 16;" : "=r"(y) : "r"(x)); return (short)y;')

    def _overload(self, name: str, template: str, ctype: str, *args: str) -> None:
        self._functions.setdefault(f"{name}({ctype})", template.format(ctype, *args))

    def match_all(self, dtype: DType) -> str:
        """The function that gives the mask where all lanes in it have one value, and 0 elsewhere."""
        ctype = _BITS[dtype.bits]
        return self.function("match_all", f"unsigned (unsigned mask, {ctype} x)",
                             "int every; return __match_all_sync(mask, x, &every);", overload=ctype)

    def approx(self, kind: str) -> str:
        """The hardware's approximation of a float function."""
        body = f'asm("{APPROXIMATIONS[kind]} %0, %1;" : "=f"(y) : "f"(x));'
        return self.function(f"{kind}_approx", "float (float x)", "float y;", body, "return y;", overload="float")

    def approx_16(self, kind: str, dtype: DType) -> str:
        """The same of a 16-bit float; bfloat16 has it from sm_90 on, and goes through float before."""
        ctype = self.ctype(dtype)
        own = f'asm("{NARROW_APPROXIMATIONS[kind, ctype]} %0, %1;" : "=h"(y.bits) : "h"(x.bits));'
        if ctype == "bf16":
            wide = f"y = {self.from_f32(dtype)}({self.approx(kind)}({self.to_f32(dtype)}(x)));"
            own = f"\n#if __CUDA_ARCH__ >= 900\n    {own}\n#else\n    {wide}\n#endif"
        return self.function(f"{kind}_approx", f"{ctype} ({ctype} x)", f"{ctype} y;", own, "return y;", overload=ctype)

    def swizzle(self, swizzle: Swizzle, dtype: DType) -> str:
        """The function from offset to swizzled offset."""
        bits, base, shift = swizzle.bits, swizzle.base, swizzle.shift
        mask = ((1 << bits) - 1) << base
        name = f"swizzle_{bits}_{base}_{shift}".replace("-", "m")
        moved = f"x >> {shift} & {mask}" if shift >= 0 else f"(x & {mask}) << {-shift}"
        return self.function(name, f"{dtype.cuda} ({dtype.cuda} x)", f"return x ^ ({moved});", overload=dtype.cuda)

    def globaltimer(self) -> str:
        return self.function("globaltimer", "long long ()", "long long t;",
                             'asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));', "return t;")

    def fma_16(self, dtype: DType) -> str:
        """a * b + c of 16-bit floats, rounded once."""
        ctype = self.ctype(dtype)
        body = f'asm("fma.rn.{ctype} %0, %1, %2, %3;" : "=h"(y.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));'
        return self.function("fma_16", f"{ctype} ({ctype} a, {ctype} b, {ctype} c)", f"{ctype} y;", body, "return y;",
                             overload=ctype)

    def fraction(self, dtype: DType) -> str:
        """The remainder by 1, which needs no loop: the difference is rounded as a sum with 1 would be."""
        ctype = self.ctype(dtype)
        return self.function("floor_mod_1", f"{ctype} ({ctype} a)",
                             f"return a - floor{'' if dtype.bits == 64 else 'f'}(a);", overload=ctype)

    def arithmetic_16(self, kind: str, dtype: DType) -> str:
        """A sum, difference or product of two 16-bit floats, rounded once.

        bfloat16 has an fma alone before sm_90: ``a * 1 + b``, ``b * -1 + a`` and ``a * b - 0`` round the same.
        """
        ctype = self.ctype(dtype)
        ptx, more = f"{kind}.rn.{ctype} %0, %1, %2;", ""
        if ctype == "bf16":
            ptx, third = _BY_FMA[kind]
            more = f', "h"((unsigned short){third:#06x})'
        body = f'asm("{ptx}" : "=h"(y.bits) : "h"(a.bits), "h"(b.bits){more});'
        return self.function(f"{kind}_16", f"{ctype} ({ctype} a, {ctype} b)", f"{ctype} y;", body, "return y;",
                             overload=ctype)

    # --- asynchronous copies and barriers ---

    def cp_async(self, atom: CopyOp, zero_fill: bool, predicated: bool = False) -> str:
        """cp.async of the atom's width: ([whether to, ]shared address, global pointer[, bytes to read])."""
        self.need(atom.arch)
        more = f"_prefetch_{atom.prefetch}" if atom.prefetch else ""
        name = f"cp_async{'_cg' if atom.cache == 'global' else ''}_{atom.bytes}{more}"
        parameters, inputs, ptx = "unsigned dst_smem, const void* src", '"r"(dst_smem), "l"(src)', atom.ptx
        if zero_fill:
            name, parameters, inputs = f"{name}_zfill", f"{parameters}, int bytes", f'{inputs}, "r"(bytes)'
            ptx = atom.ptx.rstrip("; ") + ", %2;"
        if predicated:
            name, parameters, inputs = f"{name}_if", f"bool when, {parameters}", f'{inputs}, "r"((int)when)'
            ptx = f"{{.reg .pred p; setp.ne.s32 p, %{2 + zero_fill}, 0; @p {ptx}}}"
        return self.function(name, f"void ({parameters})", f'asm volatile("{ptx}" :: {inputs} : "memory");')

    def cp_async_commit(self) -> str:
        return self._statement("cp_async_commit", "cp.async.commit_group;")

    def cp_async_wait_all(self) -> str:
        return self._statement("cp_async_wait_all", "cp.async.wait_all;")

    def cp_async_wait_group(self) -> str:
        name = "cp_async_wait_group"
        body = 'asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");'
        self._functions.setdefault(name, f"template <int pending> {_DEVICE} void {name}() {{\n    {body}\n}}")
        return name

    def _statement(self, name: str, ptx: str, arch: int = 80) -> str:
        return self.function(name, "void ()", f'asm volatile("{ptx}" ::: "memory");', arch=arch)

    def named_barrier(self, kind: str) -> str:
        """bar.sync or bar.arrive: (barrier, threads)."""
        return self.function(f"bar_{kind}", "void (int barrier, int threads)",
                             f'asm volatile("bar.{kind} %0, %1;" :: "r"(barrier), "r"(threads) : "memory");')

    def shift(self, kind: str, dtype: DType) -> str:
        """shl and shr by a count that may be anything: PTX clamps it, where C++'s operators leave it undefined."""
        bits = max(dtype.bits, 32)
        word = dt.from_name(f"{'int' if dtype.kind is Kind.INT or dtype.bits < 32 else 'uint'}{bits}").cuda
        form = f"b{bits}" if kind == "shl" else f"{'u' if word.startswith('unsigned') else 's'}{bits}"
        register = _REGISTER[bits]
        return self.function(kind, f"{word} ({word} x, unsigned count)", f"{word} y;",
                             f'asm("{kind}.{form} %0, %1, %2;" : "={register}"(y) : "{register}"(x), "r"(count));',
                             "return y;", overload=word)

    def fence(self, order: str, scope: str) -> str:
        """fence.sc or fence.acq_rel; between the accesses of one thread only the compiler needs telling."""
        if scope == "thread" or order == "relaxed":
            return self._statement("fence_compiler", "")
        semantics = "sc" if order == "seq_cst" else "acq_rel"
        return self._statement(f"fence_{semantics}_{scope}", f"fence.{semantics}.{scope};", _scope_arch(scope))

    def grid_sync(self) -> str:
        """The barrier of a cooperative launch."""
        return self.function("grid_sync", "void ()", *_GRID_SYNC)

    # --- ordered memory ---

    def load(self, dtype: DType, space: Space, order: str, scope: str) -> str:
        """ld.order.scope of one element: (pointer)."""
        if order not in ("relaxed", "acquire", "seq_cst"):
            raise UnsupportedError(f"a load cannot have order {order!r}")
        ptx, before, scope = _ordered(order, scope, "acquire")
        state, address = _ADDRESS[space]
        name = f"ld_{order}_{scope}_{state}"
        ctype = self.ctype(dtype)
        out, reg, finish = output(dtype)
        body = (f'asm volatile("{before}ld.{ptx}.{scope}.{state}.b{dtype.bits} %0, [%1];" : "={reg} : {address} '
                ': "memory");')
        return self.function(name, f"{ctype} (const {ctype}* p)", out, body, finish, overload=ctype,
                             arch=_scope_arch(scope))

    def store(self, dtype: DType, space: Space, order: str, scope: str) -> str:
        """st.order.scope of one element: (pointer, value)."""
        if order not in ("relaxed", "release", "seq_cst"):
            raise UnsupportedError(f"a store cannot have order {order!r}")
        ptx, before, scope = _ordered(order, scope, "relaxed")
        state, address = _ADDRESS[space]
        ctype = self.ctype(dtype)
        body = (f'asm volatile("{before}st.{ptx}.{scope}.{state}.b{dtype.bits} [%0], %1;" :: {address}, '
                f'{register_input(dtype, "x")} : "memory");')
        return self.function(f"st_{order}_{scope}_{state}", f"void ({ctype}* p, {ctype} x)", body, overload=ctype,
                             arch=_scope_arch(scope))

    def atomic(self, kind: str, dtype: DType, space: Space, order: str, scope: str, used: bool) -> str:
        """atom.order.scope.kind (red where the old value is not used): (pointer, [compare,] value)."""
        suffix = _atomic_type(kind, dtype)
        red = not used and kind not in ("exch", "cas") and order in ("relaxed", "release")
        ptx, before, scope = _ordered(order, scope, "acq_rel")
        state, address = _ADDRESS[space]
        ctype = self.ctype(dtype)
        op = f"{'red' if red else 'atom'}.{ptx}.{scope}.{state}.{kind}.{suffix}"
        peers = space is Space.CLUSTER
        name = f"{'red' if red else 'atom'}_{kind}_{order}_{scope}_{'cluster' if peers else state}"
        arch = max(_scope_arch("cluster" if peers else scope), 90 if dtype == dt.bfloat16 and kind == "add" else 80)
        inputs = f"{address}, " + ('"' + register_input(dtype, "expected")[1:] + ", " if kind == "cas" else "")
        inputs += register_input(dtype, "x")
        pointer = "unsigned" if peers else f"{ctype}*"
        parameters = f"{pointer} p, {f'{ctype} expected, ' if kind == 'cas' else ''}{ctype} x)"
        if red:
            return self.function(name, f"void ({parameters}",
                                 f'asm volatile("{before}{op} [%0], %1;" :: {inputs} : "memory");', overload=ctype,
                                 arch=arch)
        out, reg, finish = output(dtype)
        places = "[%1], %2, %3" if kind == "cas" else "[%1], %2"
        return self.function(name, f"{ctype} ({parameters}", out,
                             f'asm volatile("{before}{op} %0, {places};" : "={reg} : {inputs} : "memory");',
                             finish, overload=ctype, arch=arch)


def _scope_arch(scope: str) -> int:
    return 90 if scope == "cluster" else 80


def _ordered(order: str, scope: str, strongest: str) -> tuple[str, str, str]:
    """(order as the instruction spells it, a fence in front, scope); PTX ISA: mapping of the C++ memory model."""
    scope = "cta" if scope == "thread" else scope
    return (strongest, f"fence.sc.{scope}; ", scope) if order == "seq_cst" else (order, "", scope)


def constraint(dtype: DType) -> str:
    """The asm constraint letter of a register that holds one element."""
    if dtype.is_float and dtype.bits in (32, 64):
        return "f" if dtype.bits == 32 else "d"
    if dtype.bits not in _REGISTER:
        raise UnsupportedError(f"{dtype} does not fit one register")
    return _REGISTER[dtype.bits]


def register_input(dtype: DType, name: str) -> str:
    """An asm input operand holding one element."""
    letter = constraint(dtype)
    if dtype.cuda in _STRUCTS:
        name = f"{name}.bits"
    return f'"{letter}"((unsigned short){name})' if dtype.bits == 8 else f'"{letter}"({name})'


def output(dtype: DType) -> tuple[str, str, str]:
    """(declaration, constraint and place, return statement) of an asm output holding one element."""
    letter = constraint(dtype)
    if dtype.cuda in _STRUCTS and dtype.bits == 16:
        return f"{dtype.cuda} y;", f'{letter}"(y.bits)', "return y;"
    if dtype.bits == 8:
        made = f"{dtype.cuda}{{(unsigned char)y}}" if dtype.cuda in _STRUCTS else f"({dtype.cuda})y"
        return "unsigned short y;", f'{letter}"(y)', f"return {made};"
    return f"{dtype.cuda} y;", f'{letter}"(y)', "return y;"


def _atomic_type(kind: str, dtype: DType) -> str:
    """The type suffix of atom.kind; UnsupportedError where PTX has none."""
    bits = dtype.bits
    found: str | None = None
    if kind == "add":
        found = {dt.float16: "noftz.f16", dt.bfloat16: "noftz.bf16", dt.float32: "f32", dt.float64: "f64",
                 # u32 of int32, too: for a constant 1 in shared memory, ptxas then lets lanes count together
                 dt.int32: "u32", dt.uint32: "u32", dt.int64: "u64", dt.uint64: "u64"}.get(dtype)
    elif kind in ("min", "max") and bits in (32, 64) and dtype.is_integer:
        found = f"{'s' if dtype.kind is Kind.INT else 'u'}{bits}"
    elif (kind in ("and", "or", "xor", "exch") and bits in (32, 64)) or (kind == "cas" and bits in (16, 32, 64)):
        found = f"b{bits}"
    if found is None:
        raise UnsupportedError(f"there is no atomic {kind} of {dtype}")
    return found
