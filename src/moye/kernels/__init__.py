"""Kernels written in moye's public language: matrix products on the ordinary cores and on tensor cores, copies for TMA.

In: arrays of any library that moye takes.  Out: results written into the output array.

    from moye.kernels import gemm; gemm(A, B, C)      # C = A @ B.T
"""

from moye.kernels.gemm import gemm
from moye.kernels.gemm_simt import gemm_simt
from moye.kernels.gemm_sm80 import gemm_sm80
from moye.kernels.gemm_sm90 import gemm_sm90
from moye.kernels.grouped_gemm_sm90 import grouped_gemm_sm90
from moye.kernels.pack import packed
from moye.kernels.simt_config import TileConfig
from moye.kernels.tensor_config import TensorConfig
from moye.kernels.tuned import tuned_gemm_simt, tuned_gemm_sm90
from moye.kernels.warpgroup_config import WarpgroupConfig

__all__ = ["TensorConfig", "TileConfig", "WarpgroupConfig", "gemm", "gemm_simt", "gemm_sm80", "gemm_sm90",
           "grouped_gemm_sm90", "packed", "tuned_gemm_simt", "tuned_gemm_sm90"]
