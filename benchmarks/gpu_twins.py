"""The matmuls of the examples beside hand-written CUDA twins of the same designs and cuBLAS (fp32, TF32 off).

All of them, with cuBLAS, in one loop per shape, the order reversed every other round; random-normal data; L2 flushed
before every launch; medians.  Every result is compared with float64 on a poisoned output first; one above 1e-5 is
marked, and the exit status is 1.  "by hand" is what the twin's design reached on the H200 when it was first written
(none slower than 0.97 of it is wanted), "-" where it was not measured.

    python benchmarks/gpu_twins.py [rounds]
"""

import importlib.util
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import moye as mo
from moye.cuda.compiler import nvrtc
from moye.cuda.device import driver
from moye.testing import interleave

HERE = Path(__file__).parent
SHAPES = [(2048, 2048, 256), (2048, 2048, 2048), (4096, 4096, 4096)]
TILE, BK, THREADS = 128, 8, 256
WANTED = 1e-5                                           # relative Frobenius error


@dataclass(frozen=True)
class Pair:
    """One kernel of the examples, how it is launched, and the file and macros of its twin."""

    name: str
    example: str
    twin: str
    atoms: tuple[int, int]
    width: int = 1                                      # elements per cp.async; 0 is a plain copy
    values: int = 1                                     # elements side by side per thread and copy
    pad: int = 1
    stages: int = 1
    options: tuple[bool, ...] = ()                      # further arguments of the kernel
    by_hand: tuple[float, ...] = ()                     # TFLOP/s per shape

    def __str__(self):
        copy = f"{4 * self.width} B" if self.width else "plain"
        return f"{self.name} {f'({self.atoms[0]},{self.atoms[1]})':>7} {copy:>5} x{self.values} pad {self.pad}"

    def arguments(self, A, B, C):
        """The kernel's arguments."""
        column = TILE + self.pad
        layout = (mo.make_layout((TILE, BK), (1, column)) if self.stages == 1 else
                  mo.make_layout((TILE, BK, self.stages), (1, column, column * BK)))
        op = (mo.CpAsync({1: mo.float32, 2: mo.float64}[self.width], cache="always") if self.width else
              mo.UniversalCopy(mo.float32))
        copy = mo.make_tiled_copy(mo.CopyAtom(op, mo.float32), mo.make_layout((32, 8)),
                                  mo.make_layout((self.values, 1)))
        mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout(self.atoms))
        return A, layout, copy, B, layout, copy, C, mma, *self.options

    def kernel(self):
        return load_example(self.example).matmul_kernel

    def compile_twin(self, arch):
        """The hand-written kernel, by the compiler of moye's own."""
        macros = {"AX": self.atoms[0], "AY": self.atoms[1], "PAD": self.pad}
        if self.width:
            macros |= {"VEC": self.width, "VAL": self.values}
        source = (HERE / "twins" / f"{self.twin}.cu").read_text()
        return nvrtc.compile_cubin(source, "k", arch, options=[f"-D{name}={n}" for name, n in macros.items()])


TILED, ASYNC, WIDE, FRAG, DBL = ("03_matmul_tiled", "04_matmul_async", "05_matmul_vectorized", "06_matmul_overlapped",
                                 "09_matmul_double_buffered")
PAIRS = [
    Pair("tiled ", TILED, "simt_naive_tiled", (16, 16), width=0),
    Pair("direct", ASYNC, "simt_naive_direct", (16, 16), by_hand=(29.9, 32.7, 33.0)),
    Pair("direct", ASYNC, "simt_naive_direct", (16, 16), values=4),
    Pair("direct", ASYNC, "simt_naive_direct", (32, 8), by_hand=(27.8, 30.2, 30.2)),
    Pair("direct", WIDE, "simt_naive_direct", (16, 16), width=2, values=2, pad=2),
    Pair("frag  ", FRAG, "simt_naive_frag", (32, 8), options=(True,), by_hand=(28.4, 31.3, 31.6)),
    Pair("frag  ", FRAG, "simt_naive_frag", (16, 16), options=(True,), by_hand=(29.8, 32.8, 33.5)),
    Pair("frag  ", FRAG, "simt_naive_frag", (32, 8), 2, 2, 2, options=(True,), by_hand=(30.7, 33.7, 33.8)),
    Pair("dbl   ", DBL, "simt_naive_dbl", (32, 8), 2, 2, 2, stages=2, by_hand=(30.4, 33.6, 34.3)),
    Pair("dbl   ", DBL, "simt_naive_dbl", (16, 16), 2, 2, 2, stages=2, by_hand=(32.8, 36.5, 37.3)),
]


