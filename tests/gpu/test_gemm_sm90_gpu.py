"""``gemm_sm90`` on the GPU against float64: dtypes, transposes, edges, every configuration, epilogues; beside torch.

Operands lie in NaNs; so does C, and its surroundings stay so.  A kind is a line of ``KINDS``.  The error may be 5%
above that of rounding the exact result once, and what sums on tensor cores cost; and 5% above torch's where torch
multiplies, or what ``wgmma`` cuts off, if that is more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest
import torch

import moye as mo
from moye.kernels import WarpgroupConfig, gemm_sm90
from moye.kernels.gemm.sm90.config import configs, fits
from moye.runtime.prepare import compile_only

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "e4m3": torch.float8_e4m3fn,
          "e5m2": torch.float8_e5m2, "s8": torch.int8, "u8": torch.uint8, "s32": torch.int32}
CHOSEN = {"bf16": mo.bfloat16, "f16": mo.float16, "f32": mo.float32, "e4m3": mo.float8_e4m3fn, "e5m2": mo.float8_e5m2,
          "s8": mo.int8, "u8": mo.uint8}
ACTIVATIONS = {"none": lambda x: x, "relu": torch.relu, "gelu": torch.nn.functional.gelu,
               "silu": torch.nn.functional.silu}


@dataclass(frozen=True)
class Kind:
    """Dtypes of A, B and C; ``fast``: sums of float8 products stay in the tensor core."""

    a: str
    b: str
    c: str
    fast: bool = False

    @property
    def bK(self):
        """Elements of a k tile."""
        return 128 // DTYPES[self.a].itemsize

    @property
    def promoted(self):
        return self.a in ("e4m3", "e5m2") and not self.fast

    def accumulation(self, K):
        """Relative error of a sum over K: tensor cores cut off what float32 rounds, and keep 14 bits of float8's."""
        if self.fast:
            return 3e-4 + 4e-6 * K
        return 4e-4 if self.promoted else 1e-6 + 1e-8 * K


KINDS = {
    "bf16": Kind("bf16", "bf16", "bf16"), "f16": Kind("f16", "f16", "f16"), "bf16_f32": Kind("bf16", "bf16", "f32"),
    "f16_bf16": Kind("f16", "f16", "bf16"), "tf32": Kind("f32", "f32", "f32"), "tf32_bf16": Kind("f32", "f32", "bf16"),
    "e4m3": Kind("e4m3", "e4m3", "bf16"), "e5m2": Kind("e5m2", "e5m2", "f16", fast=True),
    "mixed": Kind("e4m3", "e5m2", "f32"), "mixed_turned": Kind("e5m2", "e4m3", "bf16", fast=True),
    "s8": Kind("s8", "s8", "s32"), "u8": Kind("u8", "u8", "s32"),
}
# ``wgmma`` cuts off what a float32 sum cannot hold, so its error grows with K.  Measured, relative to the result and
# to K: 2.41e-9 at K = 677, 2.37e-9 at 2056, 2.35e-9 at 4096, in ours and in cuBLAS's own ``wgmma`` kernels alike
# (9.62e-6 both at 4096^3).  Where rows are odd or few, cuBLAS takes ``mma.sync`` of sm_80 for tf32 and splits K; these
# sums are rounded and err less (3.4e-7 at K = 2056).  Its operands are rounded to tf32 there, too.
WGMMA_CUTS = 2.5e-9
SIZES = [(2048, 2048, 256), (4096, 2048, 1024), (127, 264, 63), (1000, 2056, 1000), (16, 4096, 4096), (2047, 2041, 333),
         (1, 1, 1), (64, 512, 1024)]
ORDERS = ["CCC", "CFC", "FCF", "FFC", "CCF", "FFF", "CFF", "FCC"]


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs sm_90a")


@pytest.fixture(autouse=True)
def _same_numbers():
    torch.manual_seed(0)


