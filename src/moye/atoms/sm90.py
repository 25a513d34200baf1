"""The tensor-core operations of sm_90: wgmma, 64 x N x 32 bytes by the 128 threads of a warpgroup; float64 by a warp.

In: a name of CuTe's.  Out: its ``MmaOp``.  ``NAMES`` has all names of warpgroups; one table makes them.

>>> warpgroup_mma("SM90_64x256x16_F32BF16BF16_SS").shape_mnk
(64, 256, 16)

SS means A and B in shared memory, RS means A in registers.  Two letters are the majors of A and B as in CuTe's names.
For A, T is along K and N along M; for B, N is along K and T along N.  16-bit operations without letters are TN. Source:
PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "Register Fragments for wgmma", and for float64 "Matrix
Fragments for mma.m16n8k4", "mma.m16n8k8", "mma.m16n8k16"; CuTe cute/arch/mma_sm90_gmma.hpp, mma_sm90.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from moye.atoms.atom import MmaOp
from moye.atoms.mma_sync import DTYPES, warp_mma
from moye.layout import Layout

ROWS, THREADS, K_BITS = 64, 128, 256
_ALL_N = tuple(range(8, 257, 8))
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))
_MAJORS = ("TN", "TT", "NN", "NT")

SM90_16x8x4_F64F64F64F64_TN = warp_mma("SM90_16x8x4_F64F64F64F64_TN")
SM90_16x8x8_F64F64F64F64_TN = warp_mma("SM90_16x8x8_F64F64F64F64_TN")
SM90_16x8x16_F64F64F64F64_TN = warp_mma("SM90_16x8x16_F64F64F64F64_TN")


@dataclass(frozen=True, slots=True)
class Family:
    """Operations that differ in N, in majors and in the source of A; words are those of D, A and B."""

    d: str
    a: str
    b: str

    @property
    def integer(self) -> bool:
        return self.d == "S32"

    @property
    def k(self) -> int:
        return K_BITS // DTYPES[self.a].bits

    @property
    def columns(self) -> tuple[int, ...]:
        """The values of N that exist."""
        return _INTEGER_N if self.integer else _ALL_N

    def majors(self, source: str) -> tuple[str, ...]:
        """The modes along which A and B may be contiguous: any for 16-bit operands, K for A in registers."""
        if DTYPES[self.a].bits != 16:
            return _MAJORS[:1]
        return _MAJORS if source == "SS" else _MAJORS[:2]

    def name(self, n: int, source: str, majors: str, *, saturate: bool = False) -> str:
        letters = "" if DTYPES[self.a].bits == 16 and majors == "TN" else f"_{majors}"
        return (f"SM90_{ROWS}x{n}x{self.k}_{self.d}{self.a}{self.b}_{source}{letters}"
                f"{'_SATURATE' if saturate else ''}")


FAMILIES = (
    *(Family(d, "F16", "F16") for d in ("F16", "F32")), Family("F32", "BF16", "BF16"), Family("F32", "TF32", "TF32"),
    *(Family(d, a, b) for d in ("F16", "F32") for a in ("E4M3", "E5M2") for b in ("E4M3", "E5M2")),
    *(Family("S32", a, b) for a in ("S8", "U8") for b in ("S8", "U8")),
)

_MADE = {family.name(n, source, majors, saturate=saturate): (family, n, source, majors, saturate)
         for family in FAMILIES for source in ("SS", "RS") for majors in family.majors(source)
         for n in family.columns for saturate in ((False, True) if family.integer else (False,))}

NAMES = tuple(_MADE)


@cache
def warpgroup_mma(name: str) -> MmaOp:
    """The operation of this name."""
    if name not in _MADE:
        raise ValueError(f"{name!r} is no name of a warpgroup's MMA operation")
    family, n, source, majors, saturate = _MADE[name]
    d, a, b = (DTYPES[word] for word in (family.d, family.a, family.b))
    registers = source == "RS"
    types = ".".join(word.lower() for word in (family.d, family.a, family.b))
    ptx = (f"wgmma.mma_async.sync.aligned.m{ROWS}n{n}k{family.k}.{types}{'.satfinite' if saturate else ''} "
           f"{{d}}, {{a}}, {{b}}, p{_immediates(family, source, majors)};")
    return MmaOp(name, (ROWS, n, family.k), a, b, d, d, THREADS,
                 fragment(family.k, a.bits) if registers else whole(ROWS, family.k), whole(n, family.k), accumulator(n),
                 ptx, 90, saturate=saturate, shared="b" if registers else "ab",
                 a_major="mn" if majors[0] == "N" else "k", b_major="mn" if majors[1] == "T" else "k")


def _immediates(family: Family, source: str, majors: str) -> str:
    """The constants after the predicate: the signs of A and B, and the transposes of what is in shared memory."""
    if family.integer:
        return ""
    transposes = [int(majors[0] == "N"), int(majors[1] == "T")][source == "RS":]
    return ", 1, 1" + ("".join(f", {t}" for t in transposes) if DTYPES[family.a].bits == 16 else "")


def whole(rows: int, k: int) -> Layout:
    """The layout of A or B in shared memory: every thread sees all of it."""
    return Layout((THREADS, (rows, k)), (0, (1, rows)))


def fragment(k: int, bits: int) -> Layout:
    """A in registers: row t / 4 of a warp's 16, then that row + 8; 32 bits along k, then the same 16 bytes further."""
    word = 32 // bits
    lanes = ((4, 8, 4), (word * ROWS, 1, 16))
    if word == 1:
        return Layout((lanes[0], (2, 2)), (lanes[1], (8, 4 * ROWS)))
    return Layout((lanes[0], (word, 2, 2)), (lanes[1], (ROWS, 8, 4 * word * ROWS)))


def accumulator(n: int) -> Layout:
    """C or D: columns 2 (t % 4) and the next of row t / 4 of a warp's 16, of that row + 8, then 8 columns further."""
    return Layout(((4, 8, 4), (2, 2, n // 8)), ((2 * ROWS, 1, 16), (ROWS, 8, 8 * ROWS)))
