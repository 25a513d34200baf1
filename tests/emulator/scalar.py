"""Scalar instructions as C++: arithmetic, comparisons, logic, moves of registers.

In: an ``Instruction``.  Out: a statement; ``PtxError`` for what is not known.

Source: PTX ISA, Integer Arithmetic ... Data Movement and Conversion Instructions.
"""

from __future__ import annotations

import re

from emulator.ptx import WIDTHS, Instruction
from emulator.writer import TYPES, WORDS, Writer, translates

FLOATS, HALVES = ("f32", "f64"), {"f16": "H", "bf16": "B", "f16x2": "H", "bf16x2": "B"}
ROUNDINGS = {"rn": "RN", "rz": "RZ", "rm": "RM", "rp": "RP", "rna": "RNA"}
_INTEGER = {
    "add": "({a}) + ({b})", "sub": "({a}) - ({b})", "and": "({a}) & ({b})", "or": "({a}) | ({b})",
    "xor": "({a}) ^ ({b})", "div": "idiv({a}, {b})", "rem": "irem({a}, {b})", "not": "~({a})", "neg": "0 - ({a})",
    "cnot": "!({a})", "abs": "iabs({a})", "min": "({a}) < ({b}) ? ({a}) : ({b})",
    "max": "({a}) > ({b}) ? ({a}) : ({b})",
    "sad": "({c}) + (({a}) < ({b}) ? ({b}) - ({a}) : ({a}) - ({b}))",
}
_SINGLE = {"ex2": "ex2", "lg2": "lg2", "rcp": "rcp", "rsqrt": "rsqrt", "sin": "fsin", "cos": "fcos", "tanh": "ftanh"}
_FLOAT = {"add": "xadd", "sub": "xsub", "mul": "xmul", "div": "xdiv", "fma": "xfma", "mad": "xfma", "sqrt": "xsqrt"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">",
            "hs": ">="}


def named(w: Writer, i: Instruction, dtype: str) -> dict[str, str]:
    """The operands after the first as ``a``, ``b``, ``c``."""
    return dict(zip("abc", (w.get(x, dtype) for x in i.operands[1:]), strict=False))


@translates("add", "sub", "and", "or", "xor", "div", "rem", "not", "neg", "cnot", "abs", "min", "max", "sad", "mul",
            "mad", "fma", "sqrt", "ex2", "lg2", "rcp", "rsqrt", "sin", "cos", "tanh", "addc", "subc", "madc")
def arithmetic(w: Writer, i: Instruction) -> str:
    root, dtype = i.parts[0], i.parts[-1]
    if dtype in FLOATS:
        return floating(w, i, root, dtype)
    if dtype in HALVES:
        return halves(w, i, root, dtype)
    if dtype == "f32x2":
        return two_floats(w, i, root)
    if "cc" in i.parts or root in ("addc", "subc", "madc"):
        return carried(w, i, root, dtype)
    if root in ("mul", "mad"):
        return product(w, i, root, dtype)
    if root not in _INTEGER or dtype not in TYPES or len(i.parts) > 2:
        raise w.refuse(i)
    if dtype == "pred" and root == "not":
        return w.put(i.operands[0], f"!{w.get(i.operands[1], 'pred')}", "pred")
    return w.put(i.operands[0], f"{TYPES[dtype]}({_INTEGER[root].format(**named(w, i, dtype))})", dtype)


def product(w: Writer, i: Instruction, root: str, dtype: str) -> str:
    """mul and mad of integers: the low half, the high half, or all of it."""
    kind, of = TYPES[dtype], named(w, i, dtype)
    if "wide" in i.parts:
        wide = dtype[0] + str(2 * WIDTHS[dtype])
        text = f"{TYPES[wide]}({of['a']}) * {TYPES[wide]}({of['b']})"
        more = f" + {w.get(i.operands[3], wide)}" if root == "mad" else ""
        return w.put(i.operands[0], f"{TYPES[wide]}({text}{more})", wide)
    unsigned = f"u{max(32, WIDTHS[dtype])}"
    low = f"{kind}({unsigned}({of['a']}) * {unsigned}({of['b']}))"
    text = f"mulhi({of['a']}, {of['b']})" if "hi" in i.parts else low
    return w.put(i.operands[0], f"{kind}({text}{' + ' + of['c'] if root == 'mad' else ''})", dtype)