# --- arrays ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """A view ``x`` of memory, which is given as bytes."""

    x: torch.Tensor
    bits: torch.Tensor
    first: int

    def around(self):
        """The bytes with zeros where the view is."""
        rest, words = self.bits.clone(), {1: torch.uint8, 2: torch.int16, 4: torch.int32}[self.x.element_size()]
        rest.view(words).as_strided(self.x.shape, self.x.stride(), self.first).zero_()
        return rest


def place(shape, dtype, order="C", *, odd=False):
    """(rows, columns[, batches]) in NaNs (of bytes 7F or FF); "C": columns are contiguous, "F": rows.

    Lines are multiples of 16 bytes apart, or an odd number of elements, and begin behind an element of nothing.
    """
    lines, length = shape[:2] if order == "C" else shape[1::-1]
    part, batches = 16 // dtype.itemsize, shape[2] if len(shape) == 3 else 1
    pitch = (length + 1) | 1 if odd else -(-length // part) * part + part
    apart = lines * pitch + (1 - lines * pitch % 2 if odd else part)
    first = 1 if odd else part
    bits = torch.full(((first + batches * apart + part) * dtype.itemsize,), 0x7F if dtype.itemsize == 1 else 0xFF,
                      device="cuda", dtype=torch.uint8)
    strides = (pitch, 1) if order == "C" else (1, pitch)
    return Memory(bits.view(dtype).as_strided(shape, (*strides, apart)[:len(shape)], first), bits, first)


def filled(shape, dtype, order="C", *, odd=False, small=False):
    """Random-normal, or integers of the whole range of 8 bits; ``small`` ones where products of several fit 32 bits."""
    memory = place(shape, dtype, order, odd=odd)
    if dtype.is_floating_point:
        values = torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)
    else:
        info = torch.iinfo(torch.int8 if dtype == torch.int32 else dtype)
        low, high = (max(info.min, -5), 5) if small else (info.min, info.max)
        values = torch.randint(low, high + 1, shape, device="cuda", dtype=dtype)
    memory.x.copy_(values)
    return memory


def seen(x):
    """An operand in float64 as the instruction has it: float32 rounded to 10 bits, ties to even."""
    if x.dtype == torch.float32:
        bits = x.contiguous().view(torch.int32)
        x = ((bits + 0xFFF + (bits >> 13 & 1)) & -0x2000).view(torch.float32)
    return x.double()


# --- one launch ------------------------------------------------------------------------------------------------------


def linear(A, B, part, fused):
    """alpha * row_scale * col_scale * A B^T + beta * C + residual + bias in float64; ``part`` of B's rows."""
    deep = (1,) * (A.dim() - 2)
    result = torch.einsum("mk...,nk...->mn...", A, B[part]) * fused.get("alpha", 1)
    for name, shape in (("row_scale", (-1, 1, *deep)), ("col_scale", (1, -1, *deep))):
        if name in fused:
            vector = fused[name] if name == "row_scale" else fused[name][part]
            result = result * vector.double().reshape(shape)
    if fused.get("beta"):
        result = result + fused["beta"] * fused["C"].double()
    if "residual" in fused:
        result = result + fused["residual"].double()
    return result + fused["bias"][part].double().reshape(1, -1, *deep) if "bias" in fused else result


def expected(A, B, activation, reference, fused, *, gated):
    """The result in float64."""
    A, B = seen(A), seen(B)
    N = B.shape[0] // 2 if gated else B.shape[0]
    result = (reference or ACTIVATIONS[activation])(linear(A, B, slice(0, N), fused))
    return result * linear(A, B, slice(N, None), fused) if gated else result


def torchs(A, B, C):
    """What torch gives for the same operands, or None where it has no such product."""
    if A.dim() == 3 or C.dtype != A.dtype or A.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        return None
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return torch.mm(A, B.T)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def difference(x, exact):
    return float((x.double() - exact).norm())


