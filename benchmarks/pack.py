"""``moye.kernels.packed`` beside torch on the GPU: copies whose rows begin at multiples of 16 bytes; GB/s, both ways.

torch's ``contiguous`` (``clone`` where there would be nothing to do) makes rows that TMA may not be able to describe;
``copy_`` writes into a buffer padded as moye's is; "memcpy" is a device-to-device copy of as many bytes.  Interleaved
in one process, the order reversed every other round; random-normal data; L2 flushed before every launch; medians.
Every result is compared bit by bit first.

    python benchmarks/pack.py [rounds]
"""

import sys

import torch

from moye.kernels import packed
from moye.testing import interleave

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
F8 = torch.float8_e4m3fn
CASES = [                               # dtype, rows, K, contiguous along, elements between lines
    (torch.bfloat16, 16384, 4097, "K", 0), (torch.float16, 4096, 4095, "K", 0), (torch.int8, 16384, 8193, "K", 0),
    (torch.float32, 8192, 4097, "K", 0), (torch.bfloat16, 16384, 4096, "K", 8), (torch.bfloat16, 65536, 100, "K", 0),
    (F8, 8192, 8192, "M", 0), (torch.bfloat16, 8192, 8192, "M", 0), (torch.float32, 8192, 8192, "M", 0),
    (F8, 4096, 4096, "M", 0), (F8, 8191, 8192, "M", 0), (torch.bfloat16, 8191, 8193, "M", 0),
    (torch.float32, 8191, 8193, "M", 0), (torch.bfloat16, 16384, 200, "M", 0)]


def matrix(dtype, rows, K, order, gap):
    lines, length = (rows, K) if order == "K" else (K, rows)
    x = torch.randn(lines, length + gap, device="cuda").to(dtype)[:, :length]
    return x if order == "K" else x.T


def row(dtype, rows, K, order, gap, rounds):
    x = matrix(dtype, rows, K, order, gap)
    y = packed(x)
    words = WORDS[x.element_size()]
    assert torch.equal(y.view(words), x.contiguous().view(words))
    size = 2 * x.numel() * x.element_size()
    room = torch.empty((rows, y.stride(0)), device="cuda", dtype=dtype)[:, :K]
    source, target = (torch.empty(size // 2, device="cuda", dtype=torch.uint8) for _ in range(2))
    plain = (lambda: x.clone(memory_format=torch.contiguous_format)) if x.is_contiguous() else x.contiguous
    ms = interleave({"moye": lambda: packed(x), "contiguous": plain, "copy_": lambda: room.copy_(x),
                     "memcpy": lambda: target.copy_(source)}, rounds)
    rates = {name: size / time * 1e-6 for name, time in ms.items()}
    pitch = (K if order == "K" else rows) + gap
    told = "".join(f"{rate:11.0f}" for rate in rates.values())
    print(f"{str(dtype)[6:]:14} {rows:6} {K:5} {pitch:6}  {order} {told}   {rates['moye'] / rates['memcpy']:.3f}",
          flush=True)


def main(rounds=20):
    print(f"{torch.cuda.get_device_name()}, medians of {rounds} rounds; GB/s\n"
          f"dtype            rows     K  pitch          moye contiguous      copy_     memcpy   moye / memcpy")
    torch.manual_seed(0)
    for case in CASES:
        row(*case, rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
