"""Questions about static layouts.  Are offsets distinct?  How wide are copies?  What do accesses cost, and what helps?

In: static layouts, plain or swizzled.  Out: booleans, and records that print as text.

>>> bank_conflicts(mo.make_layout((32,), (32,)), 32).degree, bank_conflicts(mo.make_layout((32,), (33,)), 32).degree
(32, 1)

The parts are in predicates.py, vectors.py, banks.py, sectors.py, reports.py and proposals.py.  A dynamic leaf is a
FactError.  The costs follow the documented rules of the hardware; nothing is measured.
"""

from moye.hardware import BANKS, SECTOR
from moye.layout.analysis.banks import ACCESSES, BankReport, BankRequest, bank_conflicts, bank_map
from moye.layout.analysis.proposals import Access, Proposal, propose, propose_padding, propose_swizzle
from moye.layout.analysis.reports import CopyReport, copy_report, operand_values, thread_values
from moye.layout.analysis.sectors import SectorReport, SectorRequest, sectors_per_request
from moye.layout.analysis.widths import Limit, VectorWidth, vector_width
from moye.layout.face import face_all
from moye.layout.predicates import (
    Collision,
    find_collision,
    find_hole,
    is_bijective,
    is_compact,
    is_injective,
    is_surjective,
)
from moye.layout.tables import offsets

__all__ = [
    "ACCESSES", "BANKS", "SECTOR", "Access", "BankReport", "BankRequest", "Collision", "CopyReport", "Limit",
    "Proposal", "SectorReport", "SectorRequest", "VectorWidth", "bank_conflicts", "bank_map", "copy_report",
    "find_collision", "find_hole", "is_bijective", "is_compact", "is_injective", "is_surjective", "offsets",
    "operand_values", "propose", "propose_padding", "propose_swizzle", "sectors_per_request", "thread_values",
    "vector_width",
]

face_all(__all__, globals())
