"""C++ identifiers for the user's names: legal, unique in the kernel, no keyword and no name of CUDA's or the printer's.

In: a hint such as ``tCrA`` or ``int``.  Out: ``tCrA``, ``int_``.

    names.fresh("x"), names.fresh("x")      # ('x', 'x_1')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
concept const consteval constexpr constinit const_cast
continue co_await co_return co_yield decltype default delete do double
dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new
noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return short
signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
typename union unsigned using virtual void volatile wchar_t while xor xor_eq
main linux unix NULL NAN INFINITY EOF assert errno stdin stdout stderr I
threadIdx blockIdx blockDim gridDim warpSize dim3 printf clock clock64 min max abs llabs isnan isinf
make_float2 make_float4 make_double2 make_int2 make_int4 make_uint2 make_uint4 make_longlong2 make_ulonglong2
float2 float4 double2 int2 int4 uint2 uint4 longlong2 ulonglong2
f16 bf16 e4m3 e5m2 f32 to_f16 to_bf16 to_e4m3 to_e5m2 to_tf32 low16 round_to_odd floor_div
floor_mod floor_mod_1 globaltimer pack shl shr
bar_sync bar_arrive exp2_approx sqrt_approx rsqrt_approx tanh_approx
elect cluster_ctarank cluster_ctaid_x cluster_ctaid_y cluster_ctaid_z cluster_arrive_release cluster_arrive_relaxed
cluster_wait TensorMap prefetch_tensormap match_all grid_sync keep_order landed map_shared_rank
CUDARTAPI CUDARTAPI_CDECL CUDART_DEVICE CUDART_VERSION NV_TARGET_MINIMUM_SM_INTEGER NV_TARGET_MINIMUM_SM_SELECTOR
"""
_DECLARED = """clock_t free malloc nan nanf ptrdiff_t size_t std va_arg va_copy va_end va_list va_start cudaRoundNearest
cudaRoundZero cudaRoundPosInf cudaRoundMinInf NV_DISPATCH_TARGET NV_IF_ELSE_TARGET NV_IF_TARGET
umin umax llmin llmax ullmin ullmax"""
_UNPRINTED = """cospi sinpi sincos sincospi cyl_bessel_i0 cyl_bessel_i1 erfcinv erfcx fdivide ilogb llrint llround lrint
lround nearbyint norm3d norm4d normcdf normcdfinv rcbrt remquo rhypot rnorm rnorm3d rnorm4d scalbln scalbn"""
_MATH = """exp exp2 log log2 log10 sqrt rsqrt sin cos tan tanh erf floor ceil rint trunc fabs fmin fmax pow fmod round
logb jn yn j0 j1 y0 y1 gamma tgamma lgamma remainder fma fdim hypot cbrt ldexp frexp modf acos asin atan atan2 cosh
sinh acosh asinh atanh expm1 log1p exp10 erfc norm signbit isfinite div labs erfinv copysign nextafter
index read write pipe time exit select"""
RESERVED = frozenset(_WORDS.split()) | frozenset(name + f for name in _MATH.split() for f in ("", "f"))
DECLARED = frozenset(_DECLARED.split()) | frozenset(name + f for name in _UNPRINTED.split() for f in ("", "f"))
"""What NVRTC declares outside of functions: no kernel has such a name, but a variable may."""
_WRAPPER = re.compile(r"((cp_async|mma|fence|swizzle|atom|red|ld|st|mbarrier|bulk|setmaxnreg|griddepcontrol|wgmma|"
                      r"warpgroup|ptx|cuda|results)_|(to|from)_\w+x[24]$|tma_((load|store|prefetch|reduce_[a-z]+)_[1-5]d|"
                      r"(prefetch_)?(gather|scatter)4)|(copy|release|acquire)_tensormap$|tensormap_[a-z]+(_\dd)?$|"
                      r"(ld|st)matrix_x[124](_trans)?$|(aligned|put|fma)_\d+$|(add|sub|mul)_16$|"
                      r"[a-z0-9]+_((bf16|f16|f32)x2|approx)$)\w*$")
"""What the functions that the printer writes are called; ``Intrinsics.function`` takes no other name."""


@lru_cache(maxsize=4096)
def identifier(hint: str) -> str:
    """The hint as a C++ identifier."""
    name = re.sub(r"[^0-9A-Za-z_]", "_", hint.strip("<>")).lstrip("_") or "x"
    name = re.sub(r"__+", "_", name)
    return f"x{name}" if name[0].isdigit() else name


def is_free(name: str) -> bool:
    """Whether neither C++ nor CUDA nor a printed helper function has the name."""
    return name not in RESERVED and not _WRAPPER.match(name)


class Names:
    """Hands out identifiers; within a ``scope`` those of the scopes around it are not used again."""

    def __init__(self) -> None:
        self._scopes: list[set[str]] = [set()]
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, hint: str, *, everywhere: bool = False) -> str:
        """The hint itself where it is legal and free, else with a number behind it.

        ``everywhere`` is for names that live longer than the scope they are first needed in.
        """
        name = identifier(hint)
        if not is_free(name):
            name += "_"
        chosen, number = name, 0
        while chosen in self._taken:
            number += 1
            chosen = f"{name}_{number}"
        self._taken.add(chosen)
        self._scopes[0 if everywhere else -1].add(chosen)
        return chosen

    def numbered(self, stem: str) -> str:
        """``t0``, ``t1``, ...: numbers are never used twice."""
        while True:
            number = self._next.get(stem, 0)
            self._next[stem] = number + 1
            if f"{stem}{number}" not in self._taken:
                return self.fresh(f"{stem}{number}")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A block of C++: its names are free again after it."""
        self._scopes.append(set())
        yield
        self._taken -= self._scopes.pop()
