"""moye: layouts, tensors, tiled copies and tiled MMAs for GPU kernels in plain Python.

One kernel source runs as CUDA C++ on NVIDIA GPUs and in a checking simulator on any machine.

>>> import moye as mo

Public names are loaded on first use: ``import moye`` itself needs the standard library alone.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

__version__ = "0.1.0"

_ALGEBRA = (
    "ArithmeticTuple", "ComposedLayout", "E", "Layout", "LayoutLeft", "LayoutRight", "ScaledBasis", "Swizzle",
    "append", "blocked_product", "coalesce", "compatible", "complement", "composition", "congruent", "coshape",
    "cosize", "crd2crd", "crd2idx", "depth", "dice", "domain_offset", "downcast", "filter", "filter_zeros",
    "flat_divide", "flat_product", "flatten", "group_modes", "idx2crd", "left_inverse",
    "logical_divide", "logical_product", "make_identity_layout", "make_layout", "make_layout_like",
    "make_ordered_layout", "max_alignment", "max_common_layout", "max_common_vector", "nullspace", "prepend",
    "product", "raked_product", "rank", "replace", "right_inverse", "select", "shape", "shape_div", "size", "slice_",
    "stride", "take", "tile_to_shape", "tiled_divide", "tiled_product", "unflatten", "upcast", "with_shape",
    "zipped_divide", "zipped_product",
)
_TRACED = (
    "assume", "atomic_add", "atomic_and", "atomic_cas", "atomic_exch", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xor", "ballot", "barrier_arrive", "barrier_sync", "block_dim", "block_idx", "ceil_div",
    "clock", "cp_async_commit", "cp_async_wait", "fence", "globaltimer", "grid_dim", "grid_sync", "is_static",
    "lane_idx", "load", "min_blocks", "nanosleep", "shuffle_down", "shuffle_idx", "shuffle_up", "shuffle_xor",
    "static_range", "store", "sync_threads", "sync_warp", "thread_idx", "vote_all", "vote_any", "warp_idx", "where",
)
_COLLECTIVES = ("block_reduce", "block_scan", "match_all", "match_any", "row_reduce", "warp_reduce",
                "warp_scan")
_HOPPER = (
    "block_in_cluster_idx", "cluster_arrive", "cluster_dim", "cluster_idx", "cluster_rank", "cluster_sync",
    "cluster_wait", "cp_async_mbarrier_arrive", "elect", "fence_mbarrier_init", "fence_proxy_async",
    "griddepcontrol_launch_dependents", "griddepcontrol_wait", "keep_addresses", "map_shared_rank", "mbarrier_arrive",
    "mbarrier_arrive_expect_tx", "mbarrier_array", "mbarrier_expect_tx", "mbarrier_init", "mbarrier_try_wait",
    "mbarrier_wait", "pin", "tma_store_arrive", "tma_store_wait", "warpgroup_arrive", "warpgroup_commit_batch",
    "warpgroup_idx", "warpgroup_reg_alloc", "warpgroup_reg_dealloc", "warpgroup_wait",
)
_MATH = ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "brev", "cbrt", "ceil", "clz", "copysign", "cos",
         "cosh", "divide", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "ffs", "floor", "fma", "fmod", "gelu",
         "hypot", "isinf", "isnan", "ldexp", "lgamma", "log", "log10", "log1p", "log2", "maximum", "minimum", "mul_hi",
         "nextafter", "popcount", "rcp", "relu", "remainder", "rsqrt", "sigmoid", "silu", "sin", "sincos", "sinh",
         "sqrt", "tan", "tanh", "tgamma", "trunc")
_DTYPES = ("bfloat16", "float16", "float32", "float4_e2m1fn", "float64", "float6_e2m3fn", "float6_e3m2fn",
           "float8_e4m3fn", "float8_e5m2", "int16", "int32", "int4", "int64", "int8", "tfloat32", "uint1", "uint128",
           "uint16", "uint32", "uint4", "uint64", "uint8")
_BITS = ("funnel_shift_left", "funnel_shift_right", "lop3", "prmt")
_RANDOM = ("philox", "rand", "rand4x", "randint", "randn", "randn4x")
_ERRORS = ("AlignmentError", "ArgumentError", "CompileError", "DTypeError", "DriverError", "FactError", "LaunchError",
           "LayoutError", "MoyeError", "PerformanceWarning", "PreconditionError", "SimulationError", "TensorError",
           "TraceError", "UnsupportedError")

_HOME: dict[str, tuple[str, str]] = {
    **{name: ("moye.layout", name) for name in _ALGEBRA},
    **{name: ("moye.lang.builtins", name) for name in _TRACED},
    **{name: ("moye.lang.collectives", name) for name in _COLLECTIVES},
    **{name: ("moye.lang.hopper", name) for name in _HOPPER},
    "mn_view": ("moye.tensor.accumulators", "mn_view"),
    "accumulators_as_A": ("moye.tensor.accumulators", "accumulators_as_A"),
    **{name: ("moye.lang.math", name) for name in _MATH},
    **{name: ("moye.lang.bits", name) for name in _BITS},
    **{name: ("moye.lang.random", name) for name in _RANDOM},
    **{name: ("moye.dtypes", name) for name in _DTYPES},
    **{name: ("moye.errors", name) for name in _ERRORS},
    "abs": ("moye.lang.math", "abs_"), "max": ("moye.lang.math", "maximum"), "min": ("moye.lang.math", "minimum"),
    "round": ("moye.lang.math", "round_"), "pow": ("moye.lang.math", "pow_"), "bool": ("moye.dtypes", "bool_"),
    "range": ("moye.lang.ranges", "dynamic_range"),
    "unpack": ("moye.lang.unpack", "unpack"),
    "inline_ptx": ("moye.lang.inline", "inline_ptx"), "inline_cuda": ("moye.lang.inline", "inline_cuda"),
    "inspect": ("moye.lang.debug", "inspect"), "jit": ("moye.lang.trace", "jit"),
    "Constexpr": ("moye.lang.signature", "Constexpr"), "Static": ("moye.lang.signature", "Static"),
    "tensor": ("moye.runtime.host_tensors", "tensor"), "HostTensor": ("moye.runtime.host_tensors", "HostTensor"),
    "Tensor": ("moye.tensor.tensor", "Tensor"), "shared_array": ("moye.tensor.tensor", "shared_array"),
    **{name: ("moye.tensor.predicates", name) for name in ("elem_less", "inside", "misalignment", "with_lead")},
    "make_fragment_like": ("moye.tensor.tensor", "make_fragment_like"),
    "identity_tensor": ("moye.tensor.coords", "identity_tensor"),
    "make_coord_tensor": ("moye.tensor.coords", "make_coord_tensor"), "recast": ("moye.tensor.algorithms", "recast"),
    "copyto": ("moye.tensor.algorithms", "copyto"), "gemm": ("moye.tensor.algorithms", "gemm"),
    "tile": ("moye.tensor.algorithms", "tile"), "parallelize": ("moye.tensor.algorithms", "parallelize"),
    "fragment": ("moye.tensor.algorithms", "fragment"),
    "CopyAtom": ("moye.tensor.tiled", "CopyAtom"), "TiledCopy": ("moye.tensor.tiled", "TiledCopy"),
    "TiledMMA": ("moye.tensor.tiled", "TiledMMA"),
    "make_tiled_copy": ("moye.tensor.tiled", "make_tiled_copy"),
    "make_tiled_copy_A": ("moye.tensor.tiled", "make_tiled_copy_A"),
    "make_tiled_copy_B": ("moye.tensor.tiled", "make_tiled_copy_B"),
    "make_tiled_copy_C": ("moye.tensor.tiled", "make_tiled_copy_C"),
    "make_tiled_mma": ("moye.tensor.tiled", "make_tiled_mma"),
    "Pipeline": ("moye.pipelines.multistage", "Pipeline"),
    "PipelineTma": ("moye.pipelines.tma", "PipelineTma"),
    "PipelineAsync": ("moye.pipelines.threads", "PipelineAsync"),
    "PipelineCpAsync": ("moye.pipelines.threads", "PipelineCpAsync"),
    "PipelineOrder": ("moye.pipelines.threads", "PipelineOrder"),
    "TensorMaps": ("moye.pipelines.tensor_maps", "TensorMaps"),
    "DynamicTileScheduler": ("moye.schedulers.dynamic", "DynamicTileScheduler"),
    "PersistentTileScheduler": ("moye.schedulers.persistent", "PersistentTileScheduler"),
    "StreamKScheduler": ("moye.schedulers.stream_k", "StreamKScheduler"),
    "GroupedTileScheduler": ("moye.schedulers.grouped", "GroupedTileScheduler"),
    "smem_layout_atom": ("moye.tensor.smem_atoms", "smem_layout_atom"),
    "LdMatrix": ("moye.atoms.matrix", "LdMatrix"), "StMatrix": ("moye.atoms.matrix", "StMatrix"),
    "UniversalCopy": ("moye.atoms.universal", "UniversalCopy"), "AutoCopy": ("moye.atoms.universal", "AutoCopy"),
    "CpAsync": ("moye.atoms.universal", "CpAsync"),
    "UniversalFMA": ("moye.atoms.universal", "UniversalFMA"),
    "TmaLoad": ("moye.atoms.tma", "TmaLoad"), "TmaLoadIm2col": ("moye.atoms.tma", "TmaLoadIm2col"),
    "TmaGather4": ("moye.atoms.tma", "TmaGather4"), "TmaScatter4": ("moye.atoms.tma", "TmaScatter4"),
    "TmaStore": ("moye.atoms.tma", "TmaStore"),
    "TmaReduceAdd": ("moye.atoms.tma", "TmaReduceAdd"), "TmaReduce": ("moye.atoms.tma", "TmaReduce"),
    "BulkCopy": ("moye.atoms.bulk", "BulkCopy"), "BulkReduceAdd": ("moye.atoms.bulk", "BulkReduceAdd"),
    "BulkReduce": ("moye.atoms.bulk", "BulkReduce"),
    "red": ("moye.tensor.tile_atomics", "red"), "red_async": ("moye.tensor.async_stores", "red_async"),
    "st_async": ("moye.tensor.async_stores", "st_async"), "prefetch": ("moye.tensor.bulk_copy", "prefetch"),
    **{name: ("moye.tensor.device_maps", name) for name in (
        "tensormap_array", "copy_tensormap", "update_tensormap", "release_tensormap", "acquire_tensormap")},
    "addresses": ("moye.runtime.addresses", "addresses"),
    "write_by_address": ("moye.runtime.addresses", "write_by_address"),
    "prefetch_tensormap": ("moye.tensor.tma_copy", "prefetch_tensormap"),
    "draw": ("moye.pictures", "draw"), "Picture": ("moye.pictures", "Picture"),
    "autotune": ("moye.runtime.tuning.tune", "autotune"), "Config": ("moye.runtime.tuning.tune", "Config"),
    "compile_only": ("moye.runtime.prepare", "compile_only"), "kernel": ("moye.runtime.kernel", "kernel"),
    **{name: ("moye.runtime.exporting", name) for name in ("Export", "Exported", "Specialisation", "export")},
    "check": ("moye.runtime.check.check", "check"),
    "checking": ("moye.runtime.check.checking", "checking"),
    "Report": ("moye.runtime.check.report", "Report"), "timelines": ("moye.runtime.simulate", "timelines"),
    "Timeline": ("moye.sim.timeline.view", "Timeline"),
    "inspections": ("moye.runtime.simulate", "inspections"),
    "TensorLike": ("moye.runtime.arrays", "TensorLike"),
    "make_tma_copy": ("moye.runtime.tma_arguments", "make_tma_copy"),
    "TmaCopy": ("moye.runtime.tma_arguments", "TmaCopy"), "describe": ("moye.runtime.arrays", "describe"),
    "arch_of": ("moye.runtime.compile", "arch_of"),
    "multiprocessors": ("moye.runtime.compile", "multiprocessors"),
    "replayed": ("moye.runtime.replayed", "replayed"), "Replayed": ("moye.runtime.replayed", "Replayed"),
    "scratch": ("moye.runtime.recording", "scratch"),
    "torch_op": ("moye.torch.declare", "op"),
    "resident_clusters": ("moye.runtime.compile", "resident_clusters"),
}
_MODULES = ("env", "errors", "hardware", "jax", "kernels", "layout", "mma", "schedulers", "testing")

__all__ = ["__version__", *sorted(_HOME), *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES or name == "torch":            # not in __all__: import * would hide torch itself
        return importlib.import_module(f"moye.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'moye' has no attribute {name!r}")
    value = getattr(importlib.import_module(home[0]), home[1])
    if name not in vars(_Package):                      # a property is asked for each time
        globals()[name] = value
    return value


class _Package(types.ModuleType):
    """The package.  Two rooms have the name of a public function, and users mean the function."""

    def _room(self, room: types.ModuleType) -> None:
        """Python binds each module that it has imported to its name here; ``import`` finds it all the same."""

    depth = property(lambda self: __getattr__("depth"), _room)
    tensor = property(lambda self: __getattr__("tensor"), _room)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted(__all__)