def carried(w: Writer, i: Instruction, root: str, dtype: str) -> str:
    """Sums and differences with a carry: the flag is ``carry``."""
    bits = WIDTHS[dtype]
    wide, of = {32: "u64", 64: "u128"}[bits], named(w, i, f"u{bits}")
    carry = f" + {wide}(carry)" if root in ("addc", "madc") else f" - {wide}(carry)" if root == "subc" else ""
    if root in ("mad", "madc"):
        half = f"mulhi({of['a']}, {of['b']})" if "hi" in i.parts else f"u{bits}(({of['a']}) * ({of['b']}))"
        text = f"{wide}({half}) + {wide}({of['c']})"
    else:
        text = f"{wide}({of['a']}) {'-' if root in ('sub', 'subc') else '+'} {wide}({of['b']})"
    keep = f"carry = bool((s >> {bits}) & 1); " if "cc" in i.parts else ""
    return f"{{ const {wide} s = {text}{carry}; {keep}{w.put(i.operands[0], 's', f'u{bits}')} }}"


def floating(w: Writer, i: Instruction, root: str, dtype: str) -> str:
    """Arithmetic of f32 and f64, with its rounding, .ftz and .sat."""
    values = list(named(w, i, dtype).values())
    if "ftz" in i.parts:
        values = [f"flush({value})" for value in values]
    mode = next((ROUNDINGS[part] for part in i.parts if part in ("rz", "rm", "rp")), "")
    if root in _FLOAT:
        text = f"{_FLOAT[root]}{f'<{mode}>' if mode else ''}({', '.join(values)})"
    elif root in _SINGLE:
        exact = root == "rcp" and "approx" not in i.parts
        text = f"xdiv{f'<{mode}>' if mode else ''}({TYPES[dtype]}(1), {values[0]})" if exact else \
            f"{_SINGLE[root]}{'_gross' if dtype == 'f64' and 'ftz' in i.parts else ''}({values[0]})"
    elif root in ("min", "max"):
        suffix = "_nan" if "NaN" in i.parts else "2"
        text = values[0]
        for value in values[1:]:
            text = f"f{root}{suffix}({text}, {value})"
    elif root in ("neg", "abs"):
        text = f"-({values[0]})" if root == "neg" else f"std::fabs({values[0]})"
    else:
        raise w.refuse(i)
    if "ftz" in i.parts:
        text = f"flush({text})"
    if "sat" in i.parts:
        text = f"saturate({text})"
    return w.put(i.operands[0], text, dtype)


def two_floats(w: Writer, i: Instruction, root: str) -> str:
    """Sums, products and fma of two float32 in 64 bits, each rounded to nearest."""
    if root not in ("add", "mul", "fma") or i.parts[1:-1] not in ([], ["rn"]):
        raise w.refuse(i)
    words = [w.get(x, "b64") for x in i.operands[1:]]
    low, high = (f"u64(R({_FLOAT[root]}({', '.join(f'F({word} >> {at})' for word in words)})))" for at in (0, 32))
    return w.put(i.operands[0], f"{low} | {high} << 32", "b64")


def halves(w: Writer, i: Instruction, root: str, dtype: str) -> str:
    """Arithmetic of f16 and bf16, alone or as pairs."""
    name = root + next((f"_{how.lower()}" for how in ("relu", "NaN", "ftz") if how in i.parts), "")
    if root not in ("add", "sub", "mul", "fma", "min", "max", "neg", "abs", "ex2", "tanh") or "sat" in i.parts:
        raise w.refuse(i)
    function = f"{HALVES[dtype]}::{name}"
    if dtype.endswith("x2"):
        function = f"pairwise<{function}>"
    return w.put(i.operands[0], f"{function}({', '.join(named(w, i, dtype).values())})", dtype)


# --- bits ------------------------------------------------------------------------------------------------------------


@translates("shl", "shr")
def shift(w: Writer, i: Instruction) -> str:
    dtype = i.parts[-1]
    return w.put(i.operands[0], f"{i.parts[0]}<{TYPES[dtype]}>({w.get(i.operands[1], dtype)}, "
                                f"{w.get(i.operands[2], 'u32')})", dtype)


@translates("shf")
def funnel(w: Writer, i: Instruction) -> str:
    a, b, n = (w.get(x, "u32") for x in i.operands[1:])
    n = f"limited({n})" if "clamp" in i.parts else f"({n} & 31)"
    return w.put(i.operands[0], f"shf_{i.parts[1]}({a}, {b}, {n})", "u32")


@translates("popc", "clz", "bfind", "brev")
def counted(w: Writer, i: Instruction) -> str:
    dtype = i.parts[-1]
    text = f"{i.parts[0]}({w.get(i.operands[1], dtype)})"
    if "shiftamt" in i.parts:
        text = f"({text} == ~0u ? ~0u : {WIDTHS[dtype] - 1} - {text})"
    return w.put(i.operands[0], text, dtype if i.parts[0] == "brev" else "u32")


