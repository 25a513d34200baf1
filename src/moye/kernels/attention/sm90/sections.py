"""In which order blocks take tiles that differ in work: the longest first, in sections of heads that L2 holds together.

The last tiles to be done are short then, so that blocks end together.  Source: Graham: Bounds on Multiprocessing
Timing Anomalies (1969), for the longest first.

    section = section_of(bytes_of_a_head, heads); i, head = in_sections(number, section, tiles, heads)
"""

from __future__ import annotations

import moye as mo

_L2 = 32 << 20
"""Bytes of L2 that a section of heads may take."""


def section_of(each: int, heads: int) -> int:
    """How many heads of ``each`` bytes make a section: as many as L2 holds, or up to half of them less.

    Of these numbers it is the one whose last section lacks the fewest heads: a short one would leave blocks idle.
    """
    most = max(1, min(_L2 // max(1, each), heads))
    return min(range((most + 1) // 2, most + 1), key=lambda section: (-heads % section / section, -section))


@mo.jit
def in_sections(number, section, tiles, heads):
    """(place among a head's ``tiles``, head) of a number: the first tiles of all heads of a section come first."""
    each = section * tiles
    first, rest = number // each * section, number % each
    here = mo.max(mo.min(heads - first, section), 1)    # 1: numbers beyond all tiles
    return rest // here, first + rest % here
