"""The defect classes that moye reports: one stable code, one line and the hints of each.

In: nothing.  Out: ``CODES``, a table from code to title and to when the class is found; ``hint``, what would mend it;
``GROUPS``, the names that MOYE_CHECK chooses from.

>>> CODES["D3"].title, hint("D3")
('waited for, but no block barrier before other threads read', 'sync_threads() after cp_async_wait()')

Which class a violation gets is decided where it is found; where classes overlap the most specific wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from moye.errors import MoyeError


@dataclass(frozen=True, slots=True)
class Code:
    """One class: ``when`` holds T (while tracing), L (at launch), S (in the simulator), P (a lint, never fails)."""

    code: str
    title: str
    when: str


_TABLE = """
A1  T    a tiled copy writes one destination element from two threads
A2  T    a thread/value layout leaves part of the tile uncopied
A3  T    a view reaches past its allocation
A4  T/L  a tile does not divide an extent and the access is not predicated
A5  T    source and destination partitioned by different tiled copies
A6  S    written through one swizzle, read through another
A7  T    a swizzled tile at an offset that its swizzle span does not divide
A8  T    accumulators of one MMA tiling stored with the partition of another
A9  T    operand major-ness and MMA atom disagree
A10 T    the block's threads differ from those of the tiled copy or MMA that it uses
A11 L/S  an integer that its dtype, or the index width in use, does not hold
A12 L/S  an argument or a value that breaks what the kernel assumed, or a division by zero
B1  L/S  global access out of bounds
B2  T/S  shared access out of bounds of its own tensor
B3  T/S  vector access to an address that is not aligned to its width
B4  T/S  asynchronous copy whose source or destination is not aligned to its size
B5  T/L/S a tensor map, tile or run that breaks the rules of TMA and bulk copies
B6  S    shared memory read before anything wrote it
B7  T/S  register fragment used before it was set
B8  S    a predicated-off copy leaves the previous tile's data, and it is used
B9  S    shared memory reused while an asynchronous operation on it is in flight
B10 T/L  shared memory beyond the device's limit
B11 S    a stale view used after its buffer was given to another tensor
C1  S    another thread's shared write with no barrier in between
C2  S    overwritten while other threads may still be reading
C3  S    exchange within a warp through shared memory without sync_warp
C4  S    a barrier that only part of the block's threads reaches
C5  S    named barrier with a wrong count, or one id used by two groups
C6  T/S  a warp-collective operation reached by part of a warp
C7  S    a shuffle that reads an inactive lane
D1  S    data of an asynchronous copy read before any wait
D2  S    a wait_group that leaves the needed group in flight
D3  S    waited for, but no block barrier before other threads read
D4  S    prefetch into a stage that is still being read
D5  S    commits left out in the tail, so that wait counts mean older groups
D6  S    TMA tile read before its mbarrier wait
D7  S    an mbarrier expects too few or too many bytes
D8  S    wrong phase of an mbarrier
D9  S    wrong arrival count of an mbarrier
D10 S    mbarrier initialisation not made visible before use
D11 S    a barrier object overwritten or invalidated while in use
D12 S    generic write, then asynchronous read without a proxy fence
D13 S    generic read, then asynchronous overwrite without the ordering it needs
D14 S    the proxy fence is executed by a thread other than the writer
D15 S    source of a TMA store refilled before the store has read it
D16 S    a bulk group waited on by a thread that did not issue it
D17 S    waiting for the read where completion of the write is needed
D18 S    a block's shared memory used outside of its life, by asynchronous operations or other blocks
D19 S    an operation of block scope used between blocks
D20 T/S  wrong multicast mask or remote rank
D21 S    a single-thread operation issued by a whole warp
E1  S    wgmma accumulators touched without the fence
E2  S    wgmma accumulators read before the wait
E3  S    wgmma operand tile overwritten or released before the wait
E4  S    wgmma register operand changed in flight
E5  S    wrong accumulate flag on the first k
E6  T/S  wgmma by anything but a full, aligned warpgroup
F1  S    pipeline stage used before acquire or after release
F2  S    fewer k-tiles than stages
F3  S    producer and consumer trip counts differ
F4  S    cyclic wait
F5  S    a consumer exits while the producer still waits
F6  T/S  register budget exceeded or not a multiple of 8
F7  S    block-wide barrier inside one role
G1  S    two blocks store one element
G2  S    accumulation between blocks without atomics or initialisation
G3  S    a flag without release and acquire
G4  S    spinning on blocks that cannot be resident together
G5  S    in-place aliasing of input and output between blocks
P1  P    bank conflicts
P2  P    a copy narrower than its layouts allow
P3  P    uncoalesced rows
P4  P    a pipeline that waits for everything each step
P5  P    a redundant barrier or fence
P6  P    spills or local memory
P7  P    serialised wgmma
P8  P    occupancy limited by shared memory or registers
V1  S    wrong result
"""


def _parse(table: str) -> dict[str, Code]:
    rows = (line.split(maxsplit=2) for line in table.strip().splitlines())
    return {code: Code(code, title, when) for code, when, title in rows}


CODES: dict[str, Code] = _parse(_TABLE)

# code, where it is found (-: anywhere else), what would mend it
_HINTS = """
B6  -         write or fill it first
B6  mbarrier  keep data and mbarriers apart; mbarrier_wait looks at its phase
B9  -         cp_async_wait() and then sync_threads() before the memory is used again
B9  engine    wait for the mbarrier of the copy before the memory is used again
B9  cluster   wait for the copy in its block, and then cluster_sync()
B9  store     tma_store_wait(0, read=False) before it is written again
B9  source    cp_async_wait() in the thread that copies, and then a barrier, before it is written
B9  load      mbarrier_wait for the copy before its source is written
B11 -         allocate it before the loop to keep its contents, or write it first in each iteration
B11 cluster   allocate it before the loop, or write it first in each iteration
C1  -         sync_threads() between the two
C1  roles     a barrier that both roles come to: the writers arrive at it (barrier_arrive or mbarrier_arrive) and the \
readers wait there
C1  together  let one thread write each element
C1  cluster   cluster_sync() between the two
C2  -         sync_threads() between the reads and the next write
C2  roles     a second barrier, "empty": the readers arrive there after the read, and the writers wait there before \
they write again
C2  cluster   cluster_sync() between the two
C3  -         sync_warp() between the two
C4  -         let every thread of the block reach sync_threads, or use barrier_sync(id, count) among some of them
C5  -         count the threads that arrive and those that wait at the barrier, and no others
C5  groups    give each group a named barrier of its own
C6  -         let every lane of the mask reach it
D1  -         cp_async_wait() and then sync_threads() before the read
D1  cluster   cp_async_wait() and then cluster_sync() before the read
D1  store     tma_store_wait(0, read=False) in the thread that stores, then a barrier
D3  -         sync_threads() after cp_async_wait()
D3  store     sync_threads() after tma_store_wait(0, read=False)
D4  -         sync_threads() between the last read of the stage and the copy that refills it
D4  unread    copy into a stage that has been read, after a sync_threads() that follows the reads
D6  -         mbarrier_wait(barrier, stage, phase) before the tile is read
D6  cluster   mbarrier_wait(barrier, stage, phase) and then cluster_sync() before the read
D7  -         expect the bytes that the copies of one phase bring, no more and no less
D8  -         flip the parity each time the ring of stages wraps around
D8  deadlock  wait for the parity of each phase in turn, 0 first, or 1 where the first phase is free
D9  -         initialise the mbarrier with the number of arrivals that come in each phase
D10 -         fence_mbarrier_init() and then sync_threads() after mbarrier_init
D10 cluster   fence_mbarrier_init() and then cluster_sync() after mbarrier_init
D11 -         initialise it once, before the loop, or after a sync_threads()
D12 -         fence_proxy_async() in the threads that write, then a barrier, then the asynchronous read
D12 global    fence_proxy_async() in the threads that write, before the barrier or the flag that orders the two
D13 -         let the readers arrive at an mbarrier that the thread which copies waits for
D13 proxy     fence_proxy_async() in the threads that write, then a barrier, then the copy
D13 cluster   let the readers arrive at an mbarrier of the block that copies (cta=), for which its thread waits
D14 -         fence_proxy_async() in the threads that write, before the barrier
D15 -         tma_store_wait(0, read=True) and then a barrier before the source is written again
D15 sent      mbarrier_wait in the block that receives, and then cluster_sync() or mbarrier_arrive(bars, i, cta=)
D15 cluster   tma_store_wait(0, read=True) and then cluster_sync() before the source is written
D16 -         let the thread that stores wait, and then a barrier
D17 -         tma_store_wait(0, read=False), which waits until what is stored has been written
D18 -         cluster_sync() before the kernel ends
D18 arrival   a barrier of the cluster before the kernel ends; a relaxed one will do
D18 early     cluster_sync() before the first access to another block
D19 -         scope="gpu"
D19 cluster   cluster_sync() between the two
D20 -         multicast= is a mask of ranks in the cluster: name every block that waits for the bytes
E3  -         warpgroup_wait(0) before the stage is released
E3  cluster   warpgroup_wait(0) and then cluster_sync() before the operand is written
E6  -         let all 128 threads of the warpgroup reach it
F1  -         arrive at the barrier after the warpgroup_wait for the products that read the stage
F1  release   arrive at the barrier after the last read of the stage
F1  acquire   let the thread that fills a stage wait for the barrier at which its readers arrive
F1  deadlock  let those who arrive wait first for a barrier at which the others arrive once they are through
F2  -         fill as many stages as there are k-tiles, if these are fewer
F3  -         let both sides go through equally many phases of each barrier
F4  -         one of them must arrive before it waits
F5  -         let the readers release every stage that is filled for them, or tell the one who fills them to stop
F7  -         barrier_sync(id, count) among the threads of the role
G1  -         let one block write each element
G2  -         mo.atomic_add, or a slice of a workspace for each block
G3  -         sync_threads(), then signal with order="release"; wait with order="acquire", then sync_threads()
G5  -         read from another array than the one that is written
G3  cluster   cluster_sync() between the two
G3  arrival   mo.fence(scope="cluster") before the arrival and after the wait, or cluster_sync()
"""

_MENDS = {(code, where): text for code, where, text in (row.split(maxsplit=2) for row in _HINTS.strip().splitlines())}


def hint(code: str, where: str = "-") -> str:
    """What would mend a violation of this class that is found there; else what mends the class anywhere."""
    return _MENDS.get((code, where)) or _MENDS[code, "-"]


def hint_between_roles(code: str) -> str | None:
    """What would mend it where the two accesses are in two roles, if the class has a hint for that."""
    return _MENDS.get((code, "roles"))


GROUPS: dict[str, frozenset[str]] = {
    "bounds": frozenset({"B1", "B2"}),
    "alignment": frozenset({"B3", "B4", "B5"}),
    "uninitialised": frozenset({"B6", "B7", "B8", "B11", "E2", "E5"}),
    "races": frozenset({"B9", "C1", "C2", "C3", "D3", "D4", "D6", "D13", "D15", "D16", "D17", "D19", "E3", "E4", "F1",
                        "G1", "G2", "G3", "G5"}),
    "copies": frozenset({"D1", "D2", "D3", "D4", "B9", "D6", "D7", "D8", "D12", "D13", "D14", "D15", "D16", "D17",
                         "D18", "D20", "D21", "E1", "E2", "E3", "E4", "F1", "F2"}),
    "barriers": frozenset({"C4", "C5", "C6", "C7", "D7", "D8", "D9", "D10", "D11", "E6", "F1", "F3", "F4", "F5",
                           "F6", "F7", "G4"}),
    "overflow": frozenset({"A11"}),
    "asserts": frozenset({"A12"}),
}
"""What the simulator judges, by the names of MOYE_CHECK and in the order in which a Report tells it."""


SHORT = {"align": "alignment", "init": "uninitialised", "uninitialized": "uninitialised", "race": "races",
         "copy": "copies", "barrier": "barriers", "assert": "asserts"}
"""Other names of groups."""


def chosen(names: Iterable[str]) -> frozenset[str]:
    """The codes of the groups and classes named, in any case; MoyeError for a name that is none."""
    return frozenset[str]().union(*(_named(name) for name in sorted(names)))


def _named(name: str) -> frozenset[str]:
    low, code = name.lower(), CODES.get(name.upper())
    if low == "all":
        return frozenset(code for code, row in CODES.items() if row.when != "P")
    if code is not None:
        if code.when == "P":
            raise MoyeError(f"MOYE_CHECK: {code.code} ({code.title}) is a lint, and no lint makes a launch fail",
                            hint="mo.check(kernel) reports lints")
        return frozenset({code.code})
    group = SHORT.get(low, low)
    if group not in GROUPS:
        raise MoyeError(f"MOYE_CHECK: there is no checker {name!r}; the checkers are {', '.join(GROUPS)}, all, and "
                        f"classes such as D3")
    return GROUPS[group]