@translates("bfe")
def bfe(w: Writer, i: Instruction) -> str:
    dtype, (at, length) = i.parts[-1], (w.get(x, "u32") for x in i.operands[2:])
    return w.put(i.operands[0], f"bfe<{TYPES[dtype]}>({w.get(i.operands[1], dtype)}, {at}, {length})", dtype)


@translates("bfi")
def bfi(w: Writer, i: Instruction) -> str:
    dtype, (at, length) = i.parts[-1], (w.get(x, "u32") for x in i.operands[3:])
    a, b = (w.get(x, dtype) for x in i.operands[1:3])
    return w.put(i.operands[0], f"bfi<{TYPES[dtype]}>({a}, {b}, {at}, {length})", dtype)


@translates("lop3")
def lop3(w: Writer, i: Instruction) -> str:
    return w.put(i.operands[0], f"lop3({', '.join(w.get(x, 'u32') for x in i.operands[1:5])})", "b32")


@translates("prmt")
def prmt(w: Writer, i: Instruction) -> str:
    if i.parts[1:] != ["b32"]:
        raise w.refuse(i)
    return w.put(i.operands[0], f"prmt({', '.join(w.get(x, 'u32') for x in i.operands[1:4])})", "b32")


@translates("dp4a")
def dp4a(w: Writer, i: Instruction) -> str:
    a, b = i.parts[1:]
    result = "s32" if "s" in a[0] + b[0] else "u32"
    if a != b:
        raise w.refuse(i)
    return w.put(i.operands[0], f"dp4a<{a[0]}8, {TYPES[result]}>({w.get(i.operands[1], 'u32')}, "
                                f"{w.get(i.operands[2], 'u32')}, {w.get(i.operands[3], result)})", result)


@translates("dp2a")
def dp2a(w: Writer, i: Instruction) -> str:
    """Two halves of a by two bytes of b, the lower or the upper ones, and c."""
    half, byte = (f"{t[0]}{bits}" for t, bits in zip(i.parts[2:], (16, 8), strict=True))
    result = "s32" if "s" in half + byte else "u32"
    a, b, c = (w.get(x, "u32") for x in i.operands[1:])
    first = {"lo": 0, "hi": 16}[i.parts[1]]
    products = (f"u32(s32({half}({a} >> {16 * n}))) * u32(s32({byte}({b} >> {first + 8 * n})))" for n in range(2))
    return w.put(i.operands[0], f"{TYPES[result]}({' + '.join(products)} + {c})", result)


@translates("copysign")
def copysign(w: Writer, i: Instruction) -> str:
    dtype = i.parts[-1]
    a, b = (w.get(x, dtype) for x in i.operands[1:3])
    return w.put(i.operands[0], f"std::copysign({b}, {a})", dtype)


@translates("testp")
def testp(w: Writer, i: Instruction) -> str:
    test = {"nan": "std::isnan(x)", "finite": "std::isfinite(x)", "infinite": "std::isinf(x)",
            "number": "!std::isnan(x)", "normal": "std::isnormal(x)",
            "subnormal": "std::fpclassify(x) == FP_SUBNORMAL"}[i.parts[1]]
    return f"{{ const auto x = {w.get(i.operands[1], i.parts[-1])}; {w.put(i.operands[0], test, 'pred')} }}"


# --- comparisons -----------------------------------------------------------------------------------------------------


def comparison(w: Writer, i: Instruction, cmp: str, dtype: str, a: str, b: str) -> str:
    """Whether two operands compare so."""
    first, second = w.get(a, dtype), w.get(b, dtype)
    if dtype in HALVES and not dtype.endswith("x2"):
        read = "half" if dtype == "f16" else "brain"
        first, second = f"{read}({first})", f"{read}({second})"
    elif dtype.endswith("x2"):
        raise w.refuse(i)
    if "ftz" in i.parts and dtype == "f32":
        first, second = f"flush({first})", f"flush({second})"
    floats = dtype in FLOATS or dtype in HALVES
    if cmp in ("num", "nan"):
        return f"{'!' if cmp == 'num' else ''}either_nan({first}, {second})"
    if floats and cmp.endswith("u") and cmp[:-1] in _COMPARE:
        return f"(either_nan({first}, {second}) || {first} {_COMPARE[cmp[:-1]]} {second})"
    if floats and cmp == "ne":
        return f"(!either_nan({first}, {second}) && {first} != {second})"
    return f"({first} {_COMPARE[cmp]} {second})"


