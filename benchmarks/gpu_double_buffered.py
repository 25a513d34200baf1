"""moye's double-buffered matmul beside its hand-written CUDA twin and cuBLAS (fp32, TF32 off), on the GPU.

Interleaved in one process, the order reversed every other round; random-normal data; 256 MiB written before every
launch, so that L2 is cold; CUDA events around each launch; medians.  Both kernels are compared with float64 first.

    python benchmarks/gpu_double_buffered.py [rounds]
"""

import importlib.util
import statistics
import sys
from pathlib import Path

import torch

import moye as mo
from moye.cuda import driver, nvrtc

HERE = Path(__file__).parent
SHAPES = [(2048, 2048, 256), (2048, 2048, 2048), (4096, 4096, 4096)]
LEAD = 1_000_000                                        # cycles that the GPU waits, so that it never waits for Python


def load_example():
    spec = importlib.util.spec_from_file_location("example", HERE.parent / "examples" / "09_matmul_double_buffered.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def load_twin():
    """The hand-written kernel, compiled and loaded by the same code as moye's own."""
    source = (HERE / "twins" / "simt_naive_dbl_32x8.cu").read_text()
    compiled = nvrtc.compile_cubin(source, "k", driver.device_arch(0))
    return compiled, driver.load(compiled.cubin, "k", 0, ("P", "P", "P", "i", "i", "i"))


def column_major(rows, columns):
    return torch.randn(columns, rows, device="cuda").T


class Contest:
    """The three ways to compute one product."""

    def __init__(self, example, twin, M, N, K):
        torch.manual_seed(0)
        A, B, C = column_major(M, K), column_major(N, K), column_major(M, N)
        grid = (M // 128 * (N // 128), 1, 1)
        params = (A.data_ptr(), B.data_ptr(), C.data_ptr(), M, N, K)
        self.C, self.expected, self.flops = C, A.double() @ B.double().T, 2 * M * N * K
        self.ways = {
            "moye": lambda: example.matmul(A, B, C),
            "twin": lambda: twin.launch(grid, (256, 1, 1), None, 0, driver.current_stream(0), params),
            "cuBLAS": lambda: torch.mm(A, B.T, out=C),
        }
        self.flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")

    def error(self, way):
        """Relative Frobenius error against float64, on poisoned outputs."""
        self.C.fill_(float("nan"))
        self.ways[way]()
        return ((self.C.double() - self.expected).norm() / self.expected.norm()).item()

    def time(self, way):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.flush.zero_()
        torch.cuda._sleep(LEAD)
        start.record()
        self.ways[way]()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    def run(self, rounds):
        """Median seconds of each way."""
        times = {way: [] for way in self.ways}
        for i in range(rounds + 3):
            for way in list(self.ways)[:: 1 if i % 2 else -1]:
                seconds = self.time(way)
                if i >= 3:
                    times[way].append(seconds)
        return {way: statistics.median(measured) for way, measured in times.items()}


def main(rounds=100):
    assert torch.cuda.is_available(), "this benchmark needs an NVIDIA GPU and torch"
    torch.backends.cuda.matmul.allow_tf32 = False
    example, (compiled, twin) = load_example(), load_twin()
    print(f"{torch.cuda.get_device_name()}, fp32, TFLOP/s, L2 flushed, median of {rounds} rounds or fewer")
    print(f"{'M, N, K':>18} {'moye':>7} {'twin':>7} {'cuBLAS':>7} {'moye/twin':>10}   errors of moye, twin")
    for M, N, K in SHAPES:
        contest = Contest(example, twin, M, N, K)
        errors = [contest.error(way) for way in ("moye", "twin")]
        assert max(errors) < 1e-5, f"relative errors {errors}"
        seconds = contest.run(max(10, rounds * 2**30 // (M * N * K) if M * N * K > 2**30 else rounds))
        speed = {way: contest.flops / t / 1e12 for way, t in seconds.items()}
        print(f"{f'{M}, {N}, {K}':>18} {speed['moye']:7.2f} {speed['twin']:7.2f} {speed['cuBLAS']:7.2f} "
              f"{speed['moye'] / speed['twin']:10.3f}   {errors[0]:.1e}, {errors[1]:.1e}")
    like = mo.TensorLike(mo.float32, (2048, 256))
    program = example.matmul_kernel.compile(
        like, example.S_LAYOUT, example.COPY, like, example.S_LAYOUT, example.COPY,
        mo.TensorLike(mo.float32, (2048, 2048)), example.MMA, block=mo.size(example.MMA))
    print(f"registers: moye {program.registers}, twin {compiled.registers}; bytes spilled: moye {program.spills}, "
          f"twin {compiled.spill_stores + compiled.spill_loads}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
