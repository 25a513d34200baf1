"""P4 of wgmma: a wait for all products in each step, though the next step's operands are there.

In: products, their waits, and other uses of accumulators, of the first block of each batch.  Out: per wait how often
the next products could have been issued before it, and how often they could not.

They could if they add to the same accumulators, which nobody has touched meanwhile, and read another stage, whose
copies were issued before the wait.  With two warp groups that multiply one computes while the other waits: nothing is
said.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from moye.ir import ops

_Places = frozenset[tuple[int, int]]
"""(buffer, first byte) of operands in shared memory."""


@dataclass(slots=True)
class Steps:
    """One wait in a loop: executions after which the next products did not need it, and the others."""

    op: ops.WgmmaWait
    spare: int = 0
    needed: int = 0

    @property
    def idle(self) -> bool:
        """Whether most steps need not have waited: the last of a tile must."""
        return self.spare >= 2 and self.spare >= 2 * self.needed


@dataclass(slots=True)
class _Open:
    """From a wait for all products to the next ones."""

    steps: Steps
    moment: int
    accumulators: int
    places: set[tuple[int, int]]


@dataclass(slots=True)
class _Warpgroup:
    flying: set[tuple[int, int]] = field(default_factory=set)
    accumulators: int = -1
    open: _Open | None = None


class ProductWatch:
    """Watches waits that stand in a loop (``inside``: the ids of their ops)."""

    def __init__(self, inside: set[int]) -> None:
        self.inside = inside
        self.steps: dict[int, Steps] = {}
        self.groups: dict[int, _Warpgroup] = {}

    def close(self) -> None:
        """Other blocks start."""
        for group in self.groups.values():
            group.flying.clear()
            group.open = None

    def issue(self, lead: int, accumulators: int, places: _Places, adds: bool, ready: int | None) -> None:
        """A warp group issues products; ``ready`` is the moment at which the last copy of an operand was issued.

        It is None if anything but a tensor copy has written one, or if an operand is in registers.
        """
        group = self.groups.setdefault(lead, _Warpgroup())
        if (now := group.open) is not None:
            spare = adds and accumulators == now.accumulators and ready is not None and ready <= now.moment and \
                not places & now.places
            self._close(group, spare=spare)
        group.flying |= places
        group.accumulators = accumulators

    def wait(self, op: ops.WgmmaWait, lead: int, moment: int) -> None:
        """A warp group waits; ``moment`` counts what happens to stages."""
        group = self.groups.setdefault(lead, _Warpgroup())
        if op.pending or not group.flying:
            return
        if id(op) in self.inside:
            steps = self.steps.setdefault(id(op), Steps(op))
            group.open = _Open(steps, moment, group.accumulators, set(group.flying))
        group.flying.clear()

    def use(self, accumulators: int) -> None:
        """Accumulators are read or written by something else."""
        for group in self.groups.values():
            if group.open is not None and group.open.accumulators == accumulators:
                self._close(group, spare=False)

    def _close(self, group: _Warpgroup, *, spare: bool) -> None:
        assert group.open is not None, "there was a wait"
        group.open.steps.spare += spare
        group.open.steps.needed += not spare
        group.open = None
