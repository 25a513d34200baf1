"""Shared memory of other blocks of the cluster: its addresses, and loads and stores through them.

In: a type of C, one element or a vector of up to 16 bytes.  Out: the name of an inline function around one instruction.

    load(helpers, dt.float32, "float4")     # 'ld_cluster_float4': (address) -> float4, ld.shared::cluster.v4.f32

A pointer to such memory would make generic loads of it: addresses stay 32-bit numbers of the cluster's window.
"""

from __future__ import annotations

from moye.cuda.printing.intrinsics import Intrinsics, output, register_input
from moye.dtypes import DType

_WHAT, _ARCH = "clusters", 90
_FIELDS = "xyzw"
_LONGEST = 108
_ELEMENTS = {"float": ("f32", "f"), "double": ("f64", "d"), "int": ("b32", "r"), "uint": ("b32", "r"),
             "longlong": ("b64", "l"), "ulonglong": ("b64", "l")}
_WORDS = {"unsigned short": ("b16", "h"), "unsigned": ("b32", "r")}


def mapa(helpers: Intrinsics) -> str:
    """mapa.shared::cluster: (address in this block, rank).  Not volatile: equal ones are computed once."""
    return helpers.function("map_shared_rank", "unsigned (unsigned address, unsigned rank)", "unsigned mapped;",
                            'asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));',
                            "return mapped;", arch=_ARCH, what=_WHAT)


def load(helpers: Intrinsics, dtype: DType, ctype: str | None = None) -> str:
    """ld.shared::cluster: (address) -> one element, or a ``ctype`` that holds several."""
    if ctype is None:
        ctype = helpers.ctype(dtype)
        declared, out, result = output(dtype)
        ptx, outputs, place = f"b{dtype.bits} %0", f'"={out}', "%1"
    else:
        declared, result = f"{ctype} y;", "return y;"
        ptx, names, letter = vector_operands(ctype, 0)
        outputs = ", ".join(f'"={letter}"(y{name})' for name in names)
        place = f"%{len(names)}"
    body = asm_lines(f"ld.shared::cluster.{ptx}, [{place}];", f': {outputs} : "r"(address)')
    return helpers.function(f"ld_cluster_{ctype.replace(' ', '_')}", f"{ctype} (unsigned address)", declared, *body,
                            result, arch=_ARCH, what=_WHAT)


def store(helpers: Intrinsics, dtype: DType, ctype: str | None = None) -> str:
    """st.shared::cluster: (address, one element or a ``ctype`` that holds several)."""
    if ctype is None:
        ctype = helpers.ctype(dtype)
        instruction, inputs = f"st.shared::cluster.b{dtype.bits} [%0], %1;", register_input(dtype, "x")
    else:
        ptx, names, letter = vector_operands(ctype, 1)
        kind, _, places = ptx.partition(" ")
        instruction = f"st.shared::cluster.{kind} [%0], {places};"
        inputs = ", ".join(f'"{letter}"(x{name})' for name in names)
    body = asm_lines(instruction, f':: "r"(address), {inputs}')
    return helpers.function(f"st_cluster_{ctype.replace(' ', '_')}", f"void (unsigned address, {ctype} x)", *body,
                            arch=_ARCH, what=_WHAT)


def asm_lines(instruction: str, operands: str) -> list[str]:
    """The statement, on two lines where one would be long."""
    head, rest = f'asm volatile("{instruction}"', f'{operands} : "memory");'
    return [f"{head} {rest}"] if len(head) + len(rest) < _LONGEST else [head, f"             {rest}"]


def vector_operands(ctype: str, first: int) -> tuple[str, list[str], str]:
    """(type and places of the instruction, fields, constraint letter) of a C type, places from ``%first`` on."""
    if ctype in _WORDS:
        kind, letter = _WORDS[ctype]
        return f"{kind} %{first}", [""], letter
    count = int(ctype[-1])
    kind, letter = _ELEMENTS[ctype[:-1]]
    places = ", ".join(f"%{first + i}" for i in range(count))
    return f"v{count}.{kind} {{{places}}}", [f".{field}" for field in _FIELDS[:count]], letter
