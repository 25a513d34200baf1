"""Ragged arrays beside whole ones: a sum of 2^26 + 1 float32, and RMSNorm of rows of 4097 columns; GB/s and ratios.

"whole" has no predicates, at 2^26 elements or 4096 columns; "even" is the masked kernel there, "ragged" at one element
or column more.  Interleaved in one process, the order reversed every other round; random-normal data; L2 flushed before
every launch; medians.  Every result is compared with float64 first.  RMSNorm is run with 3 to 6 blocks on a
multiprocessor, and each program's best counts.

    python benchmarks/masked.py [rounds]

Other ways to write the rows of 4097 bfloat16 (masked_rows.py), each beside itself at 4096 columns:

    python benchmarks/masked.py ways [rounds]
"""

import sys
from functools import partial

import torch

import masked_kernels as kernels
import masked_rows as rows
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


def ways_of_rows():
    """name -> launch(out, x, weight, resident=): RMSNorm of rows that begin at any element."""
    found = {"masked vectors": kernels.launch_rms_norm, "granules": rows.launch_granules,
             "edges, 16 bytes": rows.launch_edges, "edges, 32 bytes": partial(rows.launch_edges, granule=16),
             "edges, 2 rows at once": partial(rows.launch_edges, at_once=2)}
    return found | {f"staged, {stages} rows": partial(rows.launch_staged, stages=stages) for stages in (3, 4)}


def ways(rounds):
    """One line a way: microseconds of ragged and whole rows at the best number of blocks, and bandwidths."""
    whole, ragged = matrix(COLUMNS, torch.bfloat16), matrix(COLUMNS + 1, torch.bfloat16)
    runs = {("no predicates", "aligned", r): partial(kernels.launch_rms_norm, *whole, kernel=kernels.rms_norm_whole,
                                                     resident=r) for r in RESIDENT}
    for name, launch in ways_of_rows().items():
        for kind, arrays in (("aligned", whole), ("ragged", ragged)):
            for resident in RESIDENT:
                arrays[0].zero_()
                run = partial(launch, *arrays, resident=resident)
                run()
                if resident == RESIDENT[0]:
                    close_to_norm(*arrays)
                runs[name, kind, resident] = run
    ms = interleave(runs, rounds)
    best = {}
    for (name, kind, resident), time in ms.items():
        best[name, kind] = min(best.get((name, kind), (float("inf"), 0)), (time, resident))
    size = {"aligned": 4 * whole[1].numel(), "ragged": 4 * ragged[1].numel()}
    top = size["aligned"] / best["no predicates", "aligned"][0] * 1e-6
    print(f"{'way':24}ragged us  blocks   aligned us  blocks   ratio   GB/s   of no predicates")
    for name in dict.fromkeys(name for name, _, _ in runs):
        aligned, among = best[name, "aligned"]
        if (name, "ragged") not in best:
            print(f"{name:24}{'':22}{aligned * 1e3:7.2f}{among:8}{'':10}{top:7.0f}", flush=True)
            continue
        time, blocks = best[name, "ragged"]
        rate = size["ragged"] / time * 1e-6
        print(f"{name:24}{time * 1e3:9.2f}{blocks:8}{aligned * 1e3:13.2f}{among:8}"
              f"{rate / (size['aligned'] / aligned * 1e-6):10.3f}{rate:7.0f}{rate / top:10.3f}", flush=True)


def main(*words):
    if words[:1] == ("ways",):
        torch.manual_seed(0)
        ways(int(words[1]) if len(words) > 1 else 10)
        return
    bandwidths(int(words[0]) if words else 20)


def bandwidths(rounds):
    print(f"{torch.cuda.get_device_name()}, medians of {rounds} rounds; GB/s and blocks\n"
          f"{'':18}        whole         even       ragged   ragged / whole, ragged / even")
    torch.manual_seed(0)
    sums(rounds)
    for dtype in (torch.float32, torch.bfloat16):
        norms(dtype, rounds)


if __name__ == "__main__":
    main(*sys.argv[1:])
