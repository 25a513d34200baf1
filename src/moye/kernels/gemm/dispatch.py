"""One matrix product for every dtype: picks the kernel, and the kernel its configuration.

In: A (M, K), B (N, K), C (M, N), of any strides.  Out: C, written in place.

    gemm(A, B, C)                            # C = A @ B.T
    gemm(A, B, C, tf32=True)                 # float32 operands through tensor cores
    again = gemm.plan(A, B, C); again()      # decided once, launched often

float32 stays float32 unless ``tf32`` is asked for.
"""

from __future__ import annotations

import functools
from typing import Any

import moye as mo
from moye.kernels.gemm.operator import traced_gemm
from moye.kernels.gemm.shallow import config as shallow
from moye.kernels.gemm.shallow import plan as shallow_plan
from moye.kernels.gemm.shallow.kernel import gemm_shallow
from moye.kernels.gemm.simt import config as simt
from moye.kernels.gemm.simt.choice import soonest
from moye.kernels.gemm.simt.kernel import gemm_simt
from moye.kernels.gemm.simt.kernel import problem_of as simt_problem_of
from moye.kernels.gemm.sm80 import config as sm80
from moye.kernels.gemm.sm80.choice import choose as choose_sm80
from moye.kernels.gemm.sm80.config import TensorConfig, instructions
from moye.kernels.gemm.sm80.kernel import gemm_sm80
from moye.kernels.gemm.sm80.plan import major_of, stored
from moye.kernels.gemm.sm90 import config as sm90
from moye.kernels.gemm.sm90.choice import choose
from moye.kernels.gemm.sm90.config import WarpgroupConfig
from moye.kernels.gemm.sm90.fusion import Fusion
from moye.kernels.gemm.sm90.host import OUTPUTS, gemm_sm90, problem_of, suits, turned
from moye.kernels.gemm.streamed import config as streamed
from moye.kernels.gemm.streamed.kernel import gemm_streamed, size_of, streams
from moye.kernels.options import flag
from moye.kernels.views import info_of
from moye.kernels.workspace import MAKES_ARRAYS

_EPILOGUE = ("bias", "residual", "activation", "config", "splits")
_SURE = 0.97                            # of what others take: fewer whole lines than odd ones were measured
_EXACT = 0.3                            # more than its model says, of all but the launch: 0 to 0.5 was measured
_HOPPER = ("gated", "row_scale", "col_scale", "scale_a", "scale_b", "fast_accum")


@mo.replayed
def gemm(A: Any, B: Any, C: Any, *, alpha: float = 1, beta: float = 0, tf32: bool = False, **epilogue: Any) -> Any:
    """C = alpha * A @ B.T + beta * C, in place; returns C.

    Shapes, strides and ``epilogue`` (bias, residual, activation, ...) are as in ``gemm_sm80``.  That kernel multiplies
    float16, bfloat16, float8, float64, int8 and uint8, and float32 if ``tf32``.  Other float32 and int32 go to
    ``gemm_simt``, with the same epilogues and batches, and so do float32 products that are sooner without tensor
    cores.  On sm_90a, all that ``gemm_sm90`` can multiply goes there,
    and it also takes gated, row_scale, col_scale, fast_accum, and scale_a and scale_b, the factors of blocks of float8
    operands.  ArgumentError for arguments that no kernel takes.
    Calls like earlier ones are repeated without deciding anew (``mo.replayed``), and ``gemm.plan`` prepares one.
    """
    info, tf32 = info_of("gemm", "A", A), flag("gemm", "tf32", tf32)
    epilogue = {name: x for name, x in epilogue.items() if not _says_nothing(name, x)}
    unknown = [name for name in epilogue if name not in (*_EPILOGUE, *_HOPPER)]
    if unknown:
        raise mo.ArgumentError(f"gemm takes no {', '.join(unknown)}; there are alpha, beta, tf32, "
                               f"{', '.join((*_EPILOGUE, *_HOPPER))}")
    if info is not None and info.dtype not in (mo.int32, *instructions()):
        raise mo.ArgumentError(f"gemm: A holds {info.dtype}, for which there is no kernel; there are some for int32, "
                               f"{', '.join(map(str, instructions()))}")
    if info is not None and info.dtype in (mo.float32, mo.int32) and not (tf32 and info.dtype == mo.float32):
        if lacking := [name for name in epilogue if name in _HOPPER]:
            raise mo.ArgumentError(f"gemm: operands of {info.dtype} go to gemm_simt, which takes no "
                                   f"{', '.join(lacking)}", hint="tf32=True multiplies float32 on tensor cores, "
                                   "with all epilogues" if info.dtype == mo.float32 else None)
        return gemm_simt(A, B, C, alpha=alpha, beta=beta, **epilogue)
    way = _way(A, B, C, info, epilogue, plain=not epilogue and alpha == 1 and beta == 0)
    if way == "sm90":
        return gemm_sm90(A, B, C, alpha=alpha, beta=beta, **epilogue)
    if way == "streamed":
        return gemm_streamed(A, B, C)
    if way == "shallow":
        return gemm_shallow(A, B, C)
    if way == "simt":
        return gemm_simt(A, B, C)
    epilogue.pop("fast_accum", None)                    # its sums are float32 anyway
    return gemm_sm80(A, B, C, alpha=alpha, beta=beta, **epilogue)


