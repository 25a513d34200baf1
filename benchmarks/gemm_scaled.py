"""Products of e4m3 with factors of blocks on a Hopper GPU: beside moye's own promoted sums, and beside cuBLAS.

Interleaved in one process, the order reversed every other round; random-normal data, drawn factors; L2 flushed before
every launch; medians.  Results are compared with float64 on a poisoned output first, 256 rows of each.  Columns are
microseconds: of moye's promoted sums and of scaled ones, of cuBLAS without fast accumulation, and with factors of
blocks where torch has it; groups are stacked, or matrices that lie anywhere.  Then bf16 groups: stacked, as separate
matrices, and one torch.mm after the other.  With ``--configs``, every configuration of ``TRIED`` instead, in TFLOP/s;
with ``--draw``, every tile that there is for factors, on drawn products, a line of the file each, for
``gemm_scaled_fit.py``.

    python benchmarks/gemm_scaled.py [--rounds N] [--seconds BUDGET] [--only REGEX] [--configs]
    python benchmarks/gemm_scaled.py --draw SEED COUNT --csv gemm_scaled.csv
"""

import argparse
import csv
import functools
import itertools
import math
import random
import re
import sys
import time

import torch
from torch.nn import functional as F

from moye.kernels import WarpgroupConfig, gemm, gemm_sm90, grouped_gemm_sm90
from moye.kernels.gemm.sm90 import config
from moye.runtime.prepare import compile_only
from moye.runtime.tuning.precompile import Compiling
from moye.testing import interleave

DEVICE, BLOCK, SAMPLED, MOST_ERROR = "cuda", 128, 256, 3e-3
SHAPES = {"4096x4096x4096": (4096, 4096, 4096), "8192x8192x8192": (8192, 8192, 8192),
          "4096x2112x7168": (4096, 2112, 7168), "4096x7168x2048": (4096, 7168, 2048)}
HEIGHTS = (1013, 1100, 960, 1024, 1187, 870, 1001, 1037)        # of groups, about 1024 rows each
GROUPED = {"8 groups x4096x7168": (HEIGHTS, 4096, 7168), "8 groups x7168x2048": (HEIGHTS, 7168, 2048)}


SEPARATE = {"8 separate x4096x7168": (HEIGHTS, 4096, 7168), "8 separate x7168x2048": (HEIGHTS, 7168, 2048),
            "64 separate x768x2048": (tuple(1 + 29 * i % 200 for i in range(64)), 768, 2048)}


def tile(bM, bN, stages, promotion="between", **more):
    return WarpgroupConfig(bM, bN, 128, stages, groups=bM // 64 if bM < 256 else 2, promotion=promotion,
                           raster=16 if bN > bM else 8, **more)


TRIED = [tile(128, 128, 5), tile(128, 144, 5), tile(128, 160, 4), tile(128, 176, 5), tile(128, 192, 4),
         tile(192, 96, 5), tile(192, 128, 4), tile(256, 128, 3), tile(128, 128, 5, "turns"), tile(128, 192, 4, "turns"),
         tile(128, 192, 4, "behind"), tile(128, 128, 5, "ahead"), tile(128, 128, 5, "ahead", share_B=2),
         tile(192, 128, 4, share_A=2), tile(192, 128, 4, share_B=2),
         tile(128, 192, 4, share_A=2), tile(192, 128, 4, store="warp")]
"""Configurations of promoted sums, with factors and without."""


def label(tile):
    if tile is None:
        return "chosen"
    shared = f" {tile.share_A} x {tile.share_B}" if tile.peers > 1 else ""
    return f"{tile.bM}x{tile.bN} {tile.promotion}{shared}{' by warps' if tile.store == 'warp' else ''}"


