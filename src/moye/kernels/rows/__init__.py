"""Kernels that work row by row, at the speed of memory: norms, and the parts that others of their kind are made of.

In: arrays of any strides whose last mode is the row.  Out: results written into the arrays given first.

    from moye.kernels import rms_norm; rms_norm(out, x, weight)
    from moye.kernels.rows import parts, row_plan                       # for a kernel of one's own
"""

from moye.kernels.rows import parts
from moye.kernels.rows.plan import RowPlan, Shape, row_plan

__all__ = ["RowPlan", "Shape", "parts", "row_plan"]