gemm.traced = traced_gemm


def _says_nothing(name: str, x: Any) -> bool:
    """Whether an option has its default value."""
    return name in (*_EPILOGUE, *_HOPPER) and (x is None or x is False or (isinstance(x, str) and x == "none"))


def _way(A: Any, B: Any, C: Any, a: Any, epilogue: dict[str, Any], *, plain: bool) -> str:
    """The kernel that the product goes to, "sm90", "sm80", "streamed", "shallow" or "simt"; ArgumentError if only the
    first would do and the device is another.  ``plain``: the product alone.
    """
    arch = mo.arch_of(A)
    config = epilogue.get("config")
    asked = [name for name in _HOPPER[:-1] if name in epilogue] + ["config"] * isinstance(config, WarpgroupConfig)
    other = "splits" in epilogue or isinstance(config, TensorConfig)
    if asked and (arch not in (None, "sm_90a") or other):
        why = "takes no splits and no TensorConfig" if other else f"runs on sm_90a, and this device is {arch}"
        raise mo.ArgumentError(f"gemm: {', '.join(asked)} needs gemm_sm90, which {why}")
    if asked and a is not None and a.dtype not in OUTPUTS:
        raise mo.ArgumentError(f"gemm: {', '.join(asked)} needs gemm_sm90, which multiplies no {a.dtype}, but "
                               f"{', '.join(map(str, OUTPUTS))}")
    b, c = info_of("gemm", "B", B), info_of("gemm", "C", C)
    if asked:
        return "sm90"
    if arch != "sm_90a" or other or not suits(a, b, c):
        return "sm80"
    return _soonest(*(x._replace(ptr=x.ptr % 16) for x in (a, b, c)), mo.multiprocessors(c), plain)


@functools.lru_cache(maxsize=4096)
def _soonest(a: Any, b: Any, c: Any, multiprocessors: int, plain: bool) -> str:
    """The kernel that should be soonest for few k, and for what ``gemm_sm90`` would copy first: the others take it as
    it is, float32 also exactly, without tensor cores.

    By the models of costs, and for 16 and 32 bits, whose copies and products they were fitted to.
    """
    if a.dtype not in (mo.float16, mo.bfloat16, mo.float32) or 0 in (*a.shape, *c.shape):
        return "sm90"
    problem = problem_of(a, b, c, Fusion(), False)
    few = a.dtype.bits == 16 and a.shape[1] <= sm80.FEW
    if not few and not problem.copies and not (problem.plain and c.shape[1] * c.dtype.bytes % 16):
        return "sm90"
    times = modelled(a, b, c, multiprocessors, plain)
    if plain and shallow_plan.suits(a, b, c) and _in_words(a, b):
        size = shallow_plan.size_of(a, b, c)
        costs = shallow.COSTS
        over = costs.others * _SURE if size.A.whole and size.B.whole else costs.odd
        times = {name: time * over for name, time in times.items()}
        times["shallow"] = shallow.modelled(shallow.choose(size, multiprocessors), size, multiprocessors)
    return min(times, key=lambda name: times[name])


def modelled(a: Any, b: Any, c: Any, multiprocessors: int, plain: bool) -> dict[str, float]:
    """Microseconds of each kernel but ``gemm_shallow``, which is compared with them."""
    problem = problem_of(a, b, c, Fusion(), False)
    times = {"sm90": sm90.estimate(choose(problem, multiprocessors), problem, multiprocessors)}
    if plain and problem.copies and (side := streams(a, b)) and _in_words(a, b):
        stream, other = (a, b) if side == "A" else (b, a)
        size = size_of(stream, other)
        times["streamed"] = streamed.modelled(streamed.choose(size, multiprocessors), size, multiprocessors)
    if plain and a.dtype == b.dtype == c.dtype == mo.float32:
        exact = soonest(simt_problem_of(a, b, c), multiprocessors)
        times["simt"] = exact + _EXACT * max(0.0, exact - simt.COSTS.launch)
    if c.strides[0] == 1 != c.strides[1]:               # as that kernel takes it
        a, b, c = b, a, turned(c)
    (M, N), K, store = c.shape[:2], a.shape[1], stored(c)
    ways, extents = (major_of(a, M, K), major_of(b, N, K)), (M, N, K, problem.batches)
    option = choose_sm80(*extents, a.dtype, multiprocessors, 90, ways=ways, store=store, out=c.dtype.bytes)
    times["sm80"] = sm80.modelled(*option, *extents, a.dtype.bytes, multiprocessors, ways, store, c.dtype.bytes)
    return times


def _in_words(*operands: Any) -> bool:
    """Whether all have memory whose words can be told apart from elements."""
    return all(x.kind in MAKES_ARRAYS and x.ptr % 4 == 0 for x in operands)
