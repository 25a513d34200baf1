"""Kernels written in moye's public language: matrix products on ordinary and on tensor cores, norms, copies for TMA.

In: arrays of any library that moye takes.  Out: results written into the output array.

    from moye.kernels import gemm; gemm(A, B, C)      # C = A @ B.T
"""

from moye.kernels.gemm.dispatch import gemm
from moye.kernels.gemm.simt.config import TileConfig
from moye.kernels.gemm.simt.kernel import gemm_simt
from moye.kernels.gemm.sm80.config import TensorConfig
from moye.kernels.gemm.sm80.kernel import gemm_sm80
from moye.kernels.gemm.sm90.config import WarpgroupConfig
from moye.kernels.gemm.sm90.grouped import grouped_gemm_sm90
from moye.kernels.gemm.sm90.host import gemm_sm90
from moye.kernels.gemm.tuned import tuned_gemm_simt, tuned_gemm_sm90
from moye.kernels.pack import packed
from moye.kernels.rows.norm import layer_norm, rms_norm

__all__ = ["TensorConfig", "TileConfig", "WarpgroupConfig", "gemm", "gemm_simt", "gemm_sm80", "gemm_sm90",
           "grouped_gemm_sm90", "layer_norm", "packed", "rms_norm", "tuned_gemm_simt", "tuned_gemm_sm90"]
