"""Cross-entropy of logits = x @ W.T that are never whole in memory, and the gradients of x and W.

In: x (tokens, hidden), W (columns, hidden), labels (tokens).  Out: losses and gradients, written in place.

    linear_cross_entropy(loss, x, W, labels, dx=dx, dW=dW)

Tokens go by chunks through three products and one kernel of rows: logits = x @ W.T, their losses and in place of them
their gradients, dx = dlogits @ W, dW += dlogits.T @ x.  So the logits of one chunk are there at a time.  Without
gradients, 16-bit operands on sm_90a need no logits at all: each tile of the product leaves its sums (``linear_sums``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import moye as mo
from moye.kernels.gemm.dispatch import gemm
from moye.kernels.options import integer
from moye.kernels.rows.arrays import in_memory
from moye.kernels.rows.cross_entropy import (
    IGNORED,
    LABELS,
    Options,
    check_loss,
    check_options,
    count_of,
    for_rows,
    launch_rows,
    nothing,
    of_each,
    options_of,
    total_of,
)
from moye.kernels.rows.linear_sums import launch_sums, suits
from moye.kernels.rows.softmax import wider
from moye.kernels.rows.views import dtype_of, some_rows
from moye.kernels.views import FLOATS, described
from moye.kernels.workspace import columns, empty, swapped

TILE = 128
"""Rows of a tile of the products: chunks are multiples of it."""
LEAST = 1024
"""Tokens of a chunk for which products are still at full speed."""
_PITCH = 64
"""Rows of logits begin at multiples of so many elements: 128 bytes of 16-bit floats."""


class _Tokens(NamedTuple):
    """What belongs to some tokens: each array has a row for each of them."""

    losses: Any
    lse: Any
    dloss: Any
    x: Any
    labels: Any
    dx: Any


def chunk_of(tokens: int, hidden: int) -> int:
    """Tokens of a chunk: as many as ``hidden``, so that logits take the memory of W; at least 1024.

    Each chunk but the first reads and writes dW once more.  All chunks have nearly the same size, a multiple of 128.
    """
    chunks = -(-tokens // max(LEAST, hidden))
    return -(-tokens // (chunks * TILE)) * TILE


@mo.replayed
def linear_cross_entropy(loss: Any, x: Any, W: Any, labels: Any, *, dx: Any = None, dW: Any = None, dloss: Any = None,
                         lse: Any = None, weight: Any = None, reduction: str = "mean", ignore_index: int = IGNORED,
                         label_smoothing: float = 0.0, z_loss: float = 0.0, chunk: int | None = None) -> Any:
    """loss = cross-entropy of x @ W.T with labels, in place, and the gradients if asked for; returns loss.

    x is (tokens, hidden), W (columns, hidden), of one dtype, float16, bfloat16, float32 or float64; labels (tokens).
    loss, lse, dloss, weight and the options are those of ``cross_entropy``, for logits in the dtype of x.  ``dx`` is
    like x and ``dW`` like W; of 16-bit operands dW may hold float32.  It is added up in its own dtype, chunk by chunk.
    ``chunk`` tokens go together, by default ``chunk_of``: beside the arguments there is memory for chunk x columns
    logits, and two numbers for each token.  16-bit operands on sm_90a, contiguous along hidden, have no logits in
    memory where no gradient is asked for.  ArgumentError for other arguments.
    """
    name = "linear_cross_entropy"
    options = options_of(name, ignore_index, label_smoothing, z_loss, reduction)
    chunk = None if chunk is None else integer(name, "chunk", chunk, "no positive number of tokens", 1)
    a, w = _checked(name, x, W, dx, dW)
    (tokens, hidden), (n, _) = a.shape, w.shape
    check_options(name, weight, options)
    _check_rows(name, loss, dloss, lse, labels, weight, (tokens, n), options)
    wanted = dx is not None or dW is not None
    if dloss is not None and not wanted:
        raise mo.ArgumentError(f"{name}: dloss is the gradient of loss, and there is no dx or dW to multiply by it")
    in_memory(name, {"loss": loss, "lse": lse, "dx": dx, "dW": dW},
              {"x": x, "W": W, "labels": labels, "weight": weight, "dloss": dloss}, in_place=())
    if tokens == 0:
        if dW is not None:
            dW[...] = 0
        return nothing(name, loss, (tokens, n), options)
    losses = loss if reduction == "none" else for_rows(x, wider(a.dtype), (tokens,))
    lse = for_rows(x, wider(a.dtype), (tokens,)) if lse is None else lse
    if not wanted and suits(a, w, mo.arch_of(x)):
        launch_sums(losses, lse, x, W, labels, weight, options.ignored, options.smoothing, options.z)
        return total_of(loss, losses, labels, weight, n, options)
    each = of_each(name, dloss, (tokens,), options)
    count = count_of(x, labels, weight, n, options) if wanted else None
    size = min(tokens, chunk or chunk_of(tokens, hidden))
    room = swapped(empty(x, a.dtype, (-(-n // _PITCH) * _PITCH, size)))     # (tokens, columns)
    for first in range(0, tokens, size):
        end = min(first + size, tokens)
        part = _Tokens(*(None if t is None else some_rows(t, first, end) for t in (losses, lse, each, x, labels, dx)))
        held = columns(some_rows(room, 0, end - first), n, batched=True)
        _chunk(part, W, dW, held, weight, count, options, first > 0)
    return total_of(loss, losses, labels, weight, n, options)


def _chunk(part: _Tokens, W: Any, dW: Any, logits: Any, weight: Any, count: Any, options: Options, more: bool) -> None:
    """The products of some tokens; ``more``: dW has the sum of tokens before."""
    gemm(part.x, W, logits)
    dlogits = logits if part.dx is not None or dW is not None else None
    launch_rows(part.losses, part.lse, dlogits, part.dloss, logits, part.labels, weight, count, options)
    if part.dx is not None:
        gemm(logits, swapped(W), part.dx)
    if dW is not None:
        half = dtype_of(W).bits == 16          # whose residual leaves C to TMA
        sums: dict[str, Any] = {} if not more else {"residual": dW} if half else {"beta": 1}
        gemm(swapped(logits), swapped(part.x), dW, **sums)


def _checked(name: str, x: Any, W: Any, dx: Any, dW: Any) -> tuple[Any, Any]:
    """What x and W are like."""
    a, w = described(name, "x", x), described(name, "W", W)
    if a.dtype != w.dtype:
        raise mo.ArgumentError(f"{name}: x holds {a.dtype} and W {w.dtype}; they must be the same")
    if len(a.shape) != 2 or len(w.shape) != 2 or a.shape[1] != w.shape[1] or 0 in w.shape:
        raise mo.ArgumentError(f"{name}: x {tuple(a.shape)} and W {tuple(w.shape)} are not (tokens, hidden) and "
                               "(columns, hidden)")
    for letter, given, like in (("dx", dx, a), ("dW", dW, w)):
        if given is not None:
            allowed = (like.dtype, *(mo.float32,) * (letter == "dW" and w.dtype.bits == 16))
            info = described(name, letter, given, allowed)
            if tuple(info.shape) != tuple(like.shape):
                raise mo.ArgumentError(f"{name}: {letter} has shape {tuple(info.shape)}, and must have "
                                       f"{tuple(like.shape)}, as {letter[1]} has")
    return a, w


def _check_rows(name: str, loss: Any, dloss: Any, lse: Any, labels: Any, weight: Any, shape: tuple[int, int],
                options: Options) -> None:
    """What belongs to each token, to each column, or to all."""
    check_loss(name, "loss", loss, shape[:1], options)
    if dloss is not None:
        check_loss(name, "dloss", dloss, shape[:1], options)
    wide = (mo.float32, mo.float64)
    for letter, given, length, dtypes in (("labels", labels, shape[0], LABELS), ("lse", lse, shape[0], wide),
                                          ("weight", weight, shape[1], FLOATS)):
        if given is not None or letter == "labels":
            found = tuple(described(name, letter, given, dtypes).shape)
            if found != (length,):
                raise mo.ArgumentError(f"{name}: {letter} has shape {found}, and must have {(length,)}")