@translates("setp")
def setp(w: Writer, i: Instruction) -> str:
    dtype, cmp = i.parts[-1], i.parts[1]
    text = comparison(w, i, cmp, dtype, i.operands[1], i.operands[2])
    joined = next((part for part in i.parts[2:-1] if part in ("and", "or", "xor")), "")
    p, q = w.pair(i.operands[0])
    found = ["const bool x = " + text + ";"]
    other = w.get(i.operands[3], "pred") if joined else ""
    for target, value in ((p, "x"), (q, "!x")):
        if target:
            full = f"({value}) {dict(zip(('and', 'or', 'xor'), '&|^', strict=True))[joined]} c" if joined else value
            found.append(w.put(target, full, "pred"))
    return f"{{ {f'const bool c = {other}; ' if joined else ''}{' '.join(found)} }}"


@translates("set")
def set_(w: Writer, i: Instruction) -> str:
    result, dtype = i.parts[-2:]
    if len(i.operands) > 3:
        raise w.refuse(i)
    text = comparison(w, i, i.parts[1], dtype, i.operands[1], i.operands[2])
    return w.put(i.operands[0], f"{text} ? 1.f : 0.f" if result == "f32" else f"{text} ? ~0u : 0u", result)


@translates("selp")
def selp(w: Writer, i: Instruction) -> str:
    dtype = i.parts[-1]
    a, b = (w.word(x, dtype) for x in i.operands[1:3])
    raw = {"f32": "b32", "f64": "b64"}.get(dtype, dtype)
    return w.put(i.operands[0], f"{w.get(i.operands[3], 'pred')} ? {a} : {b}", raw)


@translates("slct")
def slct(w: Writer, i: Instruction) -> str:
    dtype, of = i.parts[-2:]
    return w.put(i.operands[0], f"{w.get(i.operands[3], of)} >= 0 ? {w.word(i.operands[1], dtype)} : "
                                f"{w.word(i.operands[2], dtype)}", dtype.replace("f", "b"))


# --- moves -----------------------------------------------------------------------------------------------------------


@translates("mov")
def mov(w: Writer, i: Instruction) -> str:
    dtype = i.parts[-1]
    target, source = i.operands
    if target.startswith("{"):
        parts = w.list(target)
        width = WIDTHS[dtype] // len(parts)
        word = WORDS[width]
        moved = [w.put(part, f"{word}(x >> {n * width})", f"b{width}") for n, part in enumerate(parts) if part != "_"]
        return f"{{ const {WORDS[WIDTHS[dtype]]} x = {w.word(source, dtype)}; {' '.join(moved)} }}"
    if source.startswith("{"):
        parts = w.list(source)
        width = WIDTHS[dtype] // len(parts)
        word = WORDS[WIDTHS[dtype]]
        text = " | ".join(f"{word}({w.get(part, f'b{width}')}) << {n * width}" for n, part in enumerate(parts))
        return w.put(target, text, f"b{WIDTHS[dtype]}")
    return w.put(target, w.word(source, dtype), {"f32": "b32", "f64": "b64"}.get(dtype, dtype))


@translates("cvta")
def cvta(w: Writer, i: Instruction) -> str:
    space = re.sub("__.*", "", i.parts[-2])
    value = w.get(i.operands[1], "u64")
    window = {"shared": "SHARED_WINDOW", "local": "LOCAL_WINDOW"}.get(space)
    if window is None:
        return w.put(i.operands[0], value, "u64")
    if i.parts[1] == "to":
        check = f"if ((x & WINDOW_MASK) != {window}) fault({i.line}, \"cvta.to.{space} of another space's address\");"
        return f"{{ const u64 x = {value}; {check} {w.put(i.operands[0], 'x & ~WINDOW_MASK', 'u64')} }}"
    return w.put(i.operands[0], f"{window} + {value}", "u64")


@translates("isspacep")
def isspacep(w: Writer, i: Instruction) -> str:
    windows = {"shared": "== SHARED_WINDOW", "local": "== LOCAL_WINDOW", "global": "== 0"}
    space = re.sub("__.*", "", i.parts[1])
    if space not in windows:
        raise w.refuse(i)
    return w.put(i.operands[0], f"({w.get(i.operands[1], 'u64')} & WINDOW_MASK) {windows[space]}", "pred")


# --- conversions -----------------------------------------------------------------------------------------------------

FORMATS = {"f16": "HALF", "bf16": "BRAIN", "tf32": "TF32", "e4m3": "E4M3", "e5m2": "E5M2", "e2m1": "E2M1",
           "e2m3": "E2M3", "e3m2": "E3M2"}
