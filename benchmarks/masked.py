"""Ragged arrays beside whole ones: a sum of 2^26 + 1 float32, and RMSNorm of rows of 4097 columns; GB/s and ratios.

"whole" has no predicates, at 2^26 elements or 4096 columns; "even" is the masked kernel there, "ragged" at one element
or column more.  Interleaved in one process, the order reversed every other round; random-normal data; L2 flushed before
every launch; medians.  Every result is compared with float64 first.  RMSNorm is run with 3 to 6 blocks on a
multiprocessor, and each program's best counts.

    python benchmarks/masked.py [rounds]
"""

import sys
from functools import partial

import torch

import masked_kernels as kernels
from moye.testing import interleave

LENGTH, ROWS, COLUMNS = 1 << 26, 16384, 4096
RESIDENT = (3, 4, 5, 6)
NAMES = ("whole", "even", "ragged")


def vectors(length):
    a, b = (torch.randn(length, device="cuda") for _ in range(2))
    return torch.empty_like(a), a, b


def matrix(columns, dtype):
    x = torch.randn(ROWS, columns, device="cuda").to(dtype)
    return torch.empty_like(x), x, torch.randn(columns, device="cuda").to(dtype)


def close_to_norm(out, x, weight):
    """Whether the result is that of float64, but for the rounding of its dtype."""
    step = 256
    for first in range(0, len(x), step):
        rows = x[first:first + step].double()
        want = rows / (rows.square().mean(1, keepdim=True) + 1e-6).sqrt() * weight.double()
        bound = 1e-2 if x.dtype is torch.bfloat16 else 1e-5
        torch.testing.assert_close(out[first:first + step].double(), want, rtol=bound, atol=bound)


def report(what, sizes, ms):
    """One line: the bandwidth of each program at its best, and what the ragged one has of the others."""
    rates = {name: max((sizes[name] / time * 1e-6, how) for (each, how), time in ms.items() if each == name)
             for name in NAMES}
    told = "".join(f"{rates[name][0]:9.0f}{rates[name][1]:>4}" for name in NAMES)
    ragged = rates["ragged"][0]
    print(f"{what:18}{told}   {ragged / rates['whole'][0]:.3f}   {ragged / rates['even'][0]:.3f}", flush=True)


def sums(rounds):
    whole, ragged = vectors(LENGTH), vectors(LENGTH + 1)
    programs = {"whole": (whole, kernels.add_whole), "even": (whole, kernels.add), "ragged": (ragged, kernels.add)}
    for (out, a, b), kernel in programs.values():
        out.zero_()
        kernels.launch_add(out, a, b, kernel)
        assert torch.equal(out, a + b)
    runs = {(name, ""): lambda arrays=arrays, kernel=kernel: kernels.launch_add(*arrays, kernel)
            for name, (arrays, kernel) in programs.items()}
    report("sum float32", {name: 12 * len(arrays[0]) for name, (arrays, _) in programs.items()},
           interleave(runs, rounds))


def norms(dtype, rounds):
    whole, ragged = matrix(COLUMNS, dtype), matrix(COLUMNS + 1, dtype)
    programs = {"whole": (whole, kernels.rms_norm_whole), "even": (whole, kernels.rms_norm),
                "ragged": (ragged, kernels.rms_norm)}
    runs = {}
    for name, (arrays, kernel) in programs.items():
        for resident in RESIDENT:
            arrays[0].zero_()
            run = partial(kernels.launch_rms_norm, *arrays, kernel=kernel, resident=resident)
            run()
            close_to_norm(*arrays)
            runs[name, resident] = run
    sizes = {name: 2 * arrays[1].numel() * arrays[1].element_size() for name, (arrays, _) in programs.items()}
    report(f"RMSNorm {str(dtype)[6:]}", sizes, interleave(runs, rounds))


def main(rounds=20):
    print(f"{torch.cuda.get_device_name()}, medians of {rounds} rounds; GB/s and blocks\n"
          f"{'':18}        whole         even       ragged   ragged / whole, ragged / even")
    torch.manual_seed(0)
    sums(rounds)
    for dtype in (torch.float32, torch.bfloat16):
        norms(dtype, rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