def check_error(C, exact, kind, K, slack=1.0):
    """No further from the exact result than its rounding, but for 5% and ``slack`` times the accumulation."""
    if not C.dtype.is_floating_point:
        assert torch.equal(C.double(), exact), "sums of integers are exact"
        return
    assert bool(C.double().isfinite().all())
    rounding, norm = difference(exact.to(C.dtype), exact), float(exact.norm())
    error, bound = difference(C, exact), 1.05 * rounding + slack * kind.accumulation(K) * norm
    assert error <= bound, f"error {error:.2e}, allowed {bound:.2e}, of rounding alone {rounding:.2e}"


def agree(name, M, N, K, orders="CCC", *, odd="", batches=None, activation="none", reference=None, gated=False,
          bias=None, residual=None, row_scale=None, col_scale=None, **options):
    """One launch against float64; ``bias``, ``residual``, ``row_scale`` and ``col_scale`` are their dtypes.

    ``odd``: letters of arrays, of A, B, C, R (the residual) and V (the vectors), that begin and step at odd elements.
    """
    kind, last = KINDS[name], () if batches is None else (batches,)
    rows, a, b, c = (2 if gated else 1) * N, *(DTYPES[x] for x in (kind.a, kind.b, kind.c))
    A = filled((M, K, *last), a, orders[0], odd="A" in odd, small=gated).x
    B = filled((rows, K, *last), b, orders[1], odd="B" in odd, small=gated).x
    fused = {key: filled((1, count), DTYPES[dtype], odd="V" in odd, small=True).x[0] for key, dtype, count in
             (("bias", bias, rows), ("row_scale", row_scale, M), ("col_scale", col_scale, rows)) if dtype}
    if residual:
        fused["residual"] = filled((M, N, *last), DTYPES[residual], orders[2], odd="R" in odd).x
    factors = {key: options[key] for key in ("alpha", "beta") if key in options}
    memory = (filled if factors.get("beta") else place)((M, N, *last), c, orders[2], odd="C" in odd)
    C, before, around = memory.x, memory.x.clone(), memory.around()
    found = gemm_sm90(A, B, C, activation=activation, gated=gated, fast_accum=kind.fast, **fused, **options)
    assert found is C
    exact = expected(A, B, activation, reference, fused | factors | {"C": before}, gated=gated)
    check_error(C, exact, kind, K, 1 + 5 * len(fused | factors))
    other = None if gated or fused or factors or activation != "none" or 0 in (M, N, K) else torchs(A, B, C)
    if other is not None:
        error, norm, torchs_error = difference(C, exact), float(exact.norm()), difference(other, exact)
        bound = max(1.05 * torchs_error, WGMMA_CUTS * K * norm) + 1e-7 * norm
        assert error <= bound, f"error {error:.2e}, torch's {torchs_error:.2e}, allowed {bound:.2e}"
    assert torch.equal(memory.around(), around), "something around C was written"


def tile(name, bM, bN, stages=3, schedule="cooperative", groups=1, **more):
    """A configuration whose k tiles are rows of 128 bytes."""
    return WarpgroupConfig(bM, bN, KINDS[name].bK, stages, schedule, groups, **more)


# --- shapes, strides, batches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "i"), [(name, i) for n, name in enumerate(KINDS) for i in range(n % 2, 8, 2)])
def test_shapes_and_transposes(name, i):
    agree(name, *SIZES[i], ORDERS[(i + list(KINDS).index(name)) % len(ORDERS)])


@pytest.mark.parametrize("odd", ["A", "BC", "ABC"])
@pytest.mark.parametrize("name", ["bf16", "tf32", "e4m3", "u8"])
def test_odd_bases_and_odd_rows(name, odd):
    agree(name, 515, 719, 677, odd=odd)
    agree(name, 515, 719, 677, "FFF", odd=odd)


@pytest.mark.parametrize("name", ["bf16", "tf32", "mixed", "s8"])
def test_short_K(name):
    for K in (0, 1, 7, 17, 65):
        agree(name, 200, 136, K)


@pytest.mark.parametrize("orders", ["CCC", "FFF"])
@pytest.mark.parametrize("name", ["bf16", "tf32", "e4m3", "s8"])
def test_batches(name, orders):
    agree(name, 300, 520, 264, orders, batches=5)
    agree(name, 65, 34, 50, orders, batches=3, odd="ABC")
    agree(name, 129, 136, 72, orders, batches=1)


