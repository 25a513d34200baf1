"""What kind of operation a class is, for whoever asks: passes, the printer, the simulator and the verifier.

>>> Trait.REMOVABLE in with_implied(Trait.ARITHMETIC)
True

A class says its traits once, where it is declared (``operation.py``), and nobody else lists classes by hand: what is
added later has its place wherever a trait is asked for.  What one function alone knows of a class (a name, a kind of
event) is a table of that function, not a trait.
"""

from __future__ import annotations

from enum import Enum, auto


class Trait(Enum):
    """What is true of every operation of a class."""

    __hash__ = object.__hash__                          # members are single: Enum hashes their names, in Python

    # --- what it computes
    ARITHMETIC = auto()
    """A function of its operands."""
    PURE = auto()
    """The same for the same operands in one thread, without any effect: it may stand in the body of a Map."""
    SPECULATIVE = auto()
    """It may run where nobody asked for it: it neither fails nor touches memory, and costs next to nothing."""
    REMOVABLE = auto()
    """It does nothing but give its result, and goes where nobody uses that.  A load that is ordered stays."""
    VARIABLE = auto()
    """It declares, reads or sets a Var."""
    MULTIPLIES = auto()
    """A product of matrices, accumulated in registers."""

    # --- memory
    WRITER = auto()
    """It does nothing but write its references, and goes where those are registers that nobody reads."""
    MOVES = auto()
    """It moves elements between memories, or between memory and registers, before it ends."""
    REMOTE = auto()
    """It may reach shared memory of other blocks of the cluster through its references."""
    ORDERS_MEMORY = auto()
    """What was loaded before it may be another value after it."""
    QUIET = auto()
    """It changes nothing but variables and memory that other threads see."""

    # --- threads
    WAITS = auto()
    """A thread may have to wait here for what others do."""
    MEETS = auto()
    """Threads meet here, and who has gone past without coming is told of it."""
    MEETS_WARP = auto()
    """The lanes of a warp, or of a warpgroup, wait for each other here."""
    ACTS_WHEN_MET = auto()
    """Something is left to do once the lanes have met."""
    TELLS = auto()
    """Threads of the block may learn by it what this one has done; by plain accesses they may not."""
    HEARS = auto()
    """This thread may learn by it what others of the block have done; by plain accesses it may not."""
    SIGNALS = auto()
    """It arrives at a barrier that others wait for, or waits for one: roles talk to each other by it."""
    HANDS_OVER = auto()
    """Threads or asynchronous units may pass something on by it that sync_threads does not see."""
    BEYOND_BLOCK = auto()
    """Asynchronous units, or other blocks of the cluster, take part in it."""
    MBARRIER = auto()
    """Its reference is an mbarrier."""

    # --- blocks
    REGION = auto()
    """Control flow: its blocks are code of the thread."""
    LOOP = auto()
    """Its block may run many times."""
    POINTWISE = auto()
    """Its block computes one element of many, and holds pure operations alone."""

    # --- people
    SHOWS = auto()
    """It shows values to people: that is no use of them."""
    SIMULATED = auto()
    """The simulator alone runs it: a GPU does nothing."""


_IMPLIED = {
    Trait.ARITHMETIC: (Trait.PURE, Trait.SPECULATIVE), Trait.PURE: (Trait.REMOVABLE,),
    Trait.SPECULATIVE: (Trait.REMOVABLE,), Trait.REMOVABLE: (Trait.QUIET,), Trait.LOOP: (Trait.REGION,),
    Trait.REGION: (Trait.QUIET,), Trait.MEETS_WARP: (Trait.WAITS,), Trait.SIGNALS: (Trait.HANDS_OVER,),
    Trait.MBARRIER: (Trait.BEYOND_BLOCK,),
}


def with_implied(*traits: Trait) -> frozenset[Trait]:
    """The traits, and those that follow from them."""
    found, todo = set[Trait](), list(traits)
    while todo:
        found.add(trait := todo.pop())
        todo += _IMPLIED.get(trait, ())
    return frozenset(found)
