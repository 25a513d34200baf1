"""wgmma for ``CASES``: every kind of dtypes, A in shared memory and in registers, both majors, from C or from zero.

In: nothing.  Out: cases in ``CASES``; ``wgmma_kernels.py`` has the kernels, and all operations.
"""

from __future__ import annotations

import moye as mo
import wgmma_kernels as kernels
from ops_kernels import TOLERANCE, add

_HALF, _BYTES = (mo.float16, mo.float16, mo.float16), (mo.int8, mo.uint8, mo.int32)
_F8, _TF32 = (mo.float8_e4m3fn, mo.float8_e5m2, mo.float32), (mo.tfloat32, mo.tfloat32, mo.float32)
_BF16 = (mo.bfloat16, mo.bfloat16, mo.float32)
_TABLE = (
    kernels.Case(mo.mma.wgmma(*_BF16, 128, b_major="mn"), groups=2),
    kernels.Case(mo.mma.wgmma(*_BF16, 64, a_major="mn"), tiles=(2, 2), width=64, add_c=True),
    kernels.Case(mo.mma.wgmma(*_HALF, 64, a_source="registers"), tiles=(2, 1)),
    kernels.Case(mo.mma.wgmma(*_TF32, 24), width=32),
    kernels.Case(mo.mma.wgmma(*_F8, 64, a_source="registers"), width=64),
    kernels.Case(mo.mma.wgmma(*_BYTES, 48), width=16, add_c=True),
    kernels.Case(mo.mma.SM90_64x32x32_S32S8S8_RS_TN_SATURATE, add_c=True),
)

for _case in _TABLE:
    _dtype = _case.op.d_dtype
    add(f"wgmma-{_case.op}", kernels.wgmma_kernel, lambda rng, n, c=_case: c.arguments(rng),
        lambda args: {0: kernels.expected(args)}, sizes=(1,), block=_case.threads, grid=lambda n: 1,
        tolerance=0 if _dtype.is_integer else 20 * TOLERANCE[_dtype.name],
        gpu_tolerance=0.05 if _case.op.a_dtype.bits == 8 and _dtype.is_float else None, lossy=_dtype.is_integer)