class Operands:
    """e4m3 operands, and float32 factors as cuBLAS wants them: those of A contiguous along M."""

    def __init__(self, rows, N, K, groups=0):
        self.K, self.blocks = K, math.ceil(K / BLOCK)
        deep = (groups,) if groups else ()
        self.A = torch.randn(rows, K, device=DEVICE).to(torch.float8_e4m3fn)
        self.B = torch.randn(*deep, N, K, device=DEVICE).to(torch.float8_e4m3fn)
        self.C = torch.empty(rows, N, device=DEVICE, dtype=torch.bfloat16)
        self.of_A = (torch.rand(self.blocks, rows, device=DEVICE) + 0.5).T
        self.of_B = torch.rand(*deep, math.ceil(N / BLOCK), self.blocks, device=DEVICE) + 0.5

    def exact(self, rows, scaled, group=None):
        """Sampled rows of the product in float64."""
        A, B = self.A[rows].double(), (self.B if group is None else self.B[group]).double()
        if scaled:
            A *= self.of_A[rows].double().repeat_interleave(BLOCK, 1)[:, :self.K]
            of_B = (self.of_B if group is None else self.of_B[group]).double()
            B *= of_B.repeat_interleave(BLOCK, 0)[:B.shape[0]].repeat_interleave(BLOCK, 1)[:, :self.K]
        return A @ B.T


class Dense(Operands):
    """One product."""

    def __init__(self, M, N, K):
        super().__init__(M, N, K)
        self.flops = 2 * M * N * K

    def moye(self, scaled, tile=None):
        factors = {"scale_a": self.of_A, "scale_b": self.of_B} if scaled else {}
        if tile is None:
            return lambda: gemm(self.A, self.B, self.C, **factors)
        return lambda: gemm_sm90(self.A, self.B, self.C, config=tile, **factors)

    def vendors(self):
        one, A, B, C = torch.ones((), device=DEVICE), self.A, self.B, self.C
        of_A, of_B, kinds = self.of_A, self.of_B.T, getattr(F, "ScalingType", None)
        found = {"moye, sums of 14 bits": lambda: gemm(A, B, C, fast_accum=True)}
        found["cuBLAS"] = lambda: torch._scaled_mm(A, B.T, scale_a=one, scale_b=one, out_dtype=C.dtype, out=C)
        if kinds is not None:
            found["cuBLAS blocks"] = lambda: F.scaled_mm(A, B.T, of_A, kinds.BlockWise1x128, of_B,
                                                         kinds.BlockWise128x128, output_dtype=C.dtype)
        return found

    def error(self, work, scaled):
        self.C.fill_(math.nan)
        made = work()
        rows = torch.linspace(0, self.A.shape[0] - 1, SAMPLED, device=DEVICE).long()
        exact = self.exact(rows, scaled)
        C = made if isinstance(made, torch.Tensor) else self.C
        return float((C[rows].double() - exact).norm() / exact.norm())


