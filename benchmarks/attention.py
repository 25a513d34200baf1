"""Attention at its limit: forward and backward in TFLOP/s beside cuDNN and FlashAttention 2, decoding in GB/s.

cuDNN and FlashAttention 2 are those of torch.  All run interleaved in one process, in an order shuffled for each case,
on random-normal bfloat16 (batch, seqlen, heads, dim); medians.  The clock and the power of the GPU are told.  Every
result is compared with cuDNN's, as the norm of the difference over the norm.  Rows with "fp8" have operands,
or caches, of float8_e4m3fn: beside them are moye and cuDNN with the same numbers in bfloat16.

    python benchmarks/attention.py [--rounds 30] [--only backward] [--csv attention.csv]

A forward pass counts 4 multiplications and additions of batch * heads * queries * keys * dim, half of them if causal,
a backward pass 10.  Decoding counts the bytes of keys and values, and has torch's copy beside it.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from moye import kernels
from moye.testing import interleave
from power import Sampler

PEERS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FA2": SDPBackend.FLASH_ATTENTION}
TOKENS = 16384
FORWARD, BACKWARD = 4, 10


@dataclass
class Case:
    """``work``: operations or bytes.  ``runs`` has a function for each name; ``results()`` those of moye and a peer."""

    name: str
    work: float
    unit: str
    runs: dict[str, Callable[[], Any]]
    results: Callable[[], tuple[Any, Any]] | None = None
    failed: dict[str, str] = field(default_factory=dict)


def heads(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def _peer(backend: SDPBackend, causal: bool, shared: bool, *arrays: torch.Tensor) -> torch.Tensor:
    """torch's attention of (batch, seqlen, heads, dim)."""
    with sdpa_kernel(backend):
        out: torch.Tensor = scaled_dot_product_attention(*(x.transpose(1, 2) for x in arrays), is_causal=causal,
                                                         enable_gqa=shared)
    return out.transpose(1, 2)