def test_one_operand_for_all_batches():
    A, B, C = filled((300, 264, 5), torch.bfloat16).x, filled((136, 264), torch.bfloat16).x, \
        place((300, 136, 5), torch.bfloat16).x
    gemm_sm90(A, B[:, :, None].expand(136, 264, 5), C)
    check_error(C, torch.einsum("mkl,nk->mnl", A.double(), B.double()), KINDS["bf16"], 264)


# --- every configuration ---------------------------------------------------------------------------------------------


def known():
    """All for bf16, tf32, float8 and int8; every third for the dtypes that differ in a name alone."""
    for name in ("bf16", "tf32", "e4m3", "e5m2", "s8", "f16", "u8", "mixed"):
        kind, step = KINDS[name], 3 if name in ("f16", "u8", "mixed") else 1
        found = [config for config in configs(CHOSEN[kind.a], out=DTYPES[kind.c].itemsize)
                 if fits(config, kind.promoted)]
        yield from ((name, config) for config in found[::step])


@pytest.mark.parametrize(("name", "config"), list(known()), ids=lambda x: x if isinstance(x, str) else
                         f"{x.bM}x{x.bN}-{x.schedule}-{x.groups}-{x.split_k}-{x.share_A}x{x.share_B}")
def test_every_configuration(name, config):
    """Whole and ragged, several tiles a block; nothing spills and nothing is serialised."""
    kind = KINDS[name]
    A, B, C = (torch.empty(512, 512, device="cuda", dtype=DTYPES[x]) for x in (kind.a, kind.b, kind.c))
    with compile_only("sm_90a") as gathered:
        gemm_sm90(A, B, C, config=config, fast_accum=kind.fast)
    program, = gathered.programs
    assert program.spills == program.stack == 0
    assert not re.findall(r"\(C\d+\).*", program.compiled.log)
    agree(name, 2048, 2304, 1024, config=config)
    agree(name, 2001, 2104, 1040, config=config)


SKINNY = [(name, rows, i) for name, step in (("bf16", 1), ("e4m3", 3), ("tf32", 4)) for rows in (8, 16, 32, 64, 128)
          for i in range(0, 8, 3 * step)]


@pytest.mark.parametrize(("name", "rows", "i"), SKINNY)
def test_configurations_for_few_rows(name, rows, i):
    """Turned for few rows of A, as they are for few of B; whole and ragged, split over clusters of up to eight."""
    found = configs(CHOSEN[KINDS[name].a], skinny=rows, out=DTYPES[KINDS[name].c].itemsize)
    config = found[i % len(found)]
    agree(name, 4096, rows, 4096, config=config)
    agree(name, 1001, rows - 3, 2056, "CCF", config=config)
    turned = replace(config, swap=True)
    agree(name, rows, 4096, 4096, config=turned)
    agree(name, rows - 3, 1001, 2056, "CCF", config=turned)


OTHERS = {
    "rows_of_256": tile("bf16", 256, 64, groups=2), "128_of_one_group": tile("bf16", 128, 64), "k_of_128":
    WarpgroupConfig(64, 64, 128, 2, groups=1), "warps_store": tile("bf16", 128, 128, groups=2, store="warp"),
    "constant_extents": tile("bf16", 128, 128, 3, "pingpong", 2, static=True),
    "multicast_A": tile("bf16", 128, 128, 3, groups=2, share_A=2),
    "clusters_2x2": tile("bf16", 128, 128, 3, groups=2, share_A=2, share_B=2),
    "clusters_4x2_in_turns": tile("bf16", 64, 128, 3, "pingpong", 2, share_A=4, share_B=2),
    "clusters_1x8": tile("bf16", 64, 64, 3, share_B=8),
    "clusters_2x4_turned": tile("bf16", 64, 64, 3, share_A=2, share_B=4, swap=True),
    "multicast_A_in_turns": tile("bf16", 64, 128, 3, "pingpong", 2, share_A=2),
    "multicast_turned": tile("bf16", 64, 64, 3, share_B=2, swap=True),
    "turned_in_turns": tile("bf16", 64, 128, 3, "pingpong", 2, swap=True),
}