class Grouped(Operands):
    """Several, stacked."""

    def __init__(self, heights, N, K):
        super().__init__(sum(heights), N, K, len(heights))
        self.flops = 2 * sum(heights) * N * K
        self.ends = list(itertools.accumulate(heights, initial=0))
        self.offsets = torch.tensor(self.ends, dtype=torch.int32, device=DEVICE)

    def moye(self, scaled, tile=None):
        factors = {"scale_a": self.of_A, "scale_b": self.of_B.permute(1, 2, 0)} if scaled else {}
        return lambda: grouped_gemm_sm90(self.A, self.B.permute(1, 2, 0), self.C, self.offsets, config=tile,
                                         **factors)

    def vendors(self):
        return {}

    def error(self, work, scaled):
        self.C.fill_(math.nan)
        work()
        errors = []
        for group, (first, last) in enumerate(itertools.pairwise(self.ends)):
            if first == last:
                continue
            rows = torch.linspace(first, last - 1, SAMPLED // len(HEIGHTS), device=DEVICE).long()
            exact = self.exact(rows, scaled, group)
            errors.append(float((self.C[rows].double() - exact).norm() / exact.norm()))
        return max(errors)


class Separate(Grouped):
    """Several, as matrices that lie anywhere."""

    def moye(self, scaled, tile=None):
        heights = [last - first for first, last in itertools.pairwise(self.ends)]
        As, Cs = ([part.clone() for part in self.A.split(heights)], self.C.split(heights))
        of_A = [part.contiguous() for part in self.of_A.split(heights)]
        factors = {"scale_a": of_A, "scale_b": list(self.of_B)} if scaled else {}
        return lambda: grouped_gemm_sm90(As, list(self.B), Cs, config=tile, **factors)


def problems(only):
    made = {**{name: lambda shape=shape: Dense(*shape) for name, shape in SHAPES.items()},
            **{name: lambda shape=shape: Grouped(*shape) for name, shape in GROUPED.items()},
            **{name: lambda shape=shape: Separate(*shape) for name, shape in SEPARATE.items()}}
    return {name: make for name, make in made.items() if only.search(name)}


def drawn(seed, count):
    """Products of any size from few rows to many, up to 2^39 operations; K a multiple of 16."""
    rng, found = random.Random(seed), {}
    while len(found) < count:
        M, N, K = (round(math.exp(rng.uniform(*map(math.log, limits)))) for limits in ((16, 8192), (256, 16384),
                                                                                       (256, 16384)))
        if rng.random() < 2 / 3:
            M, N = (-(-x // 128) * 128 for x in (M, N))
        K = -(-K // 128) * 128 if rng.random() < 0.5 else -(-K // 16) * 16
        if 1 << 30 < M * N * K < 1 << 38:
            found[f"{M}x{N}x{K}"] = functools.partial(Dense, M, N, K)
    return found


def tiles_with_factors():
    """Every tile that there is for factors of blocks, as deep as it can be."""
    sizes = [(bM, bN, groups) for (bM, groups), widths in config.SCALED.items() for bN in widths]
    return [config.promoted(WarpgroupConfig(bM, bN, 128, config.deepest(bM, bN, groups, scaled=True), groups=groups,
                                            raster=16 if bN > bM else 8)) for bM, bN, groups in sizes]


def configs_of(problem, options):
    """The configurations that are measured; grouped products have two warpgroups."""
    if options.draw:
        return tiles_with_factors()
    if not options.configs:
        return [None]
    return [None, *(c for c in TRIED if isinstance(problem, Dense)
                    or (c.groups == 2 and c.peers == 1 and c.store != "warp"))]


def prepare(named, options):
    """Compile all kernels beside each other."""
    start = time.perf_counter()
    with Compiling() as compiling:
        for make in named.values():
            problem = make()
            for scaled, tile in itertools.product((False, True), configs_of(problem, options)):
                with compile_only(trace_only=True) as gathered:
                    problem.moye(scaled, tile)()
                compiling.add(*gathered.jobs)
        errors = compiling.finish(lambda done: None)
    print(f"compiled after {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return not errors


def works_of(problem, options):
    """What is measured, by name, without what is wrong or what torch does not take; and whether moye's are right."""
    works, right = {}, True
    for scaled, tile in itertools.product((True,) if options.draw else (False, True), configs_of(problem, options)):
        name = f"{'scaled' if scaled else 'promoted'} {label(tile)}"
        works[name] = problem.moye(scaled, tile)
        error = problem.error(works[name], scaled)
        if not error <= MOST_ERROR:
            print(f"{name}: WRONG, error {error:.2e}")
            right = False
    for name, work in ({} if options.draw else problem.vendors()).items():
        try:
            error = problem.error(work, "blocks" in name)
        except (RuntimeError, ValueError) as why:
            print(f"{name}: not measured: {str(why).splitlines()[0]}")
            continue
        works[name] = work
        if not error <= MOST_ERROR:
            print(f"{name}: error {error:.2e}")
    return works, right


def separate_works(heights, N, K):
    """Groups in bf16, and C: one launch of stacked ones, one of matrices that lie anywhere, a launch each."""
    A, B, C = (torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)
               for shape in ((sum(heights), K), (len(heights), N, K), (sum(heights), N)))
    ends = [0, *itertools.accumulate(heights)]
    offsets = torch.tensor(ends, dtype=torch.int32, device=DEVICE)
    As, Bs, Cs = [A[i:j].clone() for i, j in itertools.pairwise(ends)], [X.clone() for X in B], C.split(heights)
    return C, {"stacked": lambda: grouped_gemm_sm90(A, B.permute(1, 2, 0), C, offsets),
               "separate": lambda: grouped_gemm_sm90(As, Bs, Cs),
               "mm": lambda: [torch.mm(X, Y.T, out=Z) for X, Y, Z in zip(As, Bs, Cs, strict=True)]}


def separate(rounds):
    """Groups in bf16, in microseconds; whether all are right."""
    print(f"\n{'bf16':20} {'stacked':>10} {'separate':>9} {'torch.mm':>10} us")
    right = True
    for heights, N, K in GROUPED.values():
        C, works = separate_works(heights, N, K)
        results = {}
        for what, work in works.items():
            C.fill_(math.nan)
            work()
            results[what] = C.double()
        for what in ("stacked", "separate"):
            error = float((results[what] - results["mm"]).norm() / results["mm"].norm())
            if not error <= MOST_ERROR:
                print(f"{what}: WRONG, {error:.2e} from torch.mm")
                right = False
        us = {what: 1e3 * ms for what, ms in interleave(works, rounds).items()}
        print(f"{f'{len(heights)} groups x{N}x{K}':20} {us['stacked']:10.1f} {us['separate']:9.1f} {us['mm']:10.1f}")
    return right


def report(name, problem, us, options):
    if options.draw:
        with open(options.csv, "a", newline="") as file:
            csv.writer(file).writerows([*name.split("x"), *re.split("[x ]", what)[1:4], f"{time_us:.2f}"]
                                       for what, time_us in us.items())
        return
    if options.configs:
        print(f"{name}, TFLOP/s")
        for what, time_us in sorted(us.items(), key=lambda item: item[1]):
            print(f"    {what:32} {problem.flops / time_us / 1e6:7.0f}  {time_us:8.1f} us")
        return
    promoted, scaled = us["promoted chosen"], us["scaled chosen"]
    others = [us.get(vendor) for vendor in ("cuBLAS", "cuBLAS blocks")]
    beside = "".join("         -    -  " if other is None else f"{other:10.1f} {other / mine:5.3f} "
                     for other, mine in zip(others, (promoted, scaled), strict=True))
    print(f"{name:20} {promoted:10.1f} {scaled:9.1f} {promoted / scaled:9.3f} {problem.flops / scaled / 1e6:7.0f} "
          f"{beside}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=20, help="for timing all products, each an equal part")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--configs", action="store_true", help="each configuration of TRIED, not the chosen one alone")
    parser.add_argument("--draw", type=int, nargs=2, metavar=("SEED", "COUNT"))
    parser.add_argument("--csv", default="gemm_scaled.csv", help="where lines of drawn products are added")
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    named = drawn(*options.draw) if options.draw else problems(options.only)
    right = prepare(named, options)
    if not options.configs and not options.draw:
        print(f"{'M x N x K':20} {'promoted':>10} {'scaled':>9} {'of prom.':>9} {'TFLOP/s':>7} {'cuBLAS':>10} ratio "
              f"{'blocks':>9} ratio")
    for name, make in named.items():
        problem = make()
        works, fine = works_of(problem, options)
        right &= fine
        start = time.perf_counter()
        interleave(works, 2, warmup=1)
        each = (time.perf_counter() - start) / 3
        rounds = max(4, min(options.rounds, int(options.seconds / len(named) / each)))
        report(name, problem, {what: 1e3 * ms for what, ms in interleave(works, rounds).items()}, options)
    if not options.configs and not options.draw and options.only.search("separate"):
        right &= separate(min(20, options.rounds))
    sys.exit(0 if right else "something is wrong")


if __name__ == "__main__":
    main()
