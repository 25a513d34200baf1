"""One matrix product for every dtype: picks the kernel, and the kernel its configuration.

In: A (M, K), B (N, K), C (M, N), of any strides.  Out: C, written in place.

>>> gemm(A, B, C)                            # C = A @ B.T
>>> gemm(A, B, C, tf32=True)                 # float32 operands through tensor cores

float32 stays float32 unless ``tf32`` is asked for.
"""

from __future__ import annotations

from typing import Any

import moye as mo
from moye.kernels.gemm_simt import gemm_simt
from moye.kernels.gemm_sm80 import gemm_sm80


def gemm(A: Any, B: Any, C: Any, *, alpha: float = 1, beta: float = 0, tf32: bool = False, **epilogue: Any) -> Any:
    """C = alpha * A @ B.T + beta * C, in place; returns C.

    Shapes, strides and ``epilogue`` (bias, residual, activation, ...) as in ``gemm_sm80``, which multiplies float16,
    bfloat16, float8, float64, int8 and uint8, and float32 where ``tf32``; else float32 and int32 go to ``gemm_simt``,
    which takes no epilogue and no batches.  ArgumentError for arguments that neither takes.
    """
    info = mo.describe(A)
    if info is not None and info.dtype in (mo.float32, mo.int32) and not (tf32 and info.dtype == mo.float32):
        if epilogue:
            raise mo.ArgumentError(f"gemm: {', '.join(epilogue)} with {info.dtype} operands",
                                   hint="tf32=True has epilogues")
        return gemm_simt(A, B, C, alpha=alpha, beta=beta)
    return gemm_sm80(A, B, C, alpha=alpha, beta=beta, **epilogue)
