"""What rules of scores cost attention: soft cap, ALiBi, biases, sinks and a function, beside the same call without.

    python benchmarks/attention_rules.py [--dim 64] [--keys 4096] [--rounds 7]

In: nothing; random-normal bfloat16, 4 batches of 16 heads.  Out: a line for each rule: microseconds forward and, where
there are gradients, backward; torch's attention with that bias; and the worst error of some rows against float64.
Interleaved with the plain call, L2 flushed, medians.  Biases: of 16 bits for each head, one for all heads, for each
head and batch, with rows of an odd number of elements, and of float32.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from moye import kernels
from moye.testing import interleave

BATCH, HEADS, CAP = 4, 16, 20.0


def of_distance(score, row, column, head, batch):
    """A function of the user's."""
    return score - (row - column) * 0.01


def rules(keys: int) -> dict[str, dict[str, Any]]:
    """The options of each rule."""
    def bias(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device="cuda").bfloat16()

    def for_all(x: torch.Tensor) -> torch.Tensor:
        return x.expand(BATCH, HEADS, -1, -1)

    causal, slopes, sinks = {"causal": True}, torch.rand(HEADS, device="cuda"), torch.randn(HEADS, device="cuda")
    of_heads, of_all = bias(1, HEADS, keys, keys), bias(keys, keys)
    return {"plain": {}, "bias of heads": {"bias": for_all(of_heads)}, "bias of all": {"bias": for_all(of_all)},
            "bias of each": {"bias": bias(BATCH, HEADS, keys, keys)},
            "bias, odd rows": {"bias": for_all(bias(1, HEADS, keys, keys + 1)[..., :keys])},
            "bias, float32": {"bias": for_all(of_heads.float())}, "causal": causal,
            "causal, soft cap": causal | {"softcap": CAP}, "causal, ALiBi": causal | {"alibi": slopes},
            "causal, both": causal | {"softcap": CAP, "alibi": slopes}, "causal, sinks": causal | {"sinks": sinks},
            "causal, function": causal | {"score": of_distance}, "causal, bias": causal | {"bias": for_all(of_heads)}}


def exact(i: int, q: Any, k: Any, v: Any, given: dict[str, Any]) -> torch.Tensor:
    """Row i of the first head in float64."""
    scores = q[0, i, 0].double() @ k[0, :, 0].double().T / q.shape[-1] ** 0.5
    behind = i - torch.arange(len(scores), device="cuda")
    if "softcap" in given:
        scores = CAP * torch.tanh(scores / CAP)
    if "alibi" in given:
        scores = scores - given["alibi"][0].double() * behind.abs()
    if "bias" in given:
        scores = scores + given["bias"][0, 0, i].double()
    if "score" in given:
        scores = scores - behind * 0.01
    if "causal" in given:
        scores = scores.masked_fill(behind < 0, -torch.inf)
    sink = given["sinks"][0].double() if "sinks" in given else torch.tensor(-torch.inf, device="cuda").double()
    weights = torch.exp(scores - torch.logaddexp(scores.logsumexp(0), sink))
    return weights @ v[0, :, 0].double()


def measured(given: dict[str, Any], arrays: Any, rounds: int) -> tuple[dict[str, float], float]:
    """Milliseconds by name, and the error."""
    (q, k, v, dout), out = arrays, torch.full_like(arrays[0], torch.nan)
    lse = torch.empty(BATCH, HEADS, q.shape[1], device="cuda")
    runs: dict[str, Any] = {"forward": partial(kernels.attention, out, q, k, v, lse=lse, **given)}
    runs["forward"]()
    if not {"sinks", "score"} & set(given):
        gradients = [torch.empty_like(x) for x in (q, k, v)]
        runs["backward"] = partial(kernels.attention_backward, *gradients, dout, q, k, v, out, lse, **given)
    if "bias" in given and "causal" not in given and given["bias"].dtype == q.dtype:
        runs["torch"] = partial(scaled_dot_product_attention, *(x.transpose(1, 2) for x in (q, k, v)),
                                attn_mask=given["bias"])
    rows = 0, 1, 127, 128, q.shape[1] // 3, q.shape[1] - 1
    error = max(float((out[0, i, 0].double() - exact(i, q, k, v, given)).abs().max()) for i in rows)
    return interleave(runs, rounds), error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--keys", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("attention_rules.py measures on a GPU, and torch sees none")
    torch.manual_seed(0)
    arrays = [torch.randn(BATCH, options.keys, HEADS, options.dim, device="cuda").bfloat16() for _ in range(4)]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {options.dim} dimensions, {options.keys} keys")
    for name, given in rules(options.keys).items():
        times, error = measured(given, arrays, options.rounds)
        print(f"{name:18}", *(f"{run} {1e3 * ms:8.1f}" for run, ms in times.items()), f"error {error:.1e}", flush=True)


if __name__ == "__main__":
    main()
