"""Drawn calls of every public kernel and operator on a device that is not there, and what each costs the host.

In: a family, a seed.  Out: ``make(rows)``, which makes the call with tensors of its own; ``ways`` counts what of it
goes the long way.

    make = FAMILIES["softmax"](Draw(3))
    with ways() as gone, device(): call = make(128); call(); call(); call(); gone.clear(); call(); assert not gone

``rows`` is what varies in inference: tokens, the length of a sequence, a batch.  All else of a family is drawn.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch

import moye as mo
import moye.torch as mt
from fake_device import fake_device
from moye import kernels
from moye.kernels import gemm as _gemm
from moye.runtime.kernel import Kernel, Launcher
from moye.runtime.replayed import Planned, Replayed

BF16, F16, F32, F64, E4M3 = torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.float8_e4m3fn
I8, I32, I64 = torch.int8, torch.int32, torch.int64
Call = Callable[[], Any]
Make = Callable[[int], Call]


class Draw:
    """What one family draws from."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([23, seed])

    def one(self, *values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def chance(self, part: float = 0.5) -> bool:
        return bool(self.rng.random() < part)

    def floats(self) -> torch.dtype:
        return self.one(BF16, F16, F32)


def empty(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


def called(function: Callable[..., Any], *args: Any, **named: Any) -> Call:
    return functools.partial(function, *args, **{key: x for key, x in named.items() if x is not None})


# --- rows ------------------------------------------------------------------------------------------------------------


def softmax(draw: Draw) -> Make:
    function, n, dtype = draw.one(kernels.softmax, kernels.log_softmax), draw.one(64, 1000, 4096), draw.floats()
    masked, scale, causal = draw.chance(0.3), draw.one(None, 0.5, np.float32(0.5)), draw.one(None, None, 0)
    in_place = draw.chance(0.3)

    def make(rows: int) -> Call:
        x = empty(rows, n, dtype=dtype)
        return called(function, x if in_place else torch.empty_like(x), x, scale=scale, causal=causal,
                      mask=empty(n, dtype=F32) if masked else None)
    return make


def softmax_backward(draw: Draw) -> Make:
    function, n = draw.one(kernels.softmax_backward, kernels.log_softmax_backward), draw.one(64, 1000, 4096)
    dtype = draw.floats()
    return lambda rows: called(function, *(empty(rows, n, dtype=dtype) for _ in range(3)))


def norm(draw: Draw) -> Make:
    centred, n, dtype, added, fp8 = draw.chance(), draw.one(64, 1000, 4096), draw.floats(), draw.chance(), draw.chance()
    kept = draw.chance()

    def make(rows: int) -> Call:
        x, weight = empty(rows, n, dtype=dtype), empty(n, dtype=dtype)
        more = {"residual": empty(rows, n, dtype=dtype), "summed": empty(rows, n, dtype=dtype)} if added else {}
        out, scale = (empty(rows, n, dtype=E4M3), empty(rows, dtype=F32)) if fp8 else (torch.empty_like(x), None)
        more |= {"rstd": empty(rows, dtype=F32)} if kept else {}
        return called(kernels.layer_norm if centred else kernels.rms_norm, out, x, weight, scale=scale, **more)
    return make


def norm_backward(draw: Draw) -> Make:
    centred, n, dtype, sums = draw.chance(), draw.one(64, 1000, 4096), draw.floats(), draw.chance()

    def make(rows: int) -> Call:
        dx, dout, x = (empty(rows, n, dtype=dtype) for _ in range(3))
        statistics = [empty(rows, dtype=F32) for _ in range(1 + centred)]
        function = kernels.layer_norm_backward if centred else kernels.rms_norm_backward
        return called(function, dx, dout, x, empty(n, dtype=dtype), *statistics,
                      dweight=empty(n, dtype=dtype) if sums else None)
    return make


def cross_entropy(draw: Draw) -> Make:
    n, dtype, gradients, reduction = draw.one(1000, 32000), draw.floats(), draw.chance(), draw.one("mean", "none")

    def make(rows: int) -> Call:
        logits, labels = empty(rows, n, dtype=dtype), empty(rows, dtype=I64)
        loss = empty(dtype=F32) if reduction == "mean" else empty(rows, dtype=F32)
        return called(kernels.cross_entropy, loss, logits, labels, lse=empty(rows, dtype=F32), reduction=reduction,
                      dlogits=torch.empty_like(logits) if gradients else None)
    return make


def cross_entropy_backward(draw: Draw) -> Make:
    n, dtype = draw.one(1000, 32000), draw.floats()
    return lambda rows: called(kernels.cross_entropy_backward, empty(rows, n, dtype=dtype), None,
                               empty(rows, n, dtype=dtype), empty(rows, dtype=I64), empty(rows, dtype=F32))


def linear_cross_entropy(draw: Draw) -> Make:
    gradients = draw.chance()

    def make(rows: int) -> Call:
        x, W = empty(rows, 64), empty(1000, 64)
        more = {"dx": torch.empty_like(x), "dW": torch.empty_like(W)} if gradients else {}
        return called(kernels.linear_cross_entropy, empty(1, dtype=F32)[0], x, W, empty(rows, dtype=I64), **more)
    return make


# --- element by element, moves, folds --------------------------------------------------------------------------------


def gated(draw: Draw) -> Make:
    function, n, dtype = draw.one(kernels.swiglu, kernels.geglu), draw.one(64, 1000, 4096), draw.floats()
    return lambda rows: called(function, *(empty(rows, n, dtype=dtype) for _ in range(3)))


def gated_backward(draw: Draw) -> Make:
    function, n = draw.one(kernels.swiglu_backward, kernels.geglu_backward), draw.one(64, 1000, 4096)
    dtype = draw.floats()
    return lambda rows: called(function, (empty(rows, n, dtype=dtype), empty(rows, n, dtype=dtype)),
                               *(empty(rows, n, dtype=dtype) for _ in range(3))) if function is None else \
        called(function, empty(rows, 2 * n, dtype=dtype), empty(rows, n, dtype=dtype), empty(rows, 2 * n, dtype=dtype))


def moves(draw: Draw) -> Make:
    dtype, heads, n, function = draw.floats(), draw.one(2, 8), draw.one(64, 128), draw.one("permute", "transpose")
    if function == "permute":
        return lambda rows: called(kernels.permute, empty(2, heads, rows, n, dtype=dtype),
                                   empty(2, rows, heads, n, dtype=dtype), (0, 2, 1, 3))
    return lambda rows: called(kernels.transpose, empty(n, rows, dtype=dtype), empty(rows, n, dtype=dtype))


def rope(draw: Draw) -> Make:
    dtype, heads, told = draw.floats(), draw.one(2, 8), draw.chance()

    def make(rows: int) -> Call:
        x, tables = empty(2, rows, heads, 64, dtype=dtype), [empty(4096, 32, dtype=F32) for _ in range(2)]
        return called(kernels.rope, torch.empty_like(x), x, *tables,
                      positions=empty(2, rows, dtype=I64) if told else None)
    return make


def reduce(draw: Draw) -> Make:
    dtype, n, axis, kind = draw.floats(), draw.one(64, 1000), draw.one(0, 1), draw.one("sum", "max", "logsumexp")
    return lambda rows: called(kernels.reduce, empty(n if axis == 0 else rows, dtype=dtype),
                               empty(rows, n, dtype=dtype), kind, axis=axis)


def cumsum(draw: Draw) -> Make:
    dtype, n, axis = draw.floats(), draw.one(64, 1000), draw.one(0, 1)
    return lambda rows: called(kernels.cumsum, empty(rows, n, dtype=dtype), empty(rows, n, dtype=dtype), axis=axis)


def top_k(draw: Draw) -> Make:
    dtype, n, k = draw.floats(), draw.one(64, 1000), draw.one(2, 8)
    return lambda rows: called(kernels.top_k, empty(rows, k, dtype=dtype), empty(rows, k, dtype=I64),
                               empty(rows, n, dtype=dtype))


def embedding(draw: Draw) -> Make:
    dtype, n = draw.floats(), draw.one(64, 1000)
    return lambda rows: called(kernels.embedding, empty(rows, n, dtype=dtype), empty(5000, n, dtype=dtype),
                               empty(rows, dtype=I64))


def embedding_backward(draw: Draw) -> Make:
    n = draw.one(64, 1000)
    return lambda rows: called(kernels.embedding_backward, empty(5000, n, dtype=F32), empty(rows, n, dtype=F32),
                               empty(rows, dtype=I64))


# --- products --------------------------------------------------------------------------------------------------------


def gemm(draw: Draw) -> Make:
    dtype, (N, K) = draw.one(BF16, F16, F32, F64, E4M3, I8), draw.one((256, 512), (1000, 64))
    out = {E4M3: BF16, I8: I32}.get(dtype, dtype)
    biased = dtype in (BF16, F16) and draw.chance()
    return lambda rows: called(_gemm, empty(rows, K, dtype=dtype), empty(N, K, dtype=dtype), empty(rows, N, dtype=out),
                               bias=empty(N, dtype=out) if biased else None)


def gemm_plan(draw: Draw) -> Make:
    dtype = draw.one(BF16, F16)
    return lambda rows: kernels.gemm.plan(empty(rows, 512, dtype=dtype), empty(256, 512, dtype=dtype),
                                          empty(rows, 256, dtype=dtype))


def _product(function: Callable[..., Any], *dtypes: torch.dtype, **options: Any) -> Callable[[Draw], Make]:
    """A product by one kernel."""
    def family(draw: Draw) -> Make:
        dtype, (N, K) = draw.one(*dtypes), draw.one((256, 512), (512, 128))
        return lambda rows: called(function, empty(rows, K, dtype=dtype), empty(N, K, dtype=dtype),
                                   empty(rows, N, dtype=dtype), **options)
    return family


def gemm_streamed(draw: Draw) -> Make:
    few, K = draw.one(1, 4, 16), draw.one(512, 2048)
    return lambda rows: called(kernels.gemm_streamed, empty(few, K), empty(8 * rows, K), empty(few, 8 * rows))


def gemm_shallow(draw: Draw) -> Make:
    dtype, K = draw.one(BF16, F32), draw.one(16, 64)
    return lambda rows: called(kernels.gemm_shallow, empty(8 * rows, K, dtype=dtype), empty(256, K, dtype=dtype),
                               empty(8 * rows, 256, dtype=dtype))


def gemm_unaligned(draw: Draw) -> Make:
    """Rows of an odd number of elements, which are packed before they are multiplied."""
    return lambda rows: called(kernels.gemm_sm90, empty(rows, 4097), empty(256, 4097), empty(rows, 256))


def stacked(draw: Draw) -> Make:
    groups = draw.one(4, 16)
    return lambda rows: called(kernels.grouped_gemm_sm90, empty(rows, 512), empty(256, 512, groups).permute(0, 1, 2),
                               empty(rows, 256), empty(groups + 1, dtype=I32))


def experts(draw: Draw) -> Make:
    groups = draw.one(4, 16)
    return lambda rows: called(kernels.grouped_gemm_sm90, empty(rows, 512), empty(groups, 256, 512).permute(1, 2, 0),
                               empty(rows, 256), empty(groups + 1, dtype=I32))


def separate(draw: Draw) -> Make:
    groups = draw.one(4, 16)
    return lambda rows: called(kernels.grouped_gemm_sm90, *(
        [empty(*shape) for _ in range(groups)] for shape in ((rows, 512), (256, 512), (rows, 256))))


def packed(draw: Draw) -> Make:
    return lambda rows: called(kernels.packed, empty(rows, 4097))


# --- attention -------------------------------------------------------------------------------------------------------


def halved(score: Any, *_: Any) -> Any:
    return score * 0.5


def attention(draw: Draw) -> Make:
    heads, shared, causal, dtype = 4, draw.one(1, 2), draw.chance(), draw.one(BF16, F16)
    lse, window, score = draw.chance(), draw.one(None, (64, 0), (None, None)), draw.one(None, None, halved)

    def make(rows: int) -> Call:
        q, (k, v) = empty(2, rows, heads, 64, dtype=dtype), (empty(2, rows, heads // shared, 64, dtype=dtype)
                                                             for _ in range(2))
        return called(kernels.attention, torch.empty_like(q), q, k, v, causal=causal, window=window, score=score,
                      lse=empty(2, heads, rows, dtype=F32) if lse else None)
    return make


def attention_backward(draw: Draw) -> Make:
    causal = draw.chance()

    def make(rows: int) -> Call:
        x = [empty(2, rows, 4, 64) for _ in range(8)]
        return called(kernels.attention_backward, *x, empty(2, 4, rows, dtype=F32), causal=causal)
    return make


def attention_varlen(draw: Draw) -> Make:
    causal, longest = draw.chance(), draw.one(128, 512)

    def make(rows: int) -> Call:
        x, offsets = [empty(rows, 4, 64) for _ in range(4)], [empty(9, dtype=I32) for _ in range(2)]
        return called(kernels.attention_varlen, *x, *offsets, longest_q=longest, longest_k=longest, causal=causal)
    return make


def attention_varlen_backward(draw: Draw) -> Make:
    causal, longest = draw.chance(), draw.one(128, 512)

    def make(rows: int) -> Call:
        x, offsets = [empty(rows, 4, 64) for _ in range(8)], [empty(9, dtype=I32) for _ in range(2)]
        return called(kernels.attention_varlen_backward, *x, empty(4, rows, dtype=F32), *offsets, longest_q=longest,
                      longest_k=longest, causal=causal)
    return make


def paged_attention(draw: Draw) -> Make:
    pages, window = draw.one(16, 64), draw.one(None, 64)

    def make(rows: int) -> Call:
        q, caches = empty(rows, 1, 8, 64), [empty(256, pages, 2, 64) for _ in range(2)]
        return called(kernels.paged_attention, torch.empty_like(q), q, *caches, empty(rows, 32, dtype=I32),
                      empty(rows, dtype=I32), window=window)
    return make


# --- operators of torch ----------------------------------------------------------------------------------------------


def torch_attention(draw: Draw) -> Make:
    causal = draw.chance()
    return lambda rows: called(mt.attention, *(empty(2, rows, 4, 64) for _ in range(3)), causal=causal)


def torch_paged_attention(draw: Draw) -> Make:
    return lambda rows: called(mt.paged_attention, empty(rows, 1, 8, 64), *(empty(256, 16, 2, 64) for _ in range(2)),
                               empty(rows, 32, dtype=I32), empty(rows, dtype=I32))


def torch_gated(draw: Draw) -> Make:
    function, n, dtype = draw.one(mt.swiglu, mt.geglu), draw.one(64, 1000), draw.floats()
    return lambda rows: called(function, *(empty(rows, n, dtype=dtype) for _ in range(2)))


def torch_linear(draw: Draw) -> Make:
    dtype, bias = draw.one(BF16, F16, F32), draw.chance()
    return lambda rows: called(mt.linear, empty(rows, 512, dtype=dtype), empty(256, 512, dtype=dtype),
                               empty(256, dtype=dtype) if bias else None)


def torch_moves(draw: Draw) -> Make:
    dtype, which = draw.floats(), draw.one("embedding", "permute", "rope")
    if which == "embedding":
        return lambda rows: called(mt.embedding, empty(rows, dtype=I64), empty(5000, 64, dtype=dtype))
    if which == "permute":
        return lambda rows: called(mt.permute, empty(2, rows, 8, 64, dtype=dtype), (0, 2, 1, 3))
    return lambda rows: called(mt.rope, empty(2, rows, 8, 64, dtype=dtype), empty(4096, 32, dtype=F32),
                               empty(4096, 32, dtype=F32))


def torch_norm(draw: Draw) -> Make:
    function = draw.one(mt.rms_norm, mt.layer_norm, mt.rms_norm_fp8, mt.layer_norm_fp8)
    n, dtype, added = draw.one(64, 1000, 4096), draw.floats(), draw.chance()
    return lambda rows: called(function, empty(rows, n, dtype=dtype), empty(n, dtype=dtype),
                               residual=empty(rows, n, dtype=dtype) if added else None)


def torch_folds(draw: Draw) -> Make:
    dtype, which = draw.floats(), draw.one("cumsum", "reduce", "top_k")
    if which == "cumsum":
        return lambda rows: called(mt.cumsum, empty(rows, 1000, dtype=dtype))
    if which == "reduce":
        return lambda rows: called(mt.reduce, empty(rows, 1000, dtype=dtype), "sum", [1])
    return lambda rows: called(mt.top_k, empty(rows, 1000, dtype=dtype), 8)


def torch_softmax(draw: Draw) -> Make:
    function, dtype = draw.one(mt.softmax, mt.log_softmax), draw.floats()
    return lambda rows: called(function, empty(rows, 1000, dtype=dtype))


def torch_cross_entropy(draw: Draw) -> Make:
    dtype = draw.floats()
    if draw.chance():
        return lambda rows: called(mt.cross_entropy, empty(rows, 1000, dtype=dtype), empty(rows, dtype=I64))
    return lambda rows: called(mt.linear_cross_entropy, empty(rows, 64), empty(1000, 64), empty(rows, dtype=I64))


KERNELS: dict[str, Callable[[Draw], Make]] = {
    "softmax": softmax, "softmax_backward": softmax_backward, "norm": norm, "norm_backward": norm_backward,
    "cross_entropy": cross_entropy, "cross_entropy_backward": cross_entropy_backward,
    "linear_cross_entropy": linear_cross_entropy, "gated": gated, "gated_backward": gated_backward, "moves": moves,
    "rope": rope, "reduce": reduce, "cumsum": cumsum, "top_k": top_k, "embedding": embedding,
    "embedding_backward": embedding_backward, "gemm": gemm, "gemm_plan": gemm_plan,
    "gemm_sm90": _product(kernels.gemm_sm90, BF16, F16), "gemm_sm80": _product(kernels.gemm_sm80, BF16, F16),
    "gemm_simt": _product(kernels.gemm_simt, F32), "gemm_streamed": gemm_streamed,
    "gemm_shallow": gemm_shallow, "gemm_unaligned": gemm_unaligned, "experts": experts,
    "separate": separate, "packed": packed, "attention": attention, "attention_backward": attention_backward,
    "attention_varlen": attention_varlen, "attention_varlen_backward": attention_varlen_backward,
    "paged_attention": paged_attention}
OPERATORS: dict[str, Callable[[Draw], Make]] = {
    "torch_attention": torch_attention, "torch_paged_attention": torch_paged_attention, "torch_gated": torch_gated,
    "torch_linear": torch_linear, "torch_moves": torch_moves, "torch_norm": torch_norm, "torch_folds": torch_folds,
    "torch_softmax": torch_softmax, "torch_cross_entropy": torch_cross_entropy}
FAMILIES = KERNELS | OPERATORS


# --- kernels of users ------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Pair:
    """Arguments in a dataclass."""

    x: Any
    scale: Any


@mo.kernel
def one(out, x, scale):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(out):
        out[i] = x[i] * scale


@mo.kernel
def many(out, xs, scale):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(out):
        total = out.dtype(0)
        for x in xs:
            total += x[i]
        out[i] = total * scale


@mo.kernel
def named(out, x, how: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(out):
        out[i] = x["a"][i] * x["scale"] + how["more"][0]


@mo.kernel
def paired(out, pair):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(out):
        out[i] = pair.x[i] * pair.scale


@mo.kernel
def annotated(out, x, scale: mo.float32, count: mo.int32):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < count:
        out[i] = x[i] * scale


@mo.kernel
def lists(outs, xs):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    for out, x in zip(outs, xs, strict=True):
        if i < mo.size(out):
            out[i] = x[i]


@mo.kernel
def boxes(out, copies):
    if mo.thread_idx().x == 0:
        out[0] = mo.size(copies[0].tensor, 0) + mo.size(copies[1].tensor, 0)


def vectors(rows: int, count: int = 2) -> list[torch.Tensor]:
    return [empty(32 * rows, dtype=F32) for _ in range(count)]


def user_numbers(draw: Draw) -> Make:
    scale = draw.one(2, 2.0, True, np.float32(2), np.int64(3), np.float64(3))
    return lambda rows: called(one[rows, 32], *vectors(rows), scale)


def user_varying_numbers(draw: Draw) -> Make:
    steps = itertools.count()

    def make(rows: int) -> Call:
        out, x = vectors(rows)
        return lambda: one[rows, 32](out, x, next(steps))
    return make


def user_annotated(draw: Draw) -> Make:
    scale = draw.one(2, 2.0, np.float32(2))
    return lambda rows: called(annotated[rows, 32], *vectors(rows), scale, 32 * rows)


def user_keywords(draw: Draw) -> Make:
    return lambda rows: functools.partial(one[rows, 32], **dict(zip(("out", "x", "scale"), (*vectors(rows), 2.0),
                                                                   strict=True)))


def user_tuples(draw: Draw) -> Make:
    kind, count = draw.one(tuple, list), draw.one(1, 3)

    def make(rows: int) -> Call:
        out, *xs = vectors(rows, 1 + count)
        return called(many[rows, 32], out, kind(xs), 2.0)
    return make


def user_many(draw: Draw) -> Make:
    """Lists of many arrays, as kernels that go over all parameters of a model take them."""
    count = draw.one(16, 64)
    return lambda rows: called(lists[rows, 32], vectors(rows, count), vectors(rows, count))


def user_dicts(draw: Draw) -> Make:
    return lambda rows: (lambda out, x: called(named[rows, 32], out, {"a": x, "scale": 2.0}, {"more": (1, 2)}))(
        *vectors(rows))


def user_dataclass(draw: Draw) -> Make:
    return lambda rows: (lambda out, x: called(paired[rows, 32], out, Pair(x, 2.0)))(*vectors(rows))


def user_copies(draw: Draw) -> Make:
    """TMA copies in a tuple, as a host function makes them anew in each call."""
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (64, 64))

    def make(rows: int) -> Call:
        out, xs = empty(32, dtype=I32), [empty(64 * rows, 64) for _ in range(2)]
        return lambda: boxes[1, 32](out, tuple(mo.make_tma_copy(mo.TmaLoad(), x, layout) for x in xs))
    return make


def user_grids(draw: Draw) -> Make:
    """The same arrays with another grid each time: of numbers, tuples, numbers of NumPy."""
    kind, grids = draw.one(int, np.int64, lambda n: (n, 1)), itertools.count(1)

    def make(rows: int) -> Call:
        out, x = vectors(rows)
        return lambda: one[kind(next(grids) % 5000 + 1), 32](out, x, 2.0)
    return make


def user_launch(draw: Draw) -> Make:
    """By ``launch``, with options."""
    dependent = draw.chance()
    return lambda rows: called(one.launch, *vectors(rows), 2.0, grid=rows, block=32, dependent=dependent)


def user_stream(draw: Draw) -> Make:
    return lambda rows: called(one.launch, *vectors(rows), 2.0, grid=rows, block=32, stream=9)


def user_prepared(draw: Draw) -> Make:
    return lambda rows: one.prepare(*vectors(rows), 2.0, grid=rows, block=32)


USERS: dict[str, Callable[[Draw], Make]] = {
    "user_numbers": user_numbers, "user_varying_numbers": user_varying_numbers, "user_annotated": user_annotated,
    "user_keywords": user_keywords, "user_tuples": user_tuples, "user_many": user_many, "user_dicts": user_dicts,
    "user_dataclass": user_dataclass, "user_copies": user_copies, "user_grids": user_grids,
    "user_launch": user_launch, "user_stream": user_stream, "user_prepared": user_prepared}
FAMILIES |= USERS


# --- what goes the long way ------------------------------------------------------------------------------------------


def counted(counts: Counter[str], what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, and how often it was called."""
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        counts[what] += 1
        return function(*args, **kwargs)
    return call


LONG = (("run", Kernel, "_run"), ("plan", Launcher, "_long_way"), ("decide", Replayed, "_slowly"),
        ("refuse", Planned, "_slowly"))
"""A launch that is classified and checked anew; one that looks for its plan; a call that is looked at in full."""


@contextlib.contextmanager
def ways() -> Iterator[Counter[str]]:
    """How often the long ways were gone in the block, by their names in ``LONG``."""
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        for what, owner, name in LONG:
            stack.enter_context(mock.patch.object(owner, name, counted(counts, what, getattr(owner, name))))
        yield counts


@contextlib.contextmanager
def device() -> Iterator[Any]:
    """A device that is not there, on which the short ways are gone as on another."""
    functions = [x for x in vars(kernels).values() if isinstance(x, Replayed)]
    with torch.no_grad(), fake_device(*functions, short=True) as launches:
        yield launches


def long_ways(family: str, seed: int) -> tuple[list[str], list[str]]:
    """The long ways of a call that was made before, and of one with other tensors of the same kind."""
    make = FAMILIES[family](Draw(seed))
    with ways() as gone, device():
        call = make(128)
        for _ in range(4):
            call()
        gone.clear()
        call()
        again = sorted(gone)
        gone.clear()
        make(128)()
        return again, sorted(gone)