@cache
def load_example(stem):
    spec = importlib.util.spec_from_file_location(f"example_{stem}", HERE.parent / "examples" / f"{stem}.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def moye_way(pair, A, B, C):
    """A launch of moye's kernel."""
    grid = (C.shape[0] // TILE, C.shape[1] // TILE)
    launch, arguments = pair.kernel()[grid, THREADS], pair.arguments(A, B, C)
    return lambda: launch(*arguments)


def twin_way(loaded, A, B, C):
    """A launch of the twin."""
    (M, N), K = C.shape, A.shape[1]
    grid, params = (M // TILE * (N // TILE), 1, 1), (A.data_ptr(), B.data_ptr(), C.data_ptr(), M, N, K)
    return lambda: loaded.launch(grid, (THREADS, 1, 1), None, 0, driver.current_stream(0), params)


def contest(torch, M, N, K, twins, rounds):
    """Errors, TFLOP/s and moye's programs at one shape: ("moye" or "twin", number of the pair), or "cuBLAS"."""
    torch.manual_seed(0)
    A, B, C = (torch.randn(columns, rows, device="cuda").T for rows, columns in ((M, K), (N, K), (M, N)))
    ways = {}
    for i, (pair, (_, loaded)) in enumerate(zip(PAIRS, twins, strict=True)):
        ways["moye", i], ways["twin", i] = moye_way(pair, A, B, C), twin_way(loaded, A, B, C)
    ways["cuBLAS"] = lambda: torch.mm(A, B.T, out=C)
    expected, errors = A.double() @ B.double().T, {}
    norm = expected.norm()
    for way, run in ways.items():
        C.fill_(float("nan"))
        run()
        errors[way] = float((C.double() - expected).norm() / norm)
    del expected
    programs = [pair.kernel().compile(*pair.arguments(A, B, C), block=THREADS) for pair in PAIRS]
    ms = interleave(ways, rounds)
    return errors, {way: 2e-9 * M * N * K / taken for way, taken in ms.items()}, programs


def main(rounds=12):
    try:
        import torch
    except ImportError:
        sys.exit("this benchmark needs torch")
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs an NVIDIA GPU")
    torch.backends.cuda.matmul.allow_tf32 = False
    twins = []
    for pair in PAIRS:
        compiled = pair.compile_twin(driver.device_arch(0))
        twins.append((compiled, driver.load(compiled.cubin, "k", 0, ("P", "P", "P", "i", "i", "i"))))
    print(f"{torch.cuda.get_device_name()}, fp32; TFLOP/s, L2 flushed; registers and bytes spilled: moye, twin")
    print(f"{'M, N, K':>16}  {'design':32} {'moye':>6} {'twin':>6} {'ratio':>6} {'by hand':>8} {'twin/hand':>9} "
          f"{'cuBLAS':>7}  {'registers':>9} {'spilled':>8}  errors")
    ratios, to_hand, wrong = [], [], 0
    for s, (M, N, K) in enumerate(SHAPES):
        errors, speed, programs = contest(torch, M, N, K, twins, rounds * (1 if M * N * K > 2**34 else 4))
        cublas = f"{speed['cuBLAS']:7.2f}"
        for i, (pair, program, (twin, _)) in enumerate(zip(PAIRS, programs, twins, strict=True)):
            moye, hand = speed["moye", i], speed["twin", i]
            row = "       -         -"
            if pair.by_hand:
                row = f"{pair.by_hand[s]:8.1f} {hand / pair.by_hand[s]:9.3f}"
                to_hand.append(hand / pair.by_hand[s])
            ratios.append(moye / hand)
            bad = [errors[who, i] for who in ("moye", "twin") if not errors[who, i] < WANTED]
            wrong += len(bad)
            spills = f"{program.spills}, {twin.spill_stores + twin.spill_loads}"
            print(f"{f'{M}, {N}, {K}':>16}  {pair!s:32} {moye:6.2f} {hand:6.2f} {moye / hand:6.3f} {row} {cublas}  "
                  f"{f'{program.registers}, {twin.registers}':>9} {spills:>8}  "
                  f"{errors['moye', i]:.0e}, {errors['twin', i]:.0e}{'  WRONG' if bad else ''}", flush=True)
    print(f"moye/twin: {min(ratios):.3f} to {max(ratios):.3f}; twin/by hand: {min(to_hand):.3f} to {max(to_hand):.3f}")
    if wrong:
        sys.exit(f"{wrong} results are wrong: their relative errors are not below {WANTED}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