def forward(dim: int = 128, seqlen: int = 4096, causal: bool = False, count: int = 16, count_k: int = 0,
            window: int | None = None) -> Case:
    batch, shared = max(1, TOKENS // seqlen), count_k or count
    q, k, v = heads(batch, seqlen, count, dim), heads(batch, seqlen, shared, dim), heads(batch, seqlen, shared, dim)
    out = torch.empty_like(q)
    runs: dict[str, Callable[[], Any]] = {
        "moye": lambda: kernels.attention(out, q, k, v, causal=causal, window=(window, None))}
    if window is None:
        runs |= {name: partial(_peer, backend, causal, shared != count, q, k, v) for name, backend in PEERS.items()}
    pairs = seqlen * seqlen * (0.5 if causal else 1.0) if window is None else seqlen * min(window, seqlen)
    how = f"{'causal' if causal else 'full'}{f' window {window}' if window else ''}"
    work = FORWARD * batch * count * pairs * dim
    return Case(f"forward {how} {dim} {seqlen} {count}/{shared}", work, "TFLOP/s", runs,
                None if window is not None else lambda: ((runs["moye"](),), (runs["cuDNN"](),)))


def forward_fp8(dim: int = 128, seqlen: int = 4096, causal: bool = False, count: int = 16, count_k: int = 0) -> Case:
    """q, k and v of float8_e4m3fn with a factor for each head, beside the same in bfloat16."""
    batch, shared = max(1, TOKENS // seqlen), count_k or count
    q, k, v = (heads(batch, seqlen, each, dim).to(torch.float8_e4m3fn) for each in (count, shared, shared))
    wide, out, wide_out = [x.bfloat16() for x in (q, k, v)], *(heads(batch, seqlen, count, dim) for _ in range(2))
    scales = {f"{name}_scale": torch.ones(batch, each, device="cuda")
              for name, each in zip("qkv", (count, shared, shared), strict=True)}
    runs: dict[str, Callable[[], Any]] = {
        "moye": lambda: kernels.attention(out, q, k, v, causal=causal, **scales),
        "bf16": lambda: kernels.attention(wide_out, *wide, causal=causal),
        "cuDNN": partial(_peer, PEERS["cuDNN"], causal, shared != count, *wide)}
    work = FORWARD * batch * count * seqlen * seqlen * (0.5 if causal else 1.0) * dim
    return Case(f"forward fp8 {'causal' if causal else 'full'} {dim} {seqlen} {count}/{shared}", work, "TFLOP/s", runs,
                lambda: ((runs["moye"](),), (runs["cuDNN"](),)))


def backward(dim: int = 128, seqlen: int = 4096, causal: bool = False, count: int = 16) -> Case:
    batch = max(1, TOKENS // seqlen)
    q, k, v, dout = (heads(batch, seqlen, count, dim) for _ in range(4))
    out, lse = torch.empty_like(q), torch.empty(batch, count, seqlen, device="cuda")
    kernels.attention(out, q, k, v, causal=causal, lse=lse)
    gradients = [torch.empty_like(x) for x in (q, k, v)]
    run = partial(kernels.attention_backward, *gradients, dout, q, k, v, out, lse, causal=causal)
    runs: dict[str, Callable[[], Any]] = {"moye": run, "moye in order": partial(run, deterministic=True)}
    inputs = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    failed = {}
    for name, backend in PEERS.items():
        try:
            result = _peer(backend, causal, False, *inputs)
        except RuntimeError as error:                   # torch has no such kernel
            failed[name] = str(error).partition("\n")[0]
        else:
            runs[name] = partial(torch.autograd.grad, result, inputs, dout, retain_graph=True)
    return Case(f"backward {'causal' if causal else 'full'} {dim} {seqlen} {count}",
                BACKWARD * batch * count * seqlen * seqlen * (0.5 if causal else 1.0) * dim, "TFLOP/s", runs,
                lambda: (runs["moye"](), runs["cuDNN"]()), failed)


def varlen(dim: int = 128, equal: int = 4096, causal: bool = False, count: int = 16, backwards: bool = False) -> Case:
    """Sequences of drawn lengths beside as much work in sequences of one length: of ``equal`` rows, fewer and longer,
    and as many as were drawn.  The last one is compared.
    """
    batch = TOKENS // equal
    drawn = torch.rand(3 * batch, dtype=torch.float64) + 0.1
    lengths = (drawn * (batch * equal ** 2 / drawn.square().sum()).sqrt()).round().int()
    offsets = torch.cat((torch.zeros(1), lengths.cumsum(0))).int().cuda()
    longest, work = int(lengths.max()), count * float(lengths.double().square().sum()) * dim * (0.5 if causal else 1.0)
    ragged = {"offsets_q": offsets, "offsets_k": offsets, "longest_q": longest, "longest_k": longest, "causal": causal}
    (out, *inputs), run = _pass((int(lengths.sum()), count, dim), ragged, backwards)
    alike = round(float(lengths.double().square().mean().sqrt()))
    (_, beside), (_, as_many) = (_pass((*shape, count, dim), {"causal": causal}, backwards)
                                 for shape in ((batch, equal), (len(lengths), alike)))

    def results() -> tuple[Any, Any]:
        last = [x[None, -int(lengths[-1]):].contiguous() for x in (out, *inputs)]
        return (last[0],), (_peer(PEERS["cuDNN"], causal, False, *last[1:]),)
    name = f"{'backward' if backwards else 'forward'} varlen {'causal' if causal else 'full'} {dim} "
    return Case(name + "+".join(map(str, lengths.tolist())), work * (BACKWARD if backwards else FORWARD), "TFLOP/s",
                {"moye": run, "equal": beside, "as many equal": as_many}, results)


def _pass(shape: tuple[int, ...], how: dict[str, Any], backwards: bool) -> tuple[list[torch.Tensor], Callable[[], Any]]:
    """out, q, k, v of a shape, and what is to be timed."""
    q, k, v, dout = (heads(*shape) for _ in range(4))
    out, lse = torch.empty_like(q), torch.empty(*shape[:-3], shape[-2], shape[-3], device="cuda")
    one, other = kernels.attention, kernels.attention_backward
    if len(shape) == 3:
        one, other = kernels.attention_varlen, kernels.attention_varlen_backward
    forwards = partial(one, out, q, k, v, lse=lse, **how)
    forwards()
    gradients = [torch.empty_like(x) for x in (q, k, v)]
    return [out, q, k, v], partial(other, *gradients, dout, q, k, v, out, lse, **how) if backwards else forwards


def decode(batch: int = 16, keys: int = 8192, count: int = 64, count_k: int = 8, dim: int = 128, queries: int = 1,
           page: int = 64, stored: str = "bf16", by_token: bool = False) -> Case:
    """``stored`` = "fp8": caches of float8_e4m3fn, with a factor for each head or for each token."""
    pages = -(-keys // page)
    q, *whole = heads(batch, queries, count, dim), *(heads(batch * pages, page, count_k, dim) for _ in range(2))
    out, table = torch.empty_like(q), torch.randperm(batch * pages, device="cuda").int().reshape(batch, pages)
    lengths, given, (k, v) = torch.full((batch,), keys, dtype=torch.int32, device="cuda"), {}, whole
    if stored == "fp8":
        k, v = (x.to(torch.float8_e4m3fn) for x in whole)
        scale = torch.ones((batch * pages, page, count_k) if by_token else (batch, count_k), device="cuda")
        whole, given = [x.bfloat16() for x in (k, v)], {"k_scale": scale, "v_scale": scale}
    target, work = torch.empty_like(k), 2 * k.numel() * k.element_size()
    runs: dict[str, Callable[[], Any]] = {
        "moye": lambda: kernels.paged_attention(out, q, k, v, table, lengths, **given),
        "copy": lambda: target.copy_(k)}

    def results() -> tuple[Any, Any]:
        lined = (x[table.long()].reshape(batch, pages * page, count_k, dim)[:, :keys].transpose(1, 2) for x in whole)
        exact = scaled_dot_product_attention(q.transpose(1, 2), *lined, enable_gqa=True).transpose(1, 2)
        return (runs["moye"](),), (exact,)
    kind = "" if stored == "bf16" else f" {stored} factors of {'tokens' if by_token else 'heads'}"
    return Case(f"decode {batch} x {keys} {count}/{count_k} {dim} pages of {page}{kind}", work, "GB/s", runs,
                results if queries == 1 else None)


KINDS = [(dim, seqlen, causal) for dim in (64, 128, 256) for causal in (False, True) for seqlen in (1024, 4096, 16384)]
CASES: list[Callable[[], Case]] = [
    *(partial(forward, *kind) for kind in KINDS),
    *(partial(forward, 128, seqlen, causal, 64, 8) for causal in (False, True) for seqlen in (8192, 16384)),
    partial(forward, 128, 16384, True, window=1024),
    *(partial(forward_fp8, *kind) for kind in KINDS),
    *(partial(forward_fp8, 128, 16384, causal, 64, 8) for causal in (False, True)),
    *(partial(backward, *kind) for kind in KINDS),
    *(partial(varlen, causal=causal, backwards=backwards) for backwards in (False, True) for causal in (False, True)),
    decode, partial(decode, page=16), partial(decode, page=256), partial(decode, 1, 65536), partial(decode, 64, 2048),
    partial(decode, queries=4),
    *(partial(decode, *kind, stored="fp8", by_token=each) for kind in ((), (1, 65536), (64, 2048))
      for each in (False, True))]


def measured(case: Case, rounds: int, sampler: Sampler) -> dict[str, Any]:
    """One row of the table; a peer that torch does not have for the case is left out, with its reason."""
    runs = {}
    for name, run in random.sample(sorted(case.runs.items()), len(case.runs)):
        try:
            run()
            runs[name] = run
        except RuntimeError as error:
            case.failed[name] = str(error).partition("\n")[0]
    start = time.perf_counter()
    ms = interleave(runs, rounds)
    state = sampler.mean(start, time.perf_counter())
    scale = 1e-9 if case.unit == "TFLOP/s" else 1e-6
    row = {"case": case.name, "unit": case.unit, **{name: case.work / time * scale for name, time in ms.items()},
           "MHz": state.mhz, "W": state.watts, "error": _error(case)}
    return row | {f"no {name}": why for name, why in case.failed.items()}


def _error(case: Case) -> float:
    """The largest norm of a difference, over the norm."""
    if case.results is None or "cuDNN" in case.failed:
        return float("nan")
    return max(float((x.double() - y.double()).norm() / y.double().norm())
               for x, y in zip(*case.results(), strict=True))


def rows(only: str, rounds: int, sampler: Sampler) -> Iterator[dict[str, Any]]:
    for make in CASES:
        if only in str(make):
            torch.cuda.empty_cache()
            yield measured(make(), rounds, sampler)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", default="", help="forward, backward, decode or fp8")
    parser.add_argument("--csv")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("attention.py measures on a GPU, and torch sees none")
    torch.manual_seed(0)
    table = []
    properties = torch.cuda.get_device_properties(0)
    with Sampler(f"GPU-{properties.uuid}") as sampler:
        print(f"{properties.name}, at most {sampler.limit} W, torch {torch.__version__}")
        for row in rows(options.only, options.rounds, sampler):
            table.append(row)
            print("  ".join(f"{name} {value:.4g}" if isinstance(value, float) else str(value)
                            for name, value in row.items()), flush=True)
    if options.csv:
        names = list(dict.fromkeys(name for row in table for name in row))
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
