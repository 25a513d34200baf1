"""Drawn calls of the operators of ``moye.torch`` and of their gradients, compared with torch's in float64.

In: a seed, a device.  Out: nothing, or AssertionError: a result, or a gradient, that is farther off than its dtype
allows.

    FAMILIES["rms_norm"](Draw(np.random.default_rng(3)))

Tensors are views of any strides in larger ones, also repeated ones, of any shape that an operator takes, also without
elements.  What is exact and how results are rounded is tested beside the kernels; here all numbers are of one size, and
a difference is measured by the largest of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import moye.torch as mt
from drawn_memory import shape_of

FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
CLOSE = {torch.bfloat16: 2.0**-6, torch.float16: 2.0**-9, torch.float32: 2.0**-17, torch.float64: 2.0**-42}
"""How far an element may be off: of the largest one, and of itself."""


@dataclass
class Draw:
    """What one call is drawn from; ``inputs`` are its tensors of floating point, by float64 copies with a gradient."""

    rng: np.random.Generator
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    inputs: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dtype = self.one(*FLOATS)

    def one(self, *values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def chance(self, part: float) -> bool:
        return bool(self.rng.random() < part)

    def placed(self, values: Tensor) -> Tensor:
        """These values as a view of other memory: contiguous, turned, with gaps, or begun later."""
        if not values.dim() or self.chance(0.4):
            return values.to(self.device)
        order = [int(i) for i in self.rng.permutation(values.dim())]
        room = [values.shape[i] * self.one(1, 1, 2) + self.one(0, 0, 1, 8) for i in order]
        memory = torch.full((math.prod(room) + 8,), 0, dtype=values.dtype)[self.one(0, 1, 8):]
        view = memory[:math.prod(room)].view(room).permute([order.index(i) for i in range(len(order))])
        steps = [2 if view.shape[i] >= 2 * n and self.chance(0.3) else 1 for i, n in enumerate(values.shape)]
        view = view[tuple(slice(0, n * step, step) for n, step in zip(values.shape, steps, strict=True))]
        view.copy_(values)
        return view.to(self.device) if self.device == "cpu" else _moved(view, self.device)

    def numbers(self, *shape: int, dtype: torch.dtype | None = None, tracked: bool = True, repeated: bool = True,
                dense: bool = False) -> Tensor:
        """Normal numbers; now and then one along a mode is all of them, if they may be ``repeated``."""
        whole = [1 if n and repeated and self.chance(0.05) else n for n in shape]
        values = torch.from_numpy(np.asarray(self.rng.standard_normal(whole))).to(dtype or self.dtype)
        x = (values.to(self.device) if dense else self.placed(values)).expand(shape).detach()
        exact = x.double().clone()
        if tracked and self.chance(0.85):
            x, exact = x.requires_grad_(), exact.requires_grad_()
        self.inputs.append((x, exact))
        return x

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        values = torch.from_numpy(np.asarray(self.rng.integers(low, high, shape)))
        return self.placed(values.to(self.one(torch.int32, torch.int64)))

    def gradient(self, x: Tensor) -> Tensor:
        """A gradient of a result; now and then one number along modes, as that of a sum is."""
        whole = [1 if n and self.chance(0.2) else n for n in x.shape]
        return self.placed(torch.from_numpy(np.asarray(self.rng.standard_normal(whole))).to(x.dtype)).expand(x.shape)

    def exact(self, x: Tensor | None) -> Tensor | None:
        """The float64 copy of an input."""
        return next((exact for mine, exact in self.inputs if mine is x), x)

    def compare(self, got: Any, want: Any, *, loose: float = 1.0, dtype: torch.dtype | None = None) -> None:
        """Results, and the gradients of a drawn gradient."""
        pairs = [(x, y) for x, y in zip(_several(got), _several(want), strict=True) if x.is_floating_point()]
        for i, (x, y) in enumerate(pairs):
            _near(x, y, loose, f"result {i}", dtype or self.dtype)
        tracked = [(x, exact) for x, exact in self.inputs if x.requires_grad]
        pairs = [(x, y) for x, y in pairs if x.requires_grad]
        if not pairs or not tracked:
            return
        seeds = [self.gradient(x) for x, _ in pairs]
        mine = torch.autograd.grad([x for x, _ in pairs], [x for x, _ in tracked], seeds, allow_unused=True)
        others = torch.autograd.grad([y for _, y in pairs], [x for _, x in tracked],
                                     [g.to(y.dtype) for g, (_, y) in zip(seeds, pairs, strict=True)],
                                     allow_unused=True)
        for i, (x, y) in enumerate(zip(mine, others, strict=True)):
            assert x is not None, f"gradient {i} is missing"
            terms = max(1.0, max(g.numel() for g in seeds) / max(1, x.numel()))
            size = max((float(g.abs().amax()) for g in seeds if g.numel()), default=0.0) * math.sqrt(terms)
            _near(x, torch.zeros_like(x, dtype=torch.float64) if y is None else y, 4 * loose, f"gradient {i}",
                  dtype or self.dtype, size)


def _moved(view: Tensor, device: str) -> Tensor:
    """The same view of memory there."""
    memory = view.as_strided((view.untyped_storage().nbytes() // view.itemsize,), (1,), 0).to(device)
    return memory.as_strided(view.shape, view.stride(), view.storage_offset())


def _several(x: Any) -> tuple[Tensor, ...]:
    return (x,) if isinstance(x, Tensor) else tuple(x)


def _near(got: Tensor, want: Tensor, loose: float, what: str, dtype: torch.dtype, size: float = 0.0) -> None:
    """``size``: of the terms that were added up, and may leave nothing."""
    assert got.shape == want.shape, f"{what} has shape {tuple(got.shape)}, not {tuple(want.shape)}"
    if not got.numel():
        return
    with torch.no_grad():
        want = want.double()
        largest = float(want[want.isfinite()].abs().amax()) if want.isfinite().any() else 0.0
        limit = loose * max(CLOSE[dtype], CLOSE.get(got.dtype, 0)) * (want.abs() + max(size, largest))
        both = (got.double() == want) | (got.isnan() & want.isnan())
        wrong = ~(both | ((got.double() - want).abs() <= limit + 1e-30))
        assert not wrong.any(), (f"{what}: {int(wrong.sum())} of {wrong.numel()} in {got.dtype} are off, such as "
                                 f"{float(got[wrong][0])}, not {float(want[wrong][0])}")


# --- element by element, and moves -----------------------------------------------------------------------------------


def swiglu(d: Draw) -> None:
    shape = shape_of(d.rng)
    gate = d.numbers(*shape)
    if shape[-1] % 2 == 0 and d.chance(0.5):
        a, b = d.exact(gate).chunk(2, -1) if shape[-1] else (d.exact(gate),) * 2
        d.compare(mt.swiglu(gate), F.silu(a) * b)
        return
    up = d.numbers(*shape)
    d.compare(mt.swiglu(gate, up), F.silu(d.exact(gate)) * d.exact(up))


def geglu(d: Draw) -> None:
    shape, kind = shape_of(d.rng), d.one("none", "tanh")
    gate, up = d.numbers(*shape), d.numbers(*shape)
    d.compare(mt.geglu(gate, up, approximate=kind), F.gelu(d.exact(gate), approximate=kind) * d.exact(up))


def permute(d: Draw) -> None:
    shape = shape_of(d.rng)
    axes = [int(i) for i in d.rng.permutation(len(shape))]
    x = d.numbers(*shape)
    d.compare(mt.permute(x, [i - len(shape) if d.chance(0.3) else i for i in axes]), d.exact(x).permute(axes))


def rope(d: Draw) -> None:
    batch, seq, heads, half, more = (d.one(0, 1, 2, 3), d.one(0, 1, 5, 9), d.one(1, 2, 3), d.one(1, 3, 4, 8),
                                     d.one(0, 0, 1, 4))
    x = d.numbers(batch, seq, heads, 2 * half + more)
    cos, sin = (d.numbers(seq + 3, half, dtype=d.one(torch.float32, d.dtype), tracked=False) for _ in range(2))
    inverse, interleaved = d.chance(0.5), d.chance(0.5)
    offset, positions = d.one(0, 3), None
    if d.chance(0.5):
        offset, positions = 0, d.integers(0, seq + 3, *d.one((seq,), (batch, seq)))
    got = mt.rope(x, cos, sin, positions, offset, interleaved, inverse)
    at = torch.arange(seq, device=x.device) + offset if positions is None else positions.long()
    c, s = (d.exact(t)[at.expand(batch, seq)][:, :, None] for t in (cos, sin))
    s = -s if inverse else s
    y, rest = d.exact(x)[..., :2 * half], d.exact(x)[..., 2 * half:]
    a, b = (y[..., ::2], y[..., 1::2]) if interleaved else y.chunk(2, -1)
    pair = a * c - b * s, b * c + a * s
    turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    d.compare(got, torch.cat((turned, rest), -1))


def embedding(d: Draw) -> None:
    rows, columns = d.one(1, 7, 33), d.one(0, 1, 8, 65)
    if d.device != "cpu":                               # torch's own gradient without columns reads anywhere there
        columns = max(1, columns)
    table, ids = d.numbers(rows, columns), d.integers(0, rows, *shape_of(d.rng, most=60, fewest=0, longest=3))
    padding = d.one(None, None, 0, -1)
    wanted = F.embedding(ids.long(), d.exact(table), None if padding is None else padding % rows)
    d.compare(mt.embedding(ids, table, padding), wanted, loose=4)


# --- folds -----------------------------------------------------------------------------------------------------------


def reduce(d: Draw) -> None:
    shape, kind = shape_of(d.rng), d.one("sum", "mean", "max", "min", "norm1", "norm2", "norminf", "logsumexp")
    count = d.one(*range(1, len(shape) + 1))
    axes = [int(i) for i in d.rng.choice(len(shape), count, replace=False)] if d.chance(0.8) else None
    gone = tuple(range(len(shape))) if axes is None else tuple(axes)
    if not math.prod(shape[i] for i in gone) and kind in ("max", "min"):
        return
    x, keep = d.numbers(*shape), d.chance(0.5)
    y = d.exact(x)
    folds: dict[str, Callable[[], Tensor]] = {
        "sum": lambda: y.sum(gone, keep), "mean": lambda: y.mean(gone, keep), "max": lambda: y.amax(gone, keep),
        "min": lambda: y.amin(gone, keep), "norm1": lambda: y.abs().sum(gone, keep),
        "norm2": lambda: torch.linalg.vector_norm(y, 2, gone, keep),
        "norminf": lambda: y.abs().amax(gone, keep) if y.numel() else y.sum(gone, keep),
        "logsumexp": lambda: torch.logsumexp(y, gone, keep)}
    told = axes if axes is None else [i - len(shape) if d.chance(0.3) else i for i in axes]
    d.compare(mt.reduce(x, kind, told, keep), folds[kind](), loose=4)


def cumsum(d: Draw) -> None:
    shape = shape_of(d.rng)
    x, axis = d.numbers(*shape), int(d.rng.integers(-len(shape), len(shape)))
    d.compare(mt.cumsum(x, axis), d.exact(x).cumsum(axis), loose=4)


def top_k(d: Draw) -> None:
    """Of different numbers, so that there is one answer."""
    shape, largest = shape_of(d.rng, longest=3), d.chance(0.5)
    k = d.one(*range(shape[-1] + 1))
    ranks = d.rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)
    x = d.placed(torch.from_numpy(ranks.astype(np.float64)).to(d.dtype) - shape[-1] // 2).detach().requires_grad_()
    exact = x.detach().double().clone().requires_grad_()
    d.inputs.append((x, exact))
    values, indices = mt.top_k(x, k, largest)
    wanted = torch.topk(exact, k, -1, largest)
    assert shape[-1] > 256 or torch.equal(indices, wanted.indices), "indices"
    d.compare(values, wanted.values)


# --- rows ------------------------------------------------------------------------------------------------------------


def softmax(d: Draw, log: bool = False) -> None:
    shape = shape_of(d.rng)
    x, dim, scale = d.numbers(*shape), int(d.rng.integers(-len(shape), len(shape))), d.one(1.0, 0.125, 3.5)
    given: dict[str, Any] = {}
    scores = d.exact(x) * scale
    if d.chance(0.4):
        few = tuple(n if d.chance(0.6) else 1 for n in shape)[int(d.rng.integers(len(shape))):]
        mask = given["mask"] = d.numbers(*few)
        scores = scores + d.exact(mask)
    got = (mt.log_softmax if log else mt.softmax)(x, dim, scale=scale, **given)
    d.compare(got, (F.log_softmax if log else F.softmax)(scores, dim), loose=8 if "mask" in given else 2)


def log_softmax(d: Draw) -> None:
    softmax(d, True)


def cross_entropy(d: Draw) -> None:
    *rows, n = *shape_of(d.rng, most=60, fewest=0, longest=3), d.one(1, 2, 7, 33, 130)
    reduction = d.one("none", "sum", "mean") if math.prod(rows) else d.one("none", "sum")
    logits, labels = d.numbers(*rows, n), d.integers(0, n, *rows)
    ignored = d.one(-100, 0)
    smoothing = d.one(0.0, 0.0, 0.1)
    weight = d.numbers(n, tracked=False) if not smoothing and d.chance(0.3) else None
    got = mt.cross_entropy(logits, labels, weight, reduction=reduction, ignore_index=ignored, label_smoothing=smoothing)
    flat = F.cross_entropy(d.exact(logits).reshape(-1, n), labels.reshape(-1).long(), d.exact(weight),
                           reduction=reduction, ignore_index=ignored, label_smoothing=smoothing)
    d.compare(got, flat.reshape(rows) if reduction == "none" else flat, loose=8)


def linear_cross_entropy(d: Draw) -> None:
    tokens, hidden, n = d.one(0, 1, 3, 40, 130), d.one(1, 8, 33, 64), d.one(1, 7, 64, 130)
    reduction, chunk = d.one("none", "sum", "mean") if tokens else d.one("none", "sum"), d.one(None, None, 32)
    options = {"reduction": reduction, "ignore_index": d.one(-100, 0), "label_smoothing": d.one(0.0, 0.0, 0.1)}
    x, weight, labels = d.numbers(tokens, hidden), d.numbers(n, hidden), d.integers(0, n, tokens)
    got = mt.linear_cross_entropy(x, weight, labels, chunk=chunk, **options)
    scores = d.exact(x) @ d.exact(weight).T
    d.compare(got, F.cross_entropy(scores, labels.long(), **options), loose=16)


def norm(d: Draw, centred: bool = False) -> None:
    shape = shape_of(d.rng)
    x, given, eps = d.numbers(*shape, repeated=False), {}, d.one(1e-5, 1e-2)
    offset = d.one(0.0, 1.0)
    for name, of in (("weight", shape[-1:]), ("bias", shape[-1:]), ("residual", shape)):
        if d.chance(0.5):
            given[name] = d.numbers(*of)
    got = (mt.layer_norm if centred else mt.rms_norm)(x, eps=eps, offset=offset, **given)
    h = d.exact(x) + (d.exact(given["residual"]) if "residual" in given else 0)
    y = h - h.mean(-1, keepdim=True) if centred else h
    y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + eps)
    y = y * (d.exact(given["weight"]) + offset) if "weight" in given else y
    y = y + d.exact(given["bias"]) if "bias" in given else y
    d.compare(got, (y, h) if "residual" in given else y, loose=16)


def layer_norm(d: Draw) -> None:
    norm(d, True)


def norm_fp8(d: Draw, centred: bool = False) -> None:
    """The factors times what they divided, to 8 bits."""
    shape = shape_of(d.rng)
    x = d.numbers(*shape, tracked=False, repeated=False)
    by_block = d.chance(0.5)
    out, factors = (mt.layer_norm_fp8 if centred else mt.rms_norm_fp8)(x, by_block=by_block)
    y = d.exact(x)
    y = y - y.mean(-1, keepdim=True) if centred else y
    y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + (1e-5 if centred else 1e-6))
    each = (factors.double().repeat_interleave(128, -1)[..., :shape[-1]] if by_block else factors.double()[..., None])
    if not y.numel():
        return
    off = (out.double() * each - y).abs()
    assert bool((off <= 2.0**-3.9 * y.abs() + 2.0**-9 * each + 8 * CLOSE[d.dtype] * y.abs().amax()).all()), \
        f"off by {float(off.max())}"


def layer_norm_fp8(d: Draw) -> None:
    norm_fp8(d, True)


# --- products and attention ------------------------------------------------------------------------------------------


def linear(d: Draw) -> None:
    *rows, K = *shape_of(d.rng, most=200, fewest=0, longest=3), d.one(0, 1, 7, 16, 33, 64)
    N = d.one(1, 5, 8, 24, 65)
    x, weight = d.numbers(*rows, K), d.numbers(N, K)
    bias, activation = d.numbers(N) if d.chance(0.5) else None, d.one("none", "none", "relu", "gelu", "silu")
    tf32 = d.dtype == torch.float32 and d.chance(0.3)
    got = mt.linear(x, weight, bias, activation, tf32)
    acts = {"none": lambda y: y, "relu": F.relu, "gelu": F.gelu, "silu": F.silu}
    want = acts[activation](F.linear(d.exact(x), d.exact(weight), d.exact(bias)))
    d.compare(got, want, loose=16, dtype=torch.float16 if tf32 else None)


def attention(d: Draw) -> None:
    batch, heads_k, group = d.one(0, 1, 2), d.one(1, 2), d.one(1, 2, 3)
    queries, keys, dim, dim_v = d.one(1, 7, 40, 70), d.one(1, 5, 64, 66), d.one(16, 40, 64), d.one(16, 64)
    d.dtype = d.one(*FLOATS[:3]) if d.chance(0.8) else torch.float64
    q, k, v = (d.numbers(batch, n, h, e) for n, h, e in (
        (queries, heads_k * group, dim), (keys, heads_k, dim), (keys, heads_k, dim_v)))
    causal, scale = d.chance(0.4), d.one(None, 0.2)
    sinks = d.numbers(heads_k * group, dtype=torch.float64 if d.dtype == torch.float64 else torch.float32, dense=True,
                      repeated=False) if d.chance(0.3) else None
    got = mt.attention(q, k, v, causal=causal, scale=scale, sinks=sinks)
    y, u, w = (d.exact(t).transpose(1, 2) for t in (q, k, v))
    scores = y @ u.repeat_interleave(group, 1).transpose(-1, -2) * (dim ** -0.5 if scale is None else scale)
    if causal:
        rows = torch.arange(queries, device=q.device)[:, None] + keys - queries
        scores = scores.masked_fill(torch.arange(keys, device=q.device) > rows, -math.inf)
    if sinks is not None:
        scores = torch.cat((scores, d.exact(sinks)[:, None, None].expand(*scores.shape[:-1], 1)), -1)
    p = torch.softmax(scores.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0), -1)
    p = torch.where((scores == -math.inf).all(-1, keepdim=True), 0.0, p)[..., :keys]    # rows that see nothing
    d.compare(got, (p @ w.repeat_interleave(group, 1)).transpose(1, 2), loose=8)


def paged_attention(d: Draw) -> None:
    d.dtype = d.one(*FLOATS[:2])
    batch, heads_k, group, dim = d.one(1, 2, 3), d.one(1, 2), d.one(1, 2, 4), d.one(16, 64, 128)
    page, pages, queries = d.one(16, 64), d.one(1, 2, 5), d.one(1, 1, 2, 3)
    q = d.numbers(batch, queries, heads_k * group, dim, tracked=False)
    k, v = (d.numbers(pages * batch, page, heads_k, dim, tracked=False, dense=True, repeated=False) for _ in range(2))
    table = torch.from_numpy(d.rng.permutation(pages * batch).reshape(batch, pages).astype(np.int32)).to(d.device)
    lengths = torch.from_numpy(d.rng.integers(queries, pages * page + 1, batch).astype(np.int32)).to(d.device)
    got = mt.paged_attention(q, k, v, table, lengths)
    for i, length in enumerate(lengths.tolist()):
        u, w = (d.exact(t)[table[i].long()].flatten(0, 1)[:length].transpose(0, 1).repeat_interleave(group, 0)
                for t in (k, v))
        scores = d.exact(q)[i].transpose(0, 1) @ u.transpose(-1, -2) * dim ** -0.5
        rows = torch.arange(queries, device=q.device)[:, None] + length - queries
        scores = scores.masked_fill(torch.arange(length, device=q.device) > rows, -math.inf)
        _near(got[i], (torch.softmax(scores, -1) @ w).transpose(0, 1), 4.0, f"sequence {i}", d.dtype)


FAMILIES: dict[str, Callable[[Draw], None]] = {
    "attention": attention, "cross_entropy": cross_entropy, "cumsum": cumsum, "embedding": embedding, "geglu": geglu,
    "layer_norm": layer_norm, "layer_norm_fp8": layer_norm_fp8, "linear": linear,
    "linear_cross_entropy": linear_cross_entropy, "log_softmax": log_softmax, "paged_attention": paged_attention,
    "permute": permute, "reduce": reduce, "rms_norm": norm, "rms_norm_fp8": norm_fp8, "rope": rope, "softmax": softmax,
    "swiglu": swiglu, "top_k": top_k}
