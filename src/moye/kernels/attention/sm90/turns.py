"""Warpgroups multiply in turns, so that one exponentiates while another one's products run.

In: a ``ForwardPlan`` whose configuration is ``in_turns``, or not: then nobody waits.  All take as many turns.

    first_turn(plan); take_turn(plan); ...; pass_turn(plan); last_turn(plan)

Source: Shah et al.: FlashAttention-3 (2024), for the order of warpgroups by named barriers.
"""

from __future__ import annotations

import moye as mo
from moye.kernels.attention.sm90.config import GROUP

TURN = 4
"""Named barriers: TURN + g is warpgroup g's turn to multiply."""


@mo.jit
def first_turn(plan):
    """Warpgroup 0 begins: the last one says so."""
    if plan.config.in_turns and mo.warpgroup_idx() == plan.config.groups - 1:
        mo.barrier_arrive(TURN, 2 * GROUP)


@mo.jit
def take_turn(plan):
    """Wait until it is this warpgroup's turn to multiply."""
    if plan.config.in_turns:
        mo.barrier_sync(TURN + mo.warpgroup_idx(), 2 * GROUP)


@mo.jit
def pass_turn(plan):
    """It is the next warpgroup's turn."""
    if plan.config.in_turns:
        group = mo.warpgroup_idx()
        mo.barrier_arrive(mo.where(group == plan.config.groups - 1, TURN, TURN + 1 + group), 2 * GROUP)


@mo.jit
def last_turn(plan):
    """Nobody is left to take the turn that the last warpgroup passed."""
    if plan.config.in_turns and mo.warpgroup_idx() == 0:
        mo.barrier_sync(TURN, 2 * GROUP)
