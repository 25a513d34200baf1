"""What host functions of row kernels ask of arrays: rows merged where strides allow it, shapes, dtypes, alignment.

In: arrays of any library.  Out: the same as matrices (rows, columns) where they can be viewed so, and a plan for them.

    given = Rows("rms_norm", x=x); given.like(out=out, residual=residual); plan = given.plan()

Arrays whose rows have no single stride are passed as they are; the kernel groups their modes (``parts.as_rows``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import moye as mo
from moye.kernels.options import shown
from moye.kernels.rows.plan import AHEAD, RowPlan, Shape, row_plan, stages_of, widest
from moye.kernels.views import FLOATS, described, has_clusters, info_of, outputs

VIEWED = ("numpy", "torch", "cupy", "spec")
"""The kinds of arrays whose modes are merged here; of others the kernel groups them."""


def one_stride(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The distance of neighbours if these modes are merged into one, the last going fastest; None if they cannot be."""
    kept = [(n, step) for n, step in zip(shape, strides, strict=True) if n > 1]
    if any(step != below * n for (_, step), (n, below) in itertools.pairwise(kept)):
        return None
    return kept[-1][1] if kept else 0


def _pitches(info: Any) -> list[int]:
    """The distances of the rows of an array in elements: one if its modes can be merged, none of a single row."""
    mine = [step for n, step in zip(info.shape[:-1], info.strides[:-1], strict=True) if n > 1]
    pitch = one_stride(info.shape[:-1], info.strides[:-1]) if info.kind in VIEWED or len(mine) <= 1 else None
    return mine if pitch is None else [pitch] * (len(mine) > 0)


def merged(x: Any, info: Any) -> Any:
    """A view with all modes but the last merged into one, if their strides allow it; else ``x`` itself."""
    pitch = one_stride(info.shape[:-1], info.strides[:-1])
    if len(info.shape) <= 2 or 0 in info.shape or info.kind not in VIEWED or pitch is None:
        return x
    rows, columns = math.prod(info.shape[:-1]), info.shape[-1]
    if info.kind == "spec":
        return replace(x, shape=(rows, columns), strides=(pitch, info.strides[-1]))
    return x.reshape(rows, columns)


def merged_column(x: Any, info: Any) -> Any:
    """The same of an array of one number a row: all modes merged into one."""
    step = one_stride(info.shape, info.strides)
    if len(info.shape) <= 1 or 0 in info.shape or info.kind not in VIEWED or step is None:
        return x
    if info.kind == "spec":
        return replace(x, shape=(math.prod(info.shape),), strides=(step,))
    return x.reshape(-1)


def in_memory(what: str, written: dict[str, Any], read: dict[str, Any], in_place: Sequence[str]) -> None:
    """ArgumentError for outputs that cannot be written, or share memory with others, but where they may be an input."""
    outputs(what, *({name: info_of(what, name, x) for name, x in arrays.items() if x is not None}
                    for arrays in (written, read)), in_place=in_place)


