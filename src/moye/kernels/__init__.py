"""Kernels written in moye's public language: matrix products, copies for TMA, and what is bound by memory around them.

In: arrays of any library that moye takes.  Out: results written into the output array.

    from moye.kernels import gemm; gemm(A, B, C)      # C = A @ B.T
"""

from moye.kernels.attention.decode.host import paged_attention
from moye.kernels.attention.dispatch import attention, attention_backward
from moye.kernels.attention.sequences import attention_varlen, attention_varlen_backward
from moye.kernels.embedding import embedding, embedding_backward
from moye.kernels.gated import geglu, geglu_backward, swiglu, swiglu_backward
from moye.kernels.gemm.dispatch import gemm
from moye.kernels.gemm.grouped.stacked import grouped_gemm_sm90
from moye.kernels.gemm.shallow.kernel import gemm_shallow
from moye.kernels.gemm.simt.config import TileConfig
from moye.kernels.gemm.simt.kernel import gemm_simt
from moye.kernels.gemm.sm80.config import TensorConfig
from moye.kernels.gemm.sm80.kernel import gemm_sm80
from moye.kernels.gemm.sm90.config import WarpgroupConfig
from moye.kernels.gemm.sm90.host import gemm_sm90
from moye.kernels.gemm.streamed.kernel import gemm_streamed
from moye.kernels.gemm.tuned import tuned_gemm_simt, tuned_gemm_sm90
from moye.kernels.moves import permute, transpose
from moye.kernels.pack import packed
from moye.kernels.reductions import reduce
from moye.kernels.rope import rope
from moye.kernels.rows.cross_entropy import cross_entropy, cross_entropy_backward
from moye.kernels.rows.linear_cross_entropy import linear_cross_entropy
from moye.kernels.rows.norm import layer_norm, rms_norm
from moye.kernels.rows.norm_backward import layer_norm_backward, rms_norm_backward
from moye.kernels.rows.softmax import log_softmax, log_softmax_backward, softmax, softmax_backward
from moye.kernels.scans import cumsum
from moye.kernels.top_k import top_k

__all__ = [
    "TensorConfig", "TileConfig", "WarpgroupConfig", "attention", "attention_backward", "attention_varlen",
    "attention_varlen_backward", "cross_entropy", "cross_entropy_backward", "cumsum", "embedding",
    "embedding_backward", "geglu", "geglu_backward", "gemm", "gemm_shallow", "gemm_simt", "gemm_sm80", "gemm_sm90",
    "gemm_streamed", "grouped_gemm_sm90", "layer_norm", "layer_norm_backward", "linear_cross_entropy", "log_softmax",
    "log_softmax_backward", "packed", "paged_attention", "permute", "reduce", "rms_norm", "rms_norm_backward", "rope",
    "softmax", "softmax_backward", "swiglu", "swiglu_backward", "top_k", "transpose", "tuned_gemm_simt",
    "tuned_gemm_sm90",
]