_FORMAT_BITS = {"f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "e2m1": 4, "e2m3": 8, "e3m2": 8}
_WHOLE = {"rni": "RN", "rzi": "RZ", "rmi": "RM", "rpi": "RP"}
_HOW = {*_WHOLE, *ROUNDINGS, "ftz", "sat", "satfinite", "relu"}


@translates("cvt")
def cvt(w: Writer, i: Instruction) -> str:
    if i.parts[1] == "pack":
        return joined(w, i)
    to, of = i.parts[-2:]
    if not set(i.parts[1:-2]) <= _HOW:
        raise w.refuse(i)
    if to.endswith("x2") or of.endswith("x2"):
        return packed(w, i, to, of)
    float_to, float_of = (x in FLOATS or x in FORMATS for x in (to, of))
    if ("sat" in i.parts and float_to and not float_of) or ("relu" in i.parts and not (float_to and float_of)):
        raise w.refuse(i)
    value = w.get(i.operands[1], of)
    if not float_to and not float_of:
        text = f"clamped<{TYPES[to]}>({value})" if "sat" in i.parts else f"{TYPES[to]}({value})"
    elif not float_to:
        mode = next(_WHOLE[part] for part in i.parts if part in _WHOLE)
        text = f"to_integer<{TYPES[to]}>({wide(i, value, of)}, {mode}, {'true' if of == 'f64' else 'false'})"
    elif not float_of:
        mode = rounding(i)
        text = f"from_integer<{to}, {mode}>({value})" if to in FLOATS else \
            f"narrow(f64({value}), {FORMATS[to]}, {mode})"
    else:
        return w.put(i.operands[0], between_floats(i, value, to, of), "b32" if to == "tf32" else to)
    return w.put(i.operands[0], text, to)


def rounding(i: Instruction) -> str:
    return next((ROUNDINGS[part] for part in i.parts[1:] if part in ROUNDINGS), "RN")


def wide(i: Instruction, value: str, of: str) -> str:
    """A float of any format in double precision."""
    if of in FLOATS:
        return f"f64(flush({value}))" if "ftz" in i.parts and of == "f32" else f"f64({value})"
    return f"f64({'half' if of == 'f16' else 'brain'}({value}))" if of in ("f16", "bf16") \
        else f"widen({value}, {FORMATS[of]})"


def between_floats(i: Instruction, value: str, to: str, of: str) -> str:
    value = wide(i, value, of)
    whole = next((_WHOLE[part] for part in i.parts if part in _WHOLE), "")
    if whole:
        value = f"integral({value}, {whole})"
    if "sat" in i.parts:
        value = f"saturate({value})"
    if "relu" in i.parts:
        value = f"relu({value})"
    if to == "f64":
        return value
    if to == "f32":
        text = f"to_single<{rounding(i)}>({value})" if of == "f64" else f"nan_of(f32({value}))"
        return f"flush({text})" if "ftz" in i.parts else text
    shift_left = " << 13" if to == "tf32" else ""
    finite = "true" if "satfinite" in i.parts else "false"
    return f"(narrow({value}, {FORMATS[to]}, {rounding(i)}, {finite}){shift_left})"


def joined(w: Writer, i: Instruction) -> str:
    """cvt.pack: two saturated integers side by side, above them the lower half of a third operand of bytes."""
    to, bits = i.parts[3], WIDTHS[i.parts[3]]
    if i.parts[2] != "sat" or i.parts[4] != "s32" or len(i.operands) != (4 if bits == 8 else 3):
        raise w.refuse(i)
    high, low = (f"(u32(clamped<{TYPES[to]}>({w.get(x, 's32')})) & {(1 << bits) - 1})" for x in i.operands[1:3])
    above = f"{w.get(i.operands[3], 'b32')} << 16 | " if bits == 8 else ""
    return w.put(i.operands[0], f"({above}{high} << {bits} | {low})", "b32")


def packed(w: Writer, i: Instruction, to: str, of: str) -> str:
    """Two numbers at once; of two operands the second goes to the low half."""
    narrow_to, narrow_of = to.removesuffix("x2"), of.removesuffix("x2")
    if of == "f32":
        high, low = (between_floats(i, w.get(x, "f32"), narrow_to, "f32") for x in i.operands[1:3])
    else:
        bits = _FORMAT_BITS[narrow_of]
        word = w.get(i.operands[1], "b32" if bits == 16 else "b16")
        mask = (1 << bits) - 1
        low, high = (between_floats(i, f"(({word} >> {bits * n}) & {mask})", narrow_to, narrow_of) for n in (0, 1))
    bits = _FORMAT_BITS[narrow_to]
    result = "b32" if bits == 16 else "b16"
    return w.put(i.operands[0], f"(u32({low}) | u32({high}) << {bits})", result)
