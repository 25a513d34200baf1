"""Rows of the benchmarks as the models of ``moye.kernels.gemm.simt`` see them.

In: a ``Row`` of ``gemm_rows``, float32, C row-major.  Out: a ``Problem`` of the model, with A and B as they are
multiplied: exchanged, since C^T is column-major.  It imports neither torch nor anything that needs a GPU.

>>> model.estimate(config, parts, problem_of(row), 132)
"""

import dataclasses

from moye.kernels.gemm.simt import config as model

FIELDS = [f.name for f in dataclasses.fields(model.TileConfig)]
COPIES = ["copied_A", "copied_B"]


def problem_of(row):
    """The product as the model of costs sees it."""
    majors = tuple(_major(order, rows, row.K) for order, rows in zip(row.orders, (row.M, row.N), strict=True))
    return model.Problem(row.N, row.M, row.K, 4, majors[::-1], 4 if row.N % 4 == 0 else 1)


def _major(order, rows, K):
    if order == "K" and K != 1:
        return "k vector" if K % 4 == 0 else "k"
    return "vector" if rows % 4 == 0 else "element"


def short(way):
    """A way in a few characters."""
    config, parts, copied = way
    return f"{config.bM}x{config.bN}x{config.bK}" + (f"/{parts}" if parts > 1 else "") + " copied" * sum(copied)
