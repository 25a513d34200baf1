"""Sums, extrema, norms and their kind over any axes of an array.

In: an array, and the axes to reduce (all without them).  Out: an array of the other axes.

    reduce(out, x, "sum", axis=1)               # out[i] = x[i, :].sum()
    reduce(out, x, "argmax", axis=-1)           # int32 or int64, the lowest index of equals
    reduce(out, x, "logsumexp", axis=(0, 2))

Each element is read once.  There are no atomics: what several blocks share goes through memory to a second kernel, in
an order that the shape fixes, so each run gives the same bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels import maps, views
from moye.kernels.folds import FOLDS, LAST, Fold, State
from moye.kernels.loads import in_flight
from moye.kernels.maps import coordinate
from moye.kernels.options import shown
from moye.kernels.workspace import empty

THREADS = 256
_FEW = 64
"""Blocks that share an output, up to which eight threads join what they leave."""
_BLOCKS = 8
"""Blocks of 256 threads that fill a multiprocessor."""
_FILL = _BLOCKS * THREADS
"""Threads that fill a multiprocessor."""
_SINGLES = 4 * THREADS
"""Elements of the longest row that goes element by element."""
_ONE_LAUNCH = 12
"""Vectors of a thread down columns up to which it is no slower than a second launch."""
_SEGMENT = 128
"""Bytes of a row of x that a block reads at least, where outputs lie side by side."""
_TINY = 1 << 17
"""Bytes of x up to which blocks read a quarter of that, in vectors of 4 bytes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``width``: elements of a vector; ``each``: vectors that a thread has on their way; ``whole``: whether vectors
    divide the lines; ``lanes``: threads of an output, or along the outputs where these are contiguous; ``splits``:
    blocks that share an output; ``modes``: how many modes are reduced; ``rising``: a thread meets rising indices;
    ``shifted``: rows begin anywhere, and vectors count from the multiple of 16 bytes in front of them; ``gathers``: a
    thread takes in all of its vectors together; ``eager``: a thread has all of its vectors on their way before it waits
    for one, which takes registers where other warps would do as well."""

    fold: Fold
    width: int
    each: int
    whole: bool
    lanes: int
    splits: int
    modes: int
    compute: Any
    rising: bool = False
    shifted: bool = False
    gathers: bool = False
    eager: bool = False

    @property
    def states(self) -> int:
        """How many states a thread has, side by side."""
        return 1 if self.gathers else self.width


def make_plan(fold: Fold, reduced: Sequence[views.Mode], kept: Sequence[views.Mode], info: Any, rows: bool) -> Plan:
    """The rule.  Vectors of 16 bytes along the contiguous mode, four of them (or two) on their way in each thread.

    Where it is reduced (``rows``), as many lanes of a warp take an output as have four vectors each, and a whole block
    from 256 vectors on, or where rows are few and a warp had more than it asks for at once; few short rows that begin
    anywhere go element by element.  Else a block has 32 vectors of
    outputs side by side, and eight threads one below the other; fewer side by side, down to 128 bytes, where outputs
    are few.  Where this makes fewer blocks than fill the device, several share an output, with at least 16 vectors a
    thread.
    """
    gathers = rows and fold.gather is not None
    each = 4 if gathers else 4 // len(fold.parts)         # states of two parts are longer to join, and take registers
    place = _along(reduced, kept, info, each) if rows else _down(reduced, kept, info)
    room = _BLOCKS * mo.multiprocessors(info)
    blocks, most = place.blocks, place.vectors // place.share
    splits = max(1, min(room // max(blocks, 1), most, 1 << 12)) if blocks < room // 2 else 1
    whole = (reduced if rows else kept)[0].extent % place.width == 0 and not place.shifted
    rising = [m.strides[1] for m in reduced]
    compute = mo.float64 if info.dtype is mo.float64 else mo.float32
    eager = blocks * splits <= room // 2 or \
        (not rows and place.width > 1 and (fold.adds or len(fold.parts) > 1))   # which takes no more registers there
    return Plan(fold, place.width, each, whole, place.lanes, splits, len(reduced), compute, rising == sorted(rising),
                place.shifted, gathers, eager)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where threads work: the ``vectors`` of an output, of which a block has ``share`` at least if several blocks have
    some, and the ``blocks`` if none do; the rest as in ``Plan``."""

    width: int
    lanes: int
    vectors: int
    share: int
    blocks: int
    shifted: bool = False