@pytest.mark.parametrize("name", OTHERS)
def test_configurations_that_are_not_chosen(name):
    agree("bf16", 2048, 2048, 512, config=OTHERS[name])
    agree("bf16", 1003, 1001, 520, "FCF", config=OTHERS[name])
    agree("bf16", 72, 71, 136, "CFC", batches=3, config=OTHERS[name])


@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("schedule", ["cooperative", "pingpong"])
def test_fewer_and_more_k_tiles_than_stages(schedule, stages):
    config = tile("f16", 128, 128, stages, schedule, 2)
    for k_tiles in (1, 2, 4, 7):
        agree("f16", 256, 256, 64 * k_tiles, config=config)
        agree("f16", 3001, 3000, 64 * k_tiles - 5, config=config)


# --- epilogues -------------------------------------------------------------------------------------------------------

TOGETHER = {"alpha": 0.5, "beta": -0.75, "bias": "f32", "residual": "f16", "row_scale": "f32", "col_scale": "bf16",
            "activation": "gelu"}
PLACES = {
    "chosen": ((1000, 1032, 264), {}), "along_M": ((1000, 1031, 264), {"orders": "CCF"}),
    "odd": ((515, 719, 264), {"odd": "CRV"}),
    "pingpong_192": ((1000, 1032, 264), {"config": tile("bf16", 128, 192, 4, "pingpong", 2)}),
    "cooperative_256": ((1000, 1032, 264), {"config": tile("bf16", 128, 256, 4, groups=2, share_B=2)}),
    "of_8_columns": ((5, 4104, 264), {"config": tile("bf16", 64, 8, 8, swap=True)}),
    "turned": ((11, 4104, 264), {}), "split": ((72, 71, 4104), {"config": tile("bf16", 64, 64, 8, split_k=4)}),
    "split_and_turned": ((11, 520, 4104), {"config": tile("bf16", 64, 16, 8, split_k=8, swap=True)}),
    "batches": ((72, 71, 264), {"batches": 3, "orders": "CFF"}),
}


@pytest.mark.parametrize("where", PLACES)
def test_all_together(where):
    size, more = PLACES[where]
    agree("bf16", *size, **more, **TOGETHER)
    agree("bf16", *size, **more, **(TOGETHER | {"beta": 0, "activation": "silu"}))


@pytest.mark.parametrize("what", [{"bias": "bf16"}, {"residual": "bf16"}, {"row_scale": "f32"}, {"col_scale": "f16"},
                                  {"alpha": -0.5}, {"beta": 0.75}, {"activation": "relu"}, {"activation": "gelu"},
                                  {"activation": "silu"}], ids=str)
@pytest.mark.parametrize("name", ["bf16", "tf32"])
def test_one_thing(name, what):
    agree(name, 1000, 1031, 264, **what)


@pytest.mark.parametrize("name", ["f16", "tf32", "e4m3", "mixed"])
def test_other_dtypes_all_together(name):
    agree(name, 515, 719, 528, **TOGETHER)
    agree(name, 11, 520, 4112, config=tile(name, 64, 16, 8, split_k=4, swap=True), **TOGETHER)


@pytest.mark.parametrize("name", ["s8", "u8"])
def test_integers_are_exact(name):
    together = {"alpha": 2, "beta": -3, "bias": "s32", "residual": "s32", "row_scale": "s8", "activation": "relu"}
    agree(name, 515, 719, 264, **together)
    agree(name, 11, 520, 4112, config=tile(name, 64, 16, 8, split_k=4, swap=True), **together)


def test_an_activation_of_ones_own():
    agree("f16", 300, 264, 72, activation=lambda x: mo.maximum(x, -1.0) * 2.0, reference=lambda x: x.clamp(min=-1) * 2)


