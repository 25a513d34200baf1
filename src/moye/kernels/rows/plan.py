"""How threads share rows: a rule of the length of a row and the number of rows, no search.

In: what a row is.  Out: a ``RowPlan``, which kernels take as a constant.

    row_plan(Shape(rows=16384, columns=4096, bits=16))      # a block of 256 threads a row, two vectors of 16 bytes each

docs/rows.md has the rule with its reasons.  This module knows no arrays; rows/arrays.py reads shapes from them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from numbers import Integral

import moye as mo

_WARP = mo.hardware.WARP
_THREADS = 1024
_MANY = 640
"""Threads of a block that does well alone on a multiprocessor."""
_BLOCK = 128
"""Threads of a block that has several rows."""
_SHORT = 128
"""Vectors of the longest row that a warp takes by itself: four for each lane; fewer where several arrays are held."""
_PART = 1 << 15
"""Bytes of rows that a block of a cluster holds, so that a multiprocessor has two; blocks of eight may hold more."""
_SPLIT = 1 << 14
"""Bytes that each block has at least if a row is split because there are few rows."""
_WORDS, _MOST_WORDS = 16, 32
"""Registers of a thread for what it holds of rows: 64 bytes, and up to 128 where a block has no more threads."""
_FEWEST, _SEVERAL = 8, 20
"""Lanes of a row that begins anywhere at least, and registers of a lane for it at most, where such rows are many."""
_MOST_ELEMENTS = 32
"""Elements of a row that a thread holds: computing takes 32 bits or more of each."""
_PASSED = 1 << 12
"""Bytes of the longest row that is held though it could pass."""
_STREAMS = 2048
"""Threads on a multiprocessor through which rows pass: with 32 registers each."""
_BLOCKS = 2
"""Blocks on a multiprocessor through which rows pass, where rows are few: as many share them."""
_KEPT = 16
"""Registers of a thread for weights."""
_ON_THE_WAY = 64
"""Bytes that a thread asks for at once, if rows are short."""
TURN = 4
"""Vectors of a thread that are on their way together where a row is streamed."""
AHEAD = 200 << 10
"""Bytes of rows that a multiprocessor has on their way to shared memory."""
_SINGLE = 4
"""Elements of a thread at most, each of which is read by itself, if rows are few and begin anywhere."""
_FREE = 512
"""Threads of a block that may have 128 registers each."""
_WHOLE = 1 << 16
"""Bytes of a row, of all arrays, in such a block that is alone on a multiprocessor: three fit."""
_TURNS = 2
"""Rows of a block from which on it pays that they come ahead."""
_SUMS = 64
"""Registers of a thread for sums over rows, where it has 128."""
_MOST_ROWS, _MOST_STAGES = 8, 64


_RANGES = (("width", 1, 16), ("lanes", 1, 1 << 16), ("rows", 1, 1 << 16), ("rounds", 1, 1 << 31),
           ("cluster", 1, 1 << 16), ("full", 0, 1 << 31), ("edges", 0, 64), ("at_once", 1, 8), ("resident", 1, 32),
           ("stages", 0, 64))
"""Fields of plans that are numbers, from the least to the greatest."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows as a plan sees them.  ``bits`` are of the widest element that is held; ``held`` so many rows at a time.

    ``width`` elements at most are one access (all strides and addresses allow it).  ``shifted``: rows begin at any
    element, all arrays' rows alike.  ``masked``: every vector has a predicate for each element; no edges apart.
    ``sums``: a thread keeps so many sums over rows for each of its columns, and the next row beside the one that it
    works on.
    ``passed``: one read of a row says all, so that nobody holds it.  ``alone``: nothing is kept between rows.
    ``ahead``: long rows may come by bulk copies, one after the other, to so many blocks of a multiprocessor, 1 or 2; 0
    if not.  ``brought``: so many arrays come so, if they are not the ones that are held.  ``least``: elements of a
    vector at least.
    """

    rows: int
    columns: int
    bits: int
    width: int = 0
    shifted: bool = False
    masked: bool = False
    held: int = 1
    sums: int = 0
    passed: bool = False
    alone: bool = False
    ahead: int = 0
    brought: int = 0
    least: int = 1


@dataclass(frozen=True, slots=True)
class RowPlan:
    """What a kernel of rows is specialised on.

    A row is ``rounds`` vectors of ``width`` elements for each of ``lanes`` threads of each of ``cluster`` blocks; the
    first ``full`` rounds are whole whatever a row's alignment.  ``edges`` elements at most lie beside the vectors, one
    a thread of the cluster's first block.  A block has ``rows`` rows side by side (more than one only if ``lanes`` is
    at most 32), and ``at_once`` of them one behind the other are on their way together.  ``resident`` blocks fit on a
    multiprocessor.  ``streamed``: a row is longer than all registers and is read again; ``rounds`` is then a loop.
    ``stages``: rows come to shared memory by bulk copies, and it has room for so many rounds of them; 0 if not.
    ``eager``: rows are few, so that a thread asks for all that it reads before it waits: no other warp works meanwhile.
    """

    width: int
    lanes: int
    rows: int = 1
    rounds: int = 1
    cluster: int = 1
    full: int = 0
    edges: int = 0
    shifted: bool = False
    masked: bool = False
    at_once: int = 1
    resident: int = 1
    streamed: bool = False
    stages: int = 0
    eager: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * self.rows

    @property
    def warps(self) -> int:
        """Warps of a block that share a row; 1 where a warp has a row or more."""
        return max(1, self.lanes // _WARP)

    @property
    def whole(self) -> bool:
        """Whether every thread has elements in every round, so that no access needs a predicate."""
        return self.full == self.rounds and not self.edges and not self.masked

    def fault(self, columns: int) -> str:
        """Why no kernel can have this plan for rows of so many columns, in a few words; "" if one can."""
        return self._no_numbers() or self._no_blocks() or self._leaves_out(columns)

    def _no_numbers(self) -> str:
        """A field that is not in its range."""
        for name, least, most in _RANGES:
            number = getattr(self, name)
            if not isinstance(number, Integral) or not least <= int(number) <= most:
                return f"{name}={number!r} is no whole number from {least} to {most}"
        return "" if self.width == power(self.width) else f"width={self.width} is no power of two"

    def _no_blocks(self) -> str:
        """Threads or blocks that share no row, or do not do what is asked of them."""
        for holds, why in (
                (self.lanes == power(self.lanes) if self.lanes <= _WARP else self.lanes % _WARP == 0 and self.rows == 1,
                 f"lanes={self.lanes}, rows={self.rows}: a row has a power of two of threads, up to {_WARP}, or whole "
                 "warps of a block of its own"),
                (self.threads <= _THREADS, f"has {self.threads} threads, and a block has at most {_THREADS}"),
                (self.cluster in (1, 2, 4, 8), f"cluster={self.cluster} is none of 1, 2, 4 and 8"),
                (self.cluster == 1 or (self.lanes >= _WARP and self.rows == 1),
                 f"cluster={self.cluster}, lanes={self.lanes}, rows={self.rows}: each block of a cluster has whole "
                 "warps and one row"),
                (not self.masked or not (self.shifted or self.edges),
                 f"masked=True, shifted={self.shifted}, edges={self.edges}: where vectors have predicates, rows begin "
                 "with one, and nothing lies beside them"),
                (self.stages == 0 or (self.rows == self.at_once == 1 and not (self.masked or self.streamed)),
                 f"stages={self.stages}: bulk copies bring one row to a block, whose vectors have no predicates for "
                 "elements, and it is held"),
                (self.stages == 0 or self.stages >= self.rounds,
                 f"stages={self.stages}: there is no room for a row of {self.rounds} rounds")):
            if not holds:
                return why
        return ""

    def _leaves_out(self, columns: int) -> str:
        """Elements of such a row that nobody has, or that are not there."""
        each, vectors = self.lanes * self.cluster, -(-columns // self.width) if self.masked else columns // self.width
        sure = max(0, columns - (self.width - 1) * self.shifted) // self.width
        edges = 0 if self.masked else 2 * (self.width - 1) if self.shifted else columns % self.width
        if each * self.rounds < vectors:
            return f"has {each * self.rounds} vectors of {self.width} elements for {columns} columns"
        if self.edges < edges:
            return f"edges={self.edges}: {edges} elements may lie beside the vectors"
        if not (self.streamed or self.masked) and self.full * each > sure:
            return f"full={self.full}: only {sure // each} rounds are whole"
        return ""

    def keeps(self, bits: list[int], sums: int = 0) -> bool:
        """Whether a thread keeps its parts of vectors of such elements in registers, 64 bytes at most, or 128 where it
        has 128 registers, beside ``sums`` of each column."""
        own = self.rounds * sum(max(1, self.width * n // 32) for n in bits)
        most = _KEPT * (2 if self.resident * self.threads <= _FREE and not sums else 1)
        return own <= most and own + self.rounds * self.width * sums <= _SUMS

    @property
    def crowded(self) -> RowPlan:
        """The same where a quarter more threads fit on a multiprocessor, with 48 registers each: for simple kernels."""
        simple = self.whole and self.cluster == 1 and self.lanes > _WARP and self.resident * self.threads <= _THREADS
        most = _THREADS * 5 // 4 // self.threads
        return replace(self, resident=most) if simple and most > self.resident else self

    def blocks(self, rows: int, multiprocessors: int, *, most: int | None = None) -> int:
        """The blocks of a persistent grid: no more than there is work for, or than fit on the device (or ``most``).

        Where rows begin at any element and blocks take several in turn, a multiple of ``width``: then all rows of a
        block begin at one alignment.
        """
        wanted = -(-rows // self.rows)
        groups = max(1, (most or self.resident * multiprocessors) // self.cluster)
        if wanted > groups and self.shifted:
            groups = max(self.width, groups // self.width * self.width)
        return min(wanted, groups) * self.cluster


@functools.lru_cache(maxsize=1024)
def row_plan(shape: Shape, *, multiprocessors: int = 132, clusters: bool = True) -> RowPlan:
    """The plan for rows of this shape on a device with so many multiprocessors, with or without clusters (sm_90).

    Short rows (up to 128 vectors) have a warp or a part of it, longer ones a block of about 256 threads, those beyond
    32 KB a cluster of 2, 4 or 8 blocks.  Where rows are few, a row has more threads.  What even a cluster cannot hold,
    more than 262144 elements (131072 of float64; without clusters an eighth), is streamed.
    """
    long = 3 * _PASSED if shape.shifted else _PASSED    # the edges of rows that begin anywhere are work for all
    several, few = clusters or shape.rows >= 2 * multiprocessors, shape.rows <= multiprocessors and not shape.sums
    if few and shape.shifted and 0 < shape.columns <= _SINGLE * _THREADS:
        shape = replace(shape, width=1, shifted=False)
    if shape.sums and shape.rows <= multiprocessors and (summed := _few_summed(shape)) is not None:
        return summed
    if shape.passed and several and shape.columns * shape.bits > 8 * long * _passed_by(shape, multiprocessors):
        return _passing(shape, _passed_by(shape, multiprocessors), multiprocessors)
    width = shape.width or max(1, 128 // shape.bits)
    if few and not (shape.masked or shape.shifted or shape.passed):
        width = _narrower(shape.columns, width, shape.least)
    edges = 0 if shape.masked else 2 * (width - 1) if shape.shifted else min(width - 1, shape.columns % width)
    inner = shape.columns if shape.masked else shape.columns - (width - 1) * shape.shifted
    vectors = max(1, -(-shape.columns // width) if shape.masked else shape.columns // width)
    words = max(1, width * shape.bits // 32) * shape.held
    short = _SHORT if shape.held == 1 else _WARP * max(1, _WORDS // words)
    if vectors <= (_WARP if few else short):
        lanes, cluster, most = _lanes(shape, vectors, words, multiprocessors), 1, _MOST_WORDS
    else:
        cluster = _cluster(shape, vectors * words * 4, multiprocessors) if clusters else 1
        most = max(1, (_WORDS if shape.sums else _MOST_WORDS) // words)
        lanes = _threads(shape, -(-vectors // cluster), max(1, _WORDS // words), few, shape.sums > 0 and cluster == 1)
    most = min(most, max(1, _MOST_ELEMENTS // width))
    rounds = -(-vectors // (lanes * cluster))
    streamed = lanes > _WARP and rounds > most
    rows = max(1, (_WARP if few else _BLOCK) // lanes) if lanes <= _WARP else 1
    threads = lanes * rows
    full = 0 if shape.masked else min(rounds, max(0, inner) // width // (lanes * cluster))
    resident = max(1, _threads_of(shape) // threads)
    if few and threads <= _FREE:                        # nobody else wants the registers
        resident = 1
    many = not shape.sums and shape.rows >= 4 * multiprocessors * max(1, _THREADS // threads) * rows
    alone = not streamed and cluster == 1 and (lanes <= _WARP or shape.shifted)
    at_once = 2 if many and alone and 2 * rounds * words * 4 <= _ON_THE_WAY else 1
    plan = RowPlan(width, lanes, rows, rounds, cluster, full, edges, shape.shifted, shape.masked, at_once,
                   resident, streamed, eager=few and not streamed)
    if not (clusters and shape.ahead) or plan.lanes <= _WARP or plan.masked or plan.width * shape.bits % 128:
        return plan
    return _summed(shape, plan, multiprocessors) if shape.sums else _ahead(shape, plan, multiprocessors)


def _narrower(columns: int, width: int, least: int) -> int:
    """Elements of a vector of few rows: as few as leave a row to one warp, or to 256 threads.  Each thread then has
    less to do, and there are fewer instructions, which come from memory, too."""
    most = _WARP if columns <= _WARP * width else _FREE // 2
    while width > least and (2 * columns <= most * width or (columns % width and 2 * columns <= _THREADS * width)):
        width //= 2
    return width


def _few_summed(shape: Shape) -> RowPlan | None:
    """Few rows, over which sums are kept, one for each block; None where rows are short or long: the usual plan then.

    Rows that begin anywhere go element by element, others by half vectors: a thread has four at least, so that more of
    them work, and no edges.
    """
    width = 1 if shape.shifted else (shape.width or 128 // shape.bits) // 2
    most = _SUMS // 4 * 16 // max(16, shape.bits)       # elements of a thread: x, dout, the next of both, sums
    least = _THREADS // 2 if shape.shifted else _FREE * 8
    if shape.masked or width < 1 or shape.columns % width or not least < shape.columns <= most * _FREE:
        return None
    vectors = shape.columns // width
    lanes = min(_FREE, _WARP * -(-vectors // (4 * _WARP)))
    return RowPlan(width, lanes, rounds=-(-vectors // lanes), full=vectors // lanes, eager=False)


def _lanes(shape: Shape, vectors: int, words: int, multiprocessors: int) -> int:
    """Lanes of a warp that have a short row: one for each vector, as far as they go.

    Many rows that begin anywhere have fewer, of some vectors each, where a kernel keeps nothing between them: what is
    done for a row beside its vectors, its edges and its folds, is done by a warp for several together.
    """
    lanes = min(_WARP, power(vectors))
    while shape.shifted and shape.alone and lanes > _FEWEST and -(-2 * vectors // lanes) * words <= _SEVERAL and \
            shape.rows * lanes >= 2 * _THREADS * multiprocessors:
        lanes //= 2
    return lanes


def _ahead(shape: Shape, plan: RowPlan, multiprocessors: int) -> RowPlan:
    """The same by bulk copies, where blocks of clusters have two rows or more.

    A block of 640 to 1024 threads that is alone on a multiprocessor has a part of 64 KB, so that fewer share a row.  Of
    rows that begin anywhere several blocks do, as each waits for its edges, too.
    """
    if plan.cluster == 1 or plan.streamed:
        return plan
    found, vectors = plan, shape.columns // plan.width
    if shape.ahead == 1 and _MANY <= 2 * plan.lanes <= _THREADS and not plan.shifted:
        lanes, cluster = 2 * plan.lanes, max(2, plan.cluster // 2)
        found = replace(plan, lanes=lanes, cluster=cluster, rounds=-(-vectors // (lanes * cluster)), resident=1)
    elif plan.resident == 1:
        rounds = -(-vectors // (plan.cluster * _THREADS))
        found = replace(plan, lanes=_WARP * -(-vectors // (plan.cluster * rounds * _WARP)), rounds=rounds)
    found = _ringed(shape, found)
    enough = shape.rows * found.cluster >= _TURNS * found.resident * multiprocessors
    return found if found.stages > found.rounds and enough else plan


def _summed(shape: Shape, plan: RowPlan, multiprocessors: int) -> RowPlan:
    """The same by bulk copies, where each block has some rows, and keeps sums over them.

    Short rows: two vectors a thread, and as many blocks as fit with 128 registers.  Longer ones: as few blocks of up to
    512 threads as have room for three rows, which need not be the case where registers could not hold them.
    """
    vectors = max(1, shape.columns // plan.width)
    lanes = _WARP * -(-vectors // (2 * _WARP))
    if 2 * lanes <= _THREADS and plan.cluster == 1 and not plan.streamed:
        found = replace(plan, lanes=lanes, rounds=-(-vectors // lanes), resident=_THREADS // 2 // lanes)
        found = _ringed(shape, found)
        rows = found.stages // found.rounds
        return found if rows > 1 and shape.rows >= rows * found.resident * multiprocessors else plan
    size = shape.columns * (shape.brought or shape.held) * shape.bits // 8
    cluster = next((n for n in (1, 2, 4, 8) if size <= n * _WHOLE), 8)
    rounds = -(-vectors // (cluster * _THREADS // 2))
    lanes = _WARP * -(-vectors // (cluster * rounds * _WARP))
    found = _ringed(shape, replace(plan, lanes=lanes, rounds=rounds, cluster=cluster, resident=1, streamed=False))
    kept = rounds * plan.width * shape.sums * max(1, shape.bits // 32)
    enough = plan.streamed or shape.rows * cluster >= 3 * multiprocessors
    return found if found.stages > rounds and kept <= _SUMS and enough else plan


def _ringed(shape: Shape, plan: RowPlan) -> RowPlan:
    """The same with as many stages as shared memory has room for, up to eight rows; and which rounds are whole."""
    size = plan.resident * plan.lanes * plan.width * shape.bits // 8 * (shape.brought or shape.held)
    inner = shape.columns - (plan.width - 1) * plan.shifted
    return replace(plan, stages=stages_of(plan, AHEAD // size), at_once=1,
                   full=min(plan.rounds, max(0, inner) // plan.width // (plan.lanes * plan.cluster)))


def stages_of(plan: RowPlan, room: int) -> int:
    """The stages where there is room for so many: of whole rows, if two of them fit."""
    most = min(_MOST_STAGES, _MOST_ROWS * plan.rounds, room)
    return most if most < 2 * plan.rounds else most // plan.rounds * plan.rounds


def _passed_by(shape: Shape, multiprocessors: int) -> int:
    """Blocks that share a row which passes through: more where rows are few, until all that run together have some."""
    return next((n for n in (1, 2, 4) if shape.rows * n >= _BLOCKS * multiprocessors), 8)


def _passing(shape: Shape, cluster: int, multiprocessors: int) -> RowPlan:
    """Long rows that pass through: small blocks, of which a multiprocessor has many, in a loop over each row or part.

    Of so many threads that a turn of the loop, ``TURN`` vectors each, leaves few without any, which compute all the
    same.
    """
    plan = row_plan(replace(shape, passed=False), clusters=False)
    vectors = max(1, -(-shape.columns // (plan.width * cluster)))

    def computed(lanes: int) -> int:
        rounds = -(-vectors // lanes)
        return lanes * (rounds if rounds < TURN else -(-rounds // TURN) * TURN)

    many = shape.rows * cluster >= _BLOCKS * multiprocessors
    usual = 128 if many and vectors <= 32 * 128 else 512
    choices = range(usual * 3 // 4, usual * 3 // 2 + 1, _WARP)
    lanes = min(choices, key=lambda n: (computed(n) * 32 // vectors, abs(n - usual)))       # the nearest of as good
    return replace(plan, lanes=lanes, rounds=-(-vectors // lanes), cluster=cluster, full=0, at_once=1, streamed=True,
                   resident=_STREAMS // lanes)


def power(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()


def _threads_of(shape: Shape) -> int:
    """Threads on a multiprocessor: with 64 registers each, or 128 where sums over rows are kept."""
    return _THREADS // 2 if shape.sums else _THREADS


def _threads(shape: Shape, vectors: int, most: int, few: bool, wide: bool) -> int:
    """Whole warps for the vectors of one block: 128 threads or more, so that each has four vectors where it can.

    Where rows are few, each has as many threads as a block may have.  Where sums are kept from row to row, about 256
    threads have a row; as many as it has vectors, if they are too many for a multiprocessor and may be ``wide``.  Rows
    that begin anywhere have about 96: they need more blocks beside each other, as each waits for its edges, too.
    """
    threads, each = _threads_of(shape), 256 if shape.sums else 96
    rounds = -(-vectors // threads) if few else round(vectors / each) if shape.sums or shape.shifted else vectors // 128
    rounds = min(max(1, rounds), most)
    if wide and threads < vectors <= 2 * threads:
        return _WARP * -(-vectors // _WARP)
    return min(threads, _WARP * -(-vectors // (_WARP * rounds)))


def _cluster(shape: Shape, size: int, multiprocessors: int) -> int:
    """Blocks that share a row of ``size`` bytes of registers: as few as can hold it, more where rows are few."""
    needed = next((n for n in (1, 2, 4, 8) if size <= n * _PART), 8)
    room = multiprocessors // max(1, shape.rows)
    spread = 1
    while spread < 8 and 2 * spread <= room and size >= 2 * spread * _SPLIT:
        spread *= 2
    return max(needed, spread)


def widest(bits: int, starts: tuple[int, ...], pitches: tuple[int, ...], *, alike: bool) -> tuple[int, bool]:
    """(elements of one access, whether rows are shifted) for rows that begin at these places, in elements.

    ``starts``: of each array, elements from a multiple of 16 bytes to its first.  ``pitches``: the distances of rows.
    ``alike``: each array has one distance, in the order of the arrays.  Rows may begin anywhere if all begin alike.
    """
    most = max(1, 128 // bits)
    whole = math.gcd(most, *starts, *pitches)
    if whole == most or not alike:
        return whole, False
    first = pitches[0] if pitches else 0
    shifted = math.gcd(most, *starts, *(p - first for p in pitches))
    return (shifted, True) if shifted > whole else (whole, False)