def _widest(contiguous: Sequence[views.Mode], others: Sequence[views.Mode], info: Any) -> int:
    """Elements of a vector along the first mode."""
    modes = (contiguous[0], *contiguous[1:], *others)
    return views.width_of([views.Mode(m.extent, m.strides[:1]) for m in modes], info)


def _along(reduced: Sequence[views.Mode], kept: Sequence[views.Mode], info: Any, each: int) -> _Place:
    """Where the contiguous mode is reduced; a thread asks for ``each`` vectors at once."""
    outputs, elements = (math.prod(m.extent for m in modes) for modes in (kept, reduced))
    width, full = _widest(reduced, kept, info), 16 // info.dtype.bytes
    few = elements <= _SINGLES and outputs * THREADS <= _FILL * mo.multiprocessors(info)
    shifted = len(reduced) == 1 and width < full <= elements // 4 and reduced[0].strides[0] == 1 and not few
    width = full if shifted else width
    vectors = -(-elements // width)
    wide = vectors >= 256 or (outputs <= mo.multiprocessors(info) and vectors > 32 * each)
    lanes = THREADS if wide else min(32, 1 << max(0, -(-vectors // 4) - 1).bit_length())
    return _Place(width, lanes, vectors, lanes * 16, -(-outputs * lanes // THREADS), shifted)


def _down(reduced: Sequence[views.Mode], kept: Sequence[views.Mode], info: Any) -> _Place:
    """Where the contiguous mode stays.  Of few outputs no vector is left in part, and tiny arrays go in vectors of four
    bytes: as few instructions as may be."""
    outputs, elements = (math.prod(m.extent for m in modes) for modes in (kept, reduced))
    width, segment, multiprocessors = _widest(kept, reduced, info), _SEGMENT, mo.multiprocessors(info)
    if outputs <= _FILL:
        width = math.gcd(width, kept[0].extent)
    if outputs * elements * info.dtype.bytes <= _TINY and elements <= 32 * _ONE_LAUNCH:
        width, segment = math.gcd(width, max(1, 4 // info.dtype.bytes)), _SEGMENT // 4
    lanes = _side_by_side(outputs, elements, width, segment // info.dtype.bytes, multiprocessors)
    below, blocks = THREADS // lanes, -(-outputs // (width * lanes))
    share = below * 16
    if blocks * max(1, elements // share) < multiprocessors:
        share = max(1, elements) if elements <= below * _ONE_LAUNCH else share // 4
    return _Place(width, lanes, elements, share, blocks)


def _side_by_side(outputs: int, elements: int, width: int, segment: int, multiprocessors: int) -> int:
    """Vectors of outputs that a block has side by side: ``segment`` elements at least, and so many that a warp or less
    joins what was found of one."""
    lanes, least = 32, max(1, segment // width, THREADS // 32 // width)
    while lanes > least and -(-outputs // (width * lanes)) * max(1, elements // (THREADS // lanes * 16)) \
            < 2 * multiprocessors:
        lanes //= 2
    return lanes


@mo.jit
def begun(plan, width):
    """The state before the first element, a register tensor (width) of each part."""
    none = mo.fragment((width,), plan.compute), mo.fragment((width,), mo.int32)
    none[0].fill(plan.fold.fill)
    none[1].fill(LAST)
    state = plan.fold.take(*none)
    if plan.fold.indexed:                               # below all elements, infinities among them
        state[0].fill(-(1 << (state[0].dtype.bits - 1)))
    return state


@mo.jit
def take_in(plan, state, x, weights, places):
    """The state of this thread with vectors: ``places`` are (coordinate of a vector, whether it is there)."""
    held = read(plan, x, places)
    if plan.eager:
        in_flight(*[part for _, _, part, _ in held])
    if plan.gathers:
        joined = plan.fold.gather(tuple(old[0] for old in state), [part.to(plan.compute) for _, _, part, _ in held])
        for old, new in zip(state, joined, strict=True):
            old[0] = new
    else:
        take_each(plan, state, weights, held)


@mo.jit
def read(plan, x, places):
    """(coordinate, elements in front of the row, vector, room for its indices) of each place."""
    held = []
    for at, there in places:
        extent, inside, lead = (mo.size(x, 0),), there, 0
        line, columns = x[:, *at[1:]], mo.identity_tensor(extent)                                           # (n)
        if plan.shifted:
            lead = mo.misalignment(line)
            line, columns = mo.with_lead(line, lead), mo.with_lead(columns, lead)                           # (lead + n)
        if not plan.whole:
            inside = mo.inside(mo.tile(columns, (plan.width,), at[:1], ragged=True), extent) & there
        part, index = mo.fragment((plan.width,), x.dtype), mo.fragment((plan.width,), mo.int32)             # (width)
        mo.copyto(part, mo.tile(line, (plan.width,), at[:1], ragged=True), pred=inside, other=plan.fold.fill)
        held.append((at, lead, part, index))
    return held


@mo.jit
def take_each(plan, state, weights, held):
    """The state, register tensors, with vectors one after the other."""
    for at, lead, part, index in held:
        if plan.fold.indexed:
            place = (at[0] * plan.width - lead) * weights[0]    # index 0 comes before those of what is not there
            for i in mo.static_range(1, len(weights)):
                place = place + at[i] * weights[i]
            for j in mo.static_range(plan.width):
                index[j] = mo.int32(place + j * weights[0])
            if plan.shifted:                            # nothing comes before index 0
                index[...] = mo.where(index < 0, LAST, index)
        join = plan.fold.follow if plan.rising and plan.fold.follow is not None else plan.fold.join
        joined = join(state, plan.fold.take(part.to(plan.compute), index))
        for old, new in zip(state, joined, strict=True):
            old[...] = new


@mo.jit
def join_lanes(plan, state, lanes):
    """A state of scalars joined over so many neighbouring lanes; all of them have the result."""
    step = lanes // 2
    while step:
        state = plan.fold.join(state, tuple(mo.shuffle_xor(part, step) for part in state))
        step //= 2
    return state


@mo.jit
def write(plan, outs, at, state, count):
    """The result, or the state if other blocks have a share in it; scalars or register tensors at a coordinate."""
    results = plan.fold.finish(state, count) if plan.splits == 1 else state
    for out, result in zip(outs, results, strict=True):
        out[at] = result.to(out.dtype)


@mo.kernel
def rows_kernel(outs, x, weights, count, plan: mo.Constexpr):
    """outs (*kept, splits) = x (*reduced, *kept), whose first mode is contiguous; ``lanes`` threads an output."""
    tid, split, lanes = mo.thread_idx().x, mo.block_idx().y, plan.lanes
    mo.griddepcontrol_launch_dependents()
    reduced, kept = mo.shape(x)[:plan.modes], mo.shape(x)[plan.modes:]
    before = plan.width - 1 if plan.shifted else 0      # elements at most that lie in front of a row
    parts = (mo.ceil_div(reduced[0] + before, plan.width), *reduced[1:])
    vectors = parts[0]
    for n in parts[1:]:
        vectors = vectors * n
    row = coordinate(mo.block_idx().x * (THREADS // lanes) + tid // lanes, kept)
    alive, state = row[-1] < kept[-1], begun(plan, plan.states)
    share = mo.ceil_div(vectors, mo.grid_dim().y if plan.splits > 1 else 1)
    end = mo.min(share * (split + 1), vectors)
    for t in mo.range(split * share + tid % lanes, end, lanes * plan.each):
        places = []
        for j in mo.static_range(plan.each):
            places.append(((*coordinate(t + j * lanes, parts), *row), alive & (t + j * lanes < end)))
        take_in(plan, state, x, weights, places)
    mine = tuple(part[0] for part in state)
    for j in mo.static_range(1, plan.states):
        mine = plan.fold.join(mine, tuple(part[j] for part in state))
    mine = join_lanes(plan, mine, mo.min(lanes, 32))
    if lanes > 32:
        scratch = [mo.shared_array(dtype, lanes // 32) for dtype in plan.fold.dtypes(plan.compute)]
        if tid % 32 == 0:
            for room, part in zip(scratch, mine, strict=True):
                room[tid // 32] = part
        mo.sync_threads()
        mine = tuple(room[tid % (lanes // 32)] for room in scratch)
        mine = join_lanes(plan, mine, lanes // 32)
    if alive and tid % lanes == 0:
        write(plan, outs, (*row, split), mine, count)


@mo.kernel
def columns_kernel(outs, x, weights, count, plan: mo.Constexpr):
    """outs (*kept, splits) = x (*kept, *reduced), whose first mode is contiguous; a vector of outputs a thread."""
    lanes, below, split = plan.lanes, THREADS // plan.lanes, mo.block_idx().y
    mo.griddepcontrol_launch_dependents()
    i, j, w = mo.thread_idx().x % lanes, mo.thread_idx().x // lanes, plan.width
    kept, reduced = mo.shape(x)[:-plan.modes], mo.shape(x)[-plan.modes:]
    parts, elements = (mo.ceil_div(kept[0], w), *kept[1:]), reduced[0]
    for n in reduced[1:]:
        elements = elements * n
    column = coordinate(mo.block_idx().x * lanes + i, parts)
    alive, state = column[-1] < parts[-1], begun(plan, plan.states)
    chunk = mo.ceil_div(elements, mo.grid_dim().y if plan.splits > 1 else 1)
    end = mo.min(chunk * (split + 1), elements)
    for t in mo.range(split * chunk + j, end, below * plan.each):
        places = []
        for k in mo.static_range(plan.each):
            places.append(((*column, *coordinate(t + k * below, reduced)), alive & (t + k * below < end)))
        take_in(plan, state, x, weights, places)
    shares = max(1, THREADS // (lanes * w))             # threads that join what was found of an output
    apart = mo.make_layout((lanes, w, below), (1, lanes, lanes * w + (lanes if shares > 1 else 0)))
    rooms = [mo.shared_array(dtype, apart) for dtype in plan.fold.dtypes(plan.compute)]
    for room, part in zip(rooms, state, strict=True):
        for k in mo.static_range(w):
            room[i, k, j] = part[k]
    mo.sync_threads()
    share, first = mo.thread_idx().x % shares, mo.thread_idx().x // shares
    for turn in mo.static_range(max(1, lanes * w // THREADS)):
        i, k = (first + turn * THREADS) % lanes, (first + turn * THREADS) // lanes
        column = coordinate(mo.block_idx().x * lanes + i, parts)
        mine = tuple(room[i, k, share] for room in rooms)
        for row in mo.static_range(shares, below, shares):
            mine = plan.fold.join(mine, tuple(room[i, k, row + share] for room in rooms))
        mine = join_lanes(plan, mine, shares)
        if share == 0 and column[-1] < parts[-1] and column[0] * w + k < kept[0]:
            write(plan, outs, (column[0] * w + k, *column[1:], split), mine, count)


@mo.kernel
def join_kernel(outs, states, count, plan: mo.Constexpr):
    """outs (*kept, 1) = what the blocks left in states (*kept, splits); ``lanes`` outputs a block, 1 or 32."""
    tid, kept, warps, splits = mo.thread_idx().x, mo.shape(states[0])[:-1], THREADS // 32, mo.shape(states[0])[-1]
    i, slot, slots = tid % plan.lanes, tid // plan.lanes, THREADS // plan.lanes
    row = coordinate(mo.block_idx().x * plan.lanes + i, kept)
    mine = tuple(part[0] for part in begun(plan, 1))
    rooms = [mo.shared_array(part.dtype, mo.make_layout((plan.lanes, warps))) for part in states]
    mo.griddepcontrol_wait()
    if row[-1] < kept[-1]:
        for t in mo.range(slot, splits, slots, unroll=4):
            mine = plan.fold.join(mine, tuple(part[(*row, t)] for part in states))
    if plan.lanes == 1:
        mine = join_lanes(plan, mine, 32)
    if plan.lanes > 1 or tid % 32 == 0:
        for room, part in zip(rooms, mine, strict=True):
            room[i, tid // 32] = part
    mo.sync_threads()
    if tid < plan.lanes and row[-1] < kept[-1]:
        mine = tuple(room[i, 0] for room in rooms)
        for warp in mo.static_range(1, warps):
            mine = plan.fold.join(mine, tuple(room[i, warp] for room in rooms))
        write(plan, outs, (*row, 0), mine, count)


# --- host ------------------------------------------------------------------------------------------------------------


def reduce(out: Any, x: Any, kind: str = "sum", *, axis: int | Sequence[int] | None = None) -> None:
    """out = x reduced over an axis, several, or all of them.

    ``kind`` is sum, mean, max, min, norm1, norm2, norminf, logsumexp, argmax or argmin.  ``out`` has the other axes of
    x in their order; axes of extent 1 may stand for the reduced ones.  x may have any strides.  Sums are in float32, or
    float64 for float64, and are rounded to out's dtype once.  NaN in x is the extremum, as in PyTorch.  argmax and
    argmin take one axis or all (the index then counts in C order), write int32 or int64, and of equals take the lowest
    index.  Over no elements, sums and norms are 0, mean is NaN, logsumexp is -inf; the others are refused.
    """
    if not isinstance(kind, str) or kind not in FOLDS:
        raise mo.ArgumentError(f"reduce: kind {shown(kind)} is none of {', '.join(FOLDS)}")
    given = () if axis is None else views.axes_given("reduce", axis)
    if axis is not None and not given:
        raise mo.ArgumentError(f"reduce: axis {shown(axis)} names no axis", hint="axis=None stands for all of them")
    _reduce(out, x, kind, *given)


@mo.replayed
def _reduce(out: Any, x: Any, kind: str, *given: int) -> None:
    fold = FOLDS[kind]
    a = views.described("reduce", "x", x)
    o = views.described("reduce", "out", out, (mo.int32, mo.int64) if fold.indexed else views.FLOATS)
    rank = len(a.shape)
    axes = _axes(given or range(rank), rank, fold)
    rest = [i for i in range(rank) if i not in axes]
    strides = _strides(a, o, axes, rest)
    views.outputs("reduce", {"out": o}, {"x": a})
    views.together("reduce", out=o, x=a)
    count = math.prod(a.shape[i] for i in axes)
    if count == 0 and kind in ("max", "min", "argmax", "argmin") and 0 not in o.shape:
        raise mo.ArgumentError(f"reduce: {kind} of no elements: x has shape {tuple(a.shape)}")
    if 0 in o.shape:
        return
    if count == 1:
        modes = [views.Mode(a.shape[i], (s, a.strides[i])) for i, s in zip(rest, strides, strict=True)
                 if a.shape[i] != 1]
        maps.launch((out,), (x,), modes, _of_one(kind))
        return
    weights = [math.prod(a.shape[j] for j in axes if j > i) for i in range(rank)]
    reduced = views.merged([views.Mode(a.shape[i], (a.strides[i], weights[i])) for i in axes if a.shape[i] != 1])
    kept = views.merged([views.Mode(a.shape[i], (a.strides[i], s)) for i, s in zip(rest, strides, strict=True)
                         if a.shape[i] != 1])
    rows = bool(reduced) and (not kept or reduced[0].strides[0] <= kept[0].strides[0])
    _launch(fold, out, x, reduced or [views.Mode(1, (0, 0))], kept or [views.Mode(1, (0, 0))], count, rows)


@functools.lru_cache(maxsize=16)
def _of_one(kind: str) -> Callable[[Any], State]:
    """What a reduction of one element is."""
    fold = FOLDS[kind]

    def one(x: Any) -> State:
        if fold.indexed:
            return (mo.where(x == x, mo.int32(0), mo.int32(0)),)
        return fold.finish(fold.take(x, None), 1)
    return one


def _axes(given: Sequence[int], rank: int, fold: Fold) -> list[int]:
    axes = sorted(views.axis_of("reduce", i, rank) for i in given)
    if len(set(axes)) < len(axes):
        raise mo.ArgumentError(f"reduce: axis {tuple(given)} names an axis twice")
    if fold.indexed and len(axes) not in (1, rank):
        raise mo.ArgumentError(f"reduce: {fold.name} takes one axis or all of them, not {tuple(axes)}")
    return axes


def _strides(a: Any, o: Any, axes: Sequence[int], rest: Sequence[int]) -> list[int]:
    """The strides of out along the axes that stay, with or without axes of extent 1 for the others."""
    shape = tuple(a.shape[i] for i in rest)
    if tuple(o.shape) == shape:
        return list(o.strides)
    if tuple(o.shape) == tuple(1 if i in axes else n for i, n in enumerate(a.shape)):
        return [o.strides[i] for i in rest]
    raise mo.ArgumentError(f"reduce: out has shape {tuple(o.shape)}, and x without axes {tuple(axes)} has "
                           f"{shape}")


def _launch(fold: Fold, out: Any, x: Any, reduced: list[views.Mode], kept: list[views.Mode], count: int,
            rows: bool) -> None:
    if fold.indexed and count > LAST:
        raise mo.ArgumentError(f"reduce: {fold.name} of {count} elements: it counts up to {LAST}")
    plan = make_plan(fold, reduced, kept, mo.describe(x), rows)
    modes = [*reduced, *kept] if rows else [*kept, *reduced]
    weights = tuple(m.strides[1] for m in reduced) if rows else (0,) * len(kept) + tuple(m.strides[1] for m in reduced)
    seen = views.strided(x, tuple(m.extent for m in modes), tuple(m.strides[0] for m in modes))
    extents = tuple(m.extent for m in kept)
    result = views.strided(out, (*extents, 1), (*(m.strides[1] for m in kept), 0))
    if rows:
        blocks = -(-math.prod(extents) * plan.lanes // THREADS)
    else:
        blocks = -(-(-(-extents[0] // plan.width) * math.prod(extents[1:])) // plan.lanes)
    rooms = (result,)
    if plan.splits > 1:
        rooms = tuple(empty(out, dtype, (*extents, plan.splits)) for dtype in fold.dtypes(plan.compute))
    kernel = rows_kernel if rows else columns_kernel
    # Kernels are compiled for one split or several; how many, the grid tells.
    kernel[(blocks, plan.splits), THREADS](rooms, seen, weights, count, replace(plan, splits=min(plan.splits, 2)))
    if plan.splits > 1:
        lanes = 32 if plan.splits <= _FEW else 1        # eight threads an output, or a block
        last = Plan(fold, 1, 1, True, lanes, 1, plan.modes, plan.compute)
        join_kernel.launch((result,), rooms, count, last, grid=-(-math.prod(extents) // lanes), block=THREADS,
                           dependent=True)
