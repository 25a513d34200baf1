"""Kernels written in moye's public language: fp32 / fp64 / int32 matrix products on the ordinary cores.

In: arrays of any library that moye takes.  Out: results written into the output array.

>>> from moye.kernels import gemm_simt; gemm_simt(A, B, C)      # C = A @ B.T
"""

from moye.kernels.gemm_simt import gemm_simt
from moye.kernels.simt_config import TileConfig
from moye.kernels.tuned import tuned_gemm_simt

__all__ = ["TileConfig", "gemm_simt", "tuned_gemm_simt"]
