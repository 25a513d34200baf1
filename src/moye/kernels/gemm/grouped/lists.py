"""Lists of matrices of several products: what they are, whether they fit, and which of them share a launch.

In: lists of A_i (M_i, K_i), B_i (N_i, K_i) and C_i (M_i, N_i).  Out: ``Lists``.

    lists = described("grouped_gemm_sm90", As, Bs, Cs); kinds, alone = lists.kinds()       # {("k", "k"): [...]}, [...]

A call may have hundreds of matrices, of extents that no call had before, and takes this way each time.  So all are
looked at in short loops, and only where something does not fit is each looked at closely, to say what is wrong with it.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.arguments import matrices, same_problem
from moye.kernels.gemm.sm90.host import check_dtypes
from moye.kernels.memory import apart

_UNIT = 16
"""Bytes of which TMA takes multiples as addresses and strides."""
Row = tuple[int, ...]
"""Of one product: the addresses of A, B and C; M, N and K; the distances in elements between lines of A, B and C; its
place in the lists."""
EXTENTS, STEPS = slice(3, 6), (6, 7)


Place = tuple[int, Any, Any]
"""Of one matrix: its address, its shape, its strides in elements."""
Places = tuple[list[Place], list[Place], list[Place]]


@dataclass(frozen=True, slots=True)
class Lists:
    """All that is known of the matrices A, B and C of each product.

    ``first`` describes those of the first product, whose dtypes and device are those of all; ``like`` is its C itself.
    """

    places: Places
    first: tuple[Any, Any, Any]
    like: Any

    def kinds(self) -> tuple[dict[tuple[str, str], list[Row]], list[int]]:
        """The rows of products with elements by how A and B lie, which share a launch: ("k", "mn") and so on.

        Behind them the indices of those that get a launch of their own: what TMA does not take as it is.  The deepest
        products come first, so that what is left over at the end is short.
        """
        a, b, c = (x.dtype for x in self.first)
        stores = c.bits in (16, 32)
        found: dict[tuple[str, str], list[Row]] = {}
        alone = []
        for i, (A, B, C) in enumerate(zip(*self.places, strict=True)):
            (M, K), N = A[1], B[1][0]
            if M == 0 or N == 0:
                continue
            (of_A, step_A), (of_B, step_B) = _lines(A, a.bytes, a.bits == 16), _lines(B, b.bytes, b.bits == 16)
            of_C, step_C = _lines(C, c.bytes, False)
            if not (of_A and of_B and of_C and K and stores) or N * c.bytes % _UNIT:
                alone.append(i)
            else:
                row = A[0], B[0], C[0], M, N, K, step_A, step_B, step_C, i
                found.setdefault((of_A, of_B), []).append(row)
        for rows in found.values():
            rows.sort(key=_depth, reverse=True)
        return found, alone


def _depth(row: Row) -> int:
    return row[5]


def _lines(x: Place, size: int, rows: bool) -> tuple[str, int]:
    """How TMA copies a matrix, along its rows, "k", or if ``rows`` its columns, "mn", and how far lines are apart.

    It is what ``parts.arguments.contiguous_mode`` says of one.  "" for none.  A single line is as far from the next as
    a tensor map can tell.
    """
    ptr, (lines, length), (apart, step) = x
    if ptr % _UNIT:
        return "", 0
    if step == 1 and (lines <= 1 or (apart > 0 and apart * size % _UNIT == 0)):
        return "k", apart if lines > 1 else -(-length * size // _UNIT) * _UNIT // size
    if rows and apart == 1 and (length <= 1 or (step > 0 and step * size % _UNIT == 0)):
        return "mn", step if length > 1 else -(-lines * size // _UNIT) * _UNIT // size
    return "", 0


def described(name: str, As: Any, Bs: Any, Cs: Any) -> Lists | None:
    """The products, None for none at all; ArgumentError for lists and matrices that do not fit."""
    for letter, Xs in (("A", As), ("B", Bs), ("C", Cs)):
        if not isinstance(Xs, (list, tuple)):
            raise mo.ArgumentError(f"{name}: without offsets A, B and C are lists of matrices, and {letter} is a "
                                   f"{type(Xs).__name__}", hint="stacked matrices take offsets, where groups begin")
    if not len(As) == len(Bs) == len(Cs):
        raise mo.ArgumentError(f"{name}: {len(As)} matrices A, {len(Bs)} B and {len(Cs)} C are not as many of each")
    if not As:
        return None
    try:
        places, first = _described(As, Bs, Cs)
        fit = _fit(places, first)
    except (mo.ArgumentError, AttributeError, ValueError, RuntimeError):    # no arrays that moye takes, no matrices
        fit = False
    if not fit:                                         # or one that cannot be told to fit so soon
        _require_each(name, As, Bs, Cs)
        places, first = _described(As, Bs, Cs)
    check_dtypes(name, *first)
    return Lists(places, first, Cs[0])


def _described(*lists: Sequence[Any]) -> tuple[Places, tuple[Any, Any, Any]]:
    """Where all matrices lie, and what the first ones are; ValueError where others of a list are something else."""
    a, b, c = (mo.describe(Xs[0]) for Xs in lists)
    of_A, of_B, of_C = (_places(Xs, x) for Xs, x in zip(lists, (a, b, c), strict=True))
    return (of_A, of_B, of_C), (a, b, c)


def _places(Xs: Sequence[Any], first: Any) -> list[Place]:
    cls = type(Xs[0])
    if first.kind == "torch" and all(type(x) is cls for x in Xs):           # in half of the time
        dtype, device = Xs[0].dtype, Xs[0].get_device()
        if not all(x.dtype is dtype and x.get_device() == device and not x.is_neg() for x in Xs):
            raise ValueError
        return [(x.data_ptr(), x.shape, x.stride()) for x in Xs]
    infos: list[Any] = [mo.describe(x) for x in Xs]
    if not all(x.dtype is first.dtype and x.device == first.device and x.writable >= first.writable for x in infos):
        raise ValueError
    return [(x.ptr, x.shape, x.strides) for x in infos]


def _fit(places: Places, first: tuple[Any, Any, Any]) -> bool:
    """Whether extents fit, no stride is negative, and each C is memory of its own that may be written."""
    for (_, (M, K), steps_A), (_, (N, depth), steps_B), (_, shape, steps_C) in zip(*places, strict=True):
        if depth != K or shape != (M, N) or min(*steps_A, *steps_B, *steps_C) < 0:
            return False
    a, b, c = first
    return bool(a.device == b.device == c.device and c.writable and (c.kind == "spec" or _apart(places, first)))


def _apart(places: Places, first: tuple[Any, Any, Any]) -> bool:
    """Whether the memory from the first to the last element of each C is apart from that of every other matrix."""
    sizes = [x.dtype.bytes for x in first]
    of_A, of_B, of_C = ([_span(place, size) for place in every] for every, size in zip(places, sizes, strict=True))
    written = sorted(of_C)
    if any(end > begin for (_, end), (begin, _) in itertools.pairwise(written)):
        return False
    ends = [end for _, end in written]
    for begin, end in {*of_A, *of_B}:
        at = bisect.bisect_right(ends, begin)           # the first C that ends behind where this one begins
        if at < len(ends) and written[at][0] < end:
            return False
    return True


def _span(place: Place, size: int) -> tuple[int, int]:
    """Where the memory of a matrix begins and ends, in bytes."""
    ptr, (rows, columns), (down, along) = place
    return ptr, ptr + ((rows - 1) * down + (columns - 1) * along + 1) * size if rows and columns else ptr


# --- one after the other ---------------------------------------------------------------------------------------------


def _require_each(name: str, As: Sequence[Any], Bs: Sequence[Any], Cs: Sequence[Any]) -> None:
    """ArgumentError for the first product that does not fit, or has memory in common with another one."""
    products: list[tuple[Any, Any, Any]] = []
    for i, (A, B, C) in enumerate(zip(As, Bs, Cs, strict=True)):
        a, b, c = matrices(f"{name}, product {i}", A, B, C)
        check_dtypes(f"{name}, product {i}", a, b, c)
        same_problem(f"{name}, product {i}", a, b, c)
        products.append((a, b, c))
        for letter, x, first in zip("ABC", products[-1], products[0], strict=True):
            if x.dtype != first.dtype or x.device != first.device:
                raise mo.ArgumentError(f"{name}, product {i}: {letter} is {x.dtype} on {_place(x)}, and that of "
                                       f"product 0 {first.dtype} on {_place(first)}")
    _require_apart(name, products)


def _place(info: Any) -> str:
    return "the host" if info.device is None else f"cuda:{info.device}"


def _require_apart(name: str, products: list[tuple[Any, Any, Any]]) -> None:
    """ArgumentError for a C that has memory in common with any other matrix: neighbours by their addresses."""
    spans = sorted((x.ptr, i, letter, x) for i, product in enumerate(products)
                   for letter, x in zip("ABC", product, strict=True) if 0 not in x.shape)
    reach: list[tuple[int, int, str, Any]] = []         # those before that reach beyond the beginning of this one
    for begin, i, letter, x in spans:
        reach = [other for other in reach if other[0] > begin]
        for _, j, other_letter, other in reach:
            if "C" in (letter, other_letter):
                written, read = ((i, x), (j, other_letter, other)) if letter == "C" else ((j, other), (i, letter, x))
                apart(f"{name}, product {written[0]}", f"{read[1]} of product {read[0]}", read[2], written[1])
        reach.append((_span(x[:3], x.dtype.bytes)[1], i, letter, x))