def beside(plan: RowPlan, dtype: Any, arrays: int, *vectors: Any, sums: int = 0) -> tuple[RowPlan, bool | None]:
    """Where weights (or None) stay from row to row: (the plan beside them, False in registers, True in shared memory,
    None where the caller has them).

    ``arrays`` of such a dtype come by bulk copies, and threads keep ``sums`` for each column.  Where registers have no
    room, shared memory may: for rows that begin anywhere, whose weights a thread reads one by one, and for others that
    lie there, too, if it leaves two of them their room.
    """
    kinds = [info_of("weights", "weight", x).dtype for x in vectors if x is not None]
    if plan.keeps([kind.bits for kind in kinds], sums):
        return plan, False
    if plan.streamed or plan.rows > 1 or not (plan.shifted or plan.stages):     # rows side by side begin otherwise
        return plan, None
    size, stage = (plan.lanes * plan.width * n for n in (plan.rounds * sum(kind.bytes for kind in kinds),
                                                         dtype.bytes * arrays))
    left = (AHEAD // plan.resident - size) // stage
    least = 0 if not plan.stages else plan.rounds if plan.shifted else 2 * plan.rounds
    return (replace(plan, stages=min(plan.stages, stages_of(plan, left))), True) if left >= least else (plan, None)


@dataclass
class Rows:
    """The arrays of a call.  ``x`` gives the shape; ``what`` is the function's name in errors."""

    what: str
    x: Any
    name: str = "x"
    dtypes: Sequence[Any] = FLOATS
    info: Any = None
    infos: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.info = described(self.what, self.name, self.x, self.dtypes)
        if not self.info.shape:
            raise mo.ArgumentError(f"{self.what}: {self.name} is a single number, and must have rows")
        self.infos = [self.info]

    @property
    def columns(self) -> int:
        return int(self.info.shape[-1])

    @property
    def rows(self) -> int:
        return math.prod(self.info.shape[:-1])

    @property
    def matrix(self) -> Any:
        """``x`` as (rows, columns) if its strides allow it."""
        return merged(self.x, self.info)

    def alike(self, name: str, x: Any, dtypes: Sequence[Any] = FLOATS, *, needed: bool = False) -> Any:
        """An array of the shape of ``x``, as a matrix; None stays None, or is refused."""
        if x is None and not needed:
            return None
        info = self._checked(name, x, dtypes, self.info.shape)
        self.infos.append(info)
        return merged(x, info)

    def of_columns(self, name: str, x: Any, dtypes: Sequence[Any] = FLOATS) -> Any:
        """An array of one number a column; None stays None."""
        if x is not None:
            self._checked(name, x, dtypes, (self.columns,))
        return x

    def of_rows(self, name: str, x: Any, dtypes: Sequence[Any] = (mo.float32, mo.float64), *,
                needed: bool = False) -> Any:
        """An array of one number a row, shaped as ``x`` without its last mode; None stays None, or is refused."""
        if x is None and not needed:
            return None
        return merged_column(x, self._checked(name, x, dtypes, self.info.shape[:-1]))

    def of_blocks(self, name: str, x: Any, block: int) -> Any:
        """A float32 array of one number for each ``block`` columns of each row, as a matrix."""
        shape = (*self.info.shape[:-1], -(-self.columns // block))
        return merged(x, self._checked(name, x, (mo.float32,), shape))

    def _checked(self, name: str, x: Any, dtypes: Sequence[Any], shape: Sequence[int]) -> Any:
        info = described(self.what, name, x, dtypes)
        if tuple(info.shape) != tuple(shape):
            raise mo.ArgumentError(f"{self.what}: {name} has shape {tuple(info.shape)}, and must have {tuple(shape)}, "
                                   f"as {self.name} has {tuple(self.info.shape)}")
        if info.device != self.info.device and "spec" not in (info.kind, self.info.kind):
            raise mo.ArgumentError(f"{self.what}: {name} lies on device {info.device}, and {self.name} on "
                                   f"{self.info.device}")
        return info

    def plan(self, *, held: int = 1, sums: int = 0, block: int | None = None, passed: bool = False,
             alone: bool = False, ahead: int = 0, brought: int = 0) -> RowPlan:
        """The plan for these rows: as wide as all arrays of their shape allow.

        ``held``: so many arrays of rows at a time; ``sums``: and so many sums over rows for each column.  ``block``:
        so many columns belong together, by whole vectors that the lanes of a warp share.  ``passed``: nobody holds a
        row; ``alone``: or keeps anything between rows.  ``ahead``: long rows may come by bulk copies, to so many blocks
        of a multiprocessor; ``brought``: so many arrays, if not those that are held.
        """
        bits = self.info.dtype.bits
        width, shifted = self._width()
        masked = block is not None and (shifted or self.columns % width != 0 or 32 * width < block)
        if masked:
            width, shifted = max(128 // bits, (block or 0) // 32), False
        shape = Shape(self.rows, self.columns, bits, width, shifted, masked, held, sums, passed, alone,
                      ahead, brought, 1 if block is None else max(1, block // 32))
        wanted = {"multiprocessors": self.multiprocessors, "clusters": has_clusters(self.x)}
        found = row_plan(shape, **wanted)
        if found.stages and not shifted and self._alone_at(width):
            return row_plan(replace(shape, shifted=True), **wanted)
        return found

    def _alone_at(self, width: int) -> bool:
        """Whether there is one row alone, which says nothing of where a second one would begin: no promise holds that
        rows begin with vectors of ``width``, as bulk copies want it."""
        steps = [self.columns, *(step for info in self.infos for step in info.strides[:-1])]
        return self.rows == 1 and any(step % width for step in steps)

    def bulky(self, *arrays: Any) -> bool:
        """Whether whole vectors of ``x`` are whole vectors of these arrays, too, so that bulk copies may bring all."""
        return all(described(self.what, self.name, x, FLOATS).dtype.bits >= self.info.dtype.bits
                   for x in arrays if x is not None)

    def checked(self, plan: Any, *brought: Any) -> RowPlan | None:
        """A plan that is given in the rule's place, or None; ArgumentError for one that these arrays cannot have.

        ``brought``: arrays (or None) that bulk copies bring beside this one, where the plan has stages.
        """
        if plan is not None and not isinstance(plan, RowPlan):
            raise mo.ArgumentError(f"{self.what}: plan={shown(plan)} is neither a RowPlan nor None")
        if plan is not None and self.columns and (fault := plan.fault(self.columns) or self._fault(plan)):
            raise mo.ArgumentError(f"{self.what}: {plan} {fault}", hint="plan=None takes the rule's")
        if plan is not None and plan.stages and not self.bulky(*brought):
            raise mo.ArgumentError(f"{self.what}: stages={plan.stages}: bulk copies bring 16 bytes of {self.name} and "
                                   "more, which are fewer of an array of smaller elements",
                                   hint="plan=None takes the rule's")
        return plan

    def _fault(self, plan: RowPlan) -> str:
        """Why rows that lie like these cannot have a plan, in a few words; "" if they can."""
        if not (plan.shifted or plan.stages):
            return ""
        kind = f"stages={plan.stages}" if plan.stages else "shifted=True"
        if self.columns > 1 and any(info.strides[-1] != 1 for info in self.infos):
            return f"{kind}: elements of a row are no neighbours in memory"
        pitches = [(info, _pitches(info)) for info in self.infos]
        if plan.shifted and (any(len(found) > 1 for _, found in pitches)
                             or len({p % plan.width for _, found in pitches for p in found}) > 1):
            return f"{kind}: rows of the arrays do not begin alike, modulo {plan.width} elements"
        if plan.stages and (plan.width * self.info.dtype.bytes % 16 or (not plan.shifted and any(
                info.ptr % min(16, plan.width * info.dtype.bytes) or any(p % plan.width for p in found)
                for info, found in pitches))):
            return f"{kind}: vectors of {plan.width} do not begin at multiples of 16 bytes, and bulk copies bring such"
        return ""

    def grid(self, plan: RowPlan) -> int:
        """The blocks of a persistent grid; of clusters as many as the device holds, as one more takes a turn more."""
        clusters = mo.resident_clusters(self.info, plan.cluster) if plan.cluster > 1 else 0
        most = plan.resident * clusters * plan.cluster or None
        return plan.blocks(self.rows, self.multiprocessors, most=most)

    def _width(self) -> tuple[int, bool]:
        """The widest access that begins at whole vectors in all arrays, and whether rows are shifted."""
        alike = True
        starts: list[int] = []
        pitches: list[int] = []
        for info in self.infos:
            if info.strides[-1] != 1 and self.columns > 1:
                return 1, False
            starts.append(info.ptr % 16 // info.dtype.bytes)
            found = _pitches(info)
            alike = alike and len(found) <= 1 and (len(info.shape) <= 2 or info.kind in VIEWED)
            pitches += found
        return widest(self.info.dtype.bits, tuple(starts), tuple(pitches), alike=alike)

    @property
    def multiprocessors(self) -> int:
        return mo.multiprocessors(self.info)