@pytest.mark.parametrize("config", [None, tile("bf16", 128, 192, 4, "pingpong", 2), tile("bf16", 128, 256, 4, groups=2,
                                    share_B=2), tile("bf16", 64, 64, 4)], ids=["chosen", "192", "256", "64"])
@pytest.mark.parametrize("order", "CF")
def test_gated(order, config):
    agree("bf16", 1000, 1032, 264, f"C{order}C", gated=True, activation="silu", config=config)
    agree("bf16", 515, 719, 264, f"C{order}C", gated=True, odd="CV", bias="f32", row_scale="f32", col_scale="f16",
          alpha=-0.5, activation="gelu", config=config)


@pytest.mark.parametrize("name", ["tf32", "e4m3", "s8"])
def test_gated_dtypes(name):
    agree(name, 515, 719, 272, gated=True, activation="relu")
    agree(name, 40, 24, 72, gated=True, activation="relu", batches=3)


# --- launches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "config"), [
    ("bf16", None), ("f16", tile("f16", 128, 192, 4, "pingpong", 2)), ("tf32", None), ("e4m3", None), ("e5m2", None),
    ("bf16", tile("bf16", 128, 256, 4, groups=2, share_B=2)),
    ("bf16", tile("bf16", 128, 64, 8, groups=2, split_k=8)),
], ids=["bf16", "pingpong", "tf32", "promoted", "fast", "multicast", "split"])
def test_again_and_again(name, config):
    """The same bits from every launch: nothing depends on who comes first."""
    kind = KINDS[name]
    A, B = (filled((rows, 1040), DTYPES[x]).x for rows, x in ((3000, kind.a), (2000, kind.b)))
    words = {2: torch.int16, 4: torch.int32}[DTYPES[kind.c].itemsize]
    first = gemm_sm90(A, B, place((3000, 2000), DTYPES[kind.c]).x, config=config, fast_accum=kind.fast)
    for _ in range(20):
        again = gemm_sm90(A, B, place((3000, 2000), DTYPES[kind.c]).x, config=config, fast_accum=kind.fast)
        assert torch.equal(again.view(words), first.view(words))


def test_launches_that_follow_each_other_see_each_others_results():
    """A chain of products on one stream, each reading what the one before has stored by TMA."""
    X = filled((512, 512), torch.float16).x
    exact = X.double()
    for _ in range(4):
        Y = place((512, 512), torch.float16).x
        gemm_sm90(X, X, Y, alpha=1 / 512)
        exact = seen(X) @ seen(X).T / 512
        check_error(Y, exact, KINDS["f16"], 512)
        X = Y


def test_a_residual_that_is_C():
    A, B, C = (filled(shape, torch.float16).x for shape in ((1000, 264), (1032, 264), (1000, 1032)))
    before = C.double()
    gemm_sm90(A, B, C, residual=C)
    check_error(C, seen(A) @ seen(B).T + before, KINDS["f16"], 264)


def test_a_refused_launch_writes_nothing():
    A, B, C = (torch.ones(shape, device="cuda", dtype=torch.float16) for shape in ((16, 8), (16, 8), (16, 15)))
    with pytest.raises(mo.ArgumentError, match=r"are not .M, K., .N, K. and .M, N."):
        gemm_sm90(A, B, C)
    torch.cuda.synchronize()
    assert bool((C == 1).all())


@pytest.mark.parametrize("options", [{"split_k": 3, "gather": "memory"}, {"split_k": 4}, {"stream_k": True}], ids=str)
def test_sums_of_integers_stay_exact(options):
    """Beyond 2^24, where float32 leaves out every other integer, also while they are handed over."""
    A, B = (torch.randint(90, 127, (rows, 16384), device="cuda", dtype=torch.int8) for rows in (200, 136))
    C = torch.full((200, 136), -1, device="cuda", dtype=torch.int32)
    gemm_sm90(A, B, C, config=WarpgroupConfig(64, 64, 128, 8, groups=1, **options))
    assert torch.equal(C.double(), A.double() @ B.double().T)
