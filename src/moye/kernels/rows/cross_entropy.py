"""Cross-entropy of logits with integer labels, and its gradient: what is refused, which kernels are launched.

In: logits (rows..., columns) and labels (rows...).  Out: losses, logarithms of sums, gradients, written in place.

    cross_entropy(loss, logits, labels, lse=lse)                                    # the mean of all rows that count
    cross_entropy(loss, logits, labels, dlogits=logits)                             # and the gradient over the logits
    cross_entropy_backward(dlogits, dloss, logits, labels, lse)
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import moye as mo
from moye.kernels.options import integer, real, shown
from moye.kernels.rows.arrays import Rows, in_memory
from moye.kernels.rows.entropy import (
    COUNTED,
    THREADS,
    cross_entropy_backward_kernel,
    cross_entropy_kernel,
    cross_entropy_staged_kernel,
    total_kernel,
)
from moye.kernels.rows.plan import RowPlan
from moye.kernels.rows.softmax import wider
from moye.kernels.rows.views import dtype_of, launched, plan_of, repeated, shape_of, viewed
from moye.kernels.views import FLOATS, described, has_clusters
from moye.kernels.workspace import empty

IGNORED = -100
REDUCTIONS = ("none", "mean", "sum")
LABELS = (mo.int32, mo.int64)
_ALONE, _TOGETHER = 8, 8
"""Numbers of a thread that one block adds up at most, and the blocks of a cluster that adds up more."""
_WARP = mo.hardware.WARP
_SINGLES = 4
"""Elements of float32 in 16 bytes."""


class Options(NamedTuple):
    """What the sums are like: the label that does not count, smoothing, z-loss, reduction."""

    ignored: int
    smoothing: float
    z: float
    reduction: str


@mo.replayed
def cross_entropy(loss: Any, logits: Any, labels: Any, *, lse: Any = None, dlogits: Any = None, dloss: Any = None,
                  weight: Any = None, reduction: str = "mean", ignore_index: int = IGNORED,
                  label_smoothing: float = 0.0, z_loss: float = 0.0, plan: RowPlan | None = None) -> Any:
    """loss = cross-entropy of softmax(logits) with labels, in place, and the gradient if asked for; returns loss.

    logits are (rows..., columns) of float16, bfloat16, float32 or float64 and any strides, labels (rows...) of int32 or
    int64.  ``loss`` is (rows...) with ``reduction="none"``; else it has one element, the "sum" over all rows or their
    "mean", which divides by how many labels are not ``ignore_index``, or by the sum of their weights (NaN if there are
    none).  ``weight`` has a number for each column, by which the loss of a row with that label is multiplied.
    ``label_smoothing`` from 0 to 1 and ``z_loss``, the factor of lse ** 2, add their terms to each row.  ``lse``
    (rows...), float32 or float64, gets the logarithms of the sums of exponentials.

    ``dlogits``, of the shape of logits and perhaps their memory, gets the gradient from the same read of each row,
    times ``dloss``, which is like loss (1 if left out).  Rows of labels that do not count have loss 0 and gradient 0.
    Sums are float32, float64 for float64, always in the same order.  A label that is none of the columns gives NaN, and
    with MOYE_ASSERT=1, and in the simulator, an error.  ``plan`` takes the place of the rule's.  ArgumentError for
    other arguments.
    """
    name = "cross_entropy"
    options = options_of(name, ignore_index, label_smoothing, z_loss, reduction)
    given = _given(name, logits, labels, weight, options)
    shape, wide = given.info.shape, wider(given.info.dtype)
    check_loss(name, "loss", loss, shape[:-1], options)
    if lse is not None:
        given.of_rows("lse", lse)
    if dlogits is not None:
        _gradients(given, dlogits, dloss, options)
    elif dloss is not None:
        raise mo.ArgumentError(f"{name}: dloss is the gradient of loss, and there is no dlogits to multiply by it")
    plan = given.checked(plan)
    in_memory(name, {"loss": loss, "lse": lse, "dlogits": dlogits},
              {"logits": logits, "labels": labels, "weight": weight, "dloss": dloss}, in_place=("logits",))
    if given.rows == 0:
        return nothing(name, loss, shape, options)
    losses = loss if reduction == "none" else for_rows(logits, wide, shape[:-1])
    lse = for_rows(logits, wide, shape[:-1]) if lse is None else lse
    counts = _counts(given, plan, options) and dlogits is not None
    count = count_of(logits, labels, weight, shape[-1], options) if dlogits is not None and not counts else None
    dloss = of_each(name, dloss, shape[:-1], options)
    launch_rows(losses, lse, dlogits, dloss, logits, labels, weight, count, options, plan, counts=counts)
    return total_of(loss, losses, labels, weight, shape[-1], options)


@mo.replayed
def cross_entropy_backward(dlogits: Any, dloss: Any, logits: Any, labels: Any, lse: Any, *, weight: Any = None,
                           reduction: str = "mean", ignore_index: int = IGNORED, label_smoothing: float = 0.0,
                           z_loss: float = 0.0) -> Any:
    """dlogits = the gradient of ``cross_entropy`` times dloss, in place; returns dlogits, which may be logits.

    ``lse`` is what ``cross_entropy`` wrote, ``dloss`` is like its loss, and the other arguments are those that it had.
    """
    name = "cross_entropy_backward"
    options = options_of(name, ignore_index, label_smoothing, z_loss, reduction)
    given = _given(name, logits, labels, weight, options)
    gS, gI = given.of_rows("lse", lse, needed=True), given.of_rows("labels", labels, LABELS)
    gD = given.alike("dlogits", dlogits, needed=True)
    _gradients(given, dlogits, dloss, options)
    in_memory(name, {"dlogits": dlogits}, {"dloss": dloss, "logits": logits, "labels": labels, "lse": lse,
                                           "weight": weight}, in_place=("logits",))
    if given.rows == 0:
        return dlogits
    shape, plan = given.info.shape, plan_of(given)
    counts = _counts(given, plan, options)
    count = None if counts else count_of(logits, labels, weight, shape[-1], options)
    each = given.of_rows("dloss", of_each(name, dloss, shape[:-1], options), FLOATS)
    cross_entropy_backward_kernel.launch(gD, each, given.matrix, gI, gS, weight, count, options.ignored,
                                         options.smoothing, options.z, plan, counts, **launched(given, plan),
                                         dependent=count is not None)
    return dlogits


def _counts(given: Rows, plan: RowPlan | None, options: Options) -> bool:
    """Whether the warps of the kernel count the labels for a mean themselves."""
    return options.reduction == "mean" and given.rows <= COUNTED and (plan is None or plan.threads % _WARP == 0)


def launch_rows(losses: Any, lse: Any, dlogits: Any, dloss: Any, logits: Any, labels: Any, weight: Any, count: Any,
                options: Options, plan: RowPlan | None = None, *, counts: bool = False) -> None:
    """The kernel of rows on arrays that are right; all but logits, dlogits and weight have a number for each row.

    ``counts``: there is no count for a mean, and the kernel counts these labels.
    """
    given = Rows("cross_entropy", logits, "logits")
    gD, gL, gS = given.alike("dlogits", dlogits), given.of_rows("loss", losses, FLOATS), given.of_rows("lse", lse)
    gI, gE = given.of_rows("labels", labels, LABELS), given.of_rows("dloss", dloss, FLOATS)
    smoothed = options.smoothing != 0
    ahead = dlogits is not None and not smoothed and wider(given.info.dtype) != mo.float64       # which would spill
    plan = plan or _roomy(plan_of(given, passed=dlogits is None and not smoothed, ahead=2 * ahead,
                                  several=dlogits is None), dlogits is not None,
                          smoothed, wider(given.info.dtype))
    if plan.stages and ahead:
        cross_entropy_staged_kernel.launch(gL, gS, gD, gE, given.matrix, gI, weight, count, options.ignored, options.z,
                                           plan, counts, **launched(given, plan), dependent=count is not None)
        return
    cross_entropy_kernel.launch(gL, gS, gD, gE, given.matrix, gI, weight, count, options.ignored, options.smoothing,
                                options.z, plan, smoothed, counts, **launched(given, plan),
                                dependent=count is not None)


def _roomy(plan: RowPlan, gradient: bool, smoothed: bool, wide: Any) -> RowPlan:
    """Other than 64 registers a thread for gradients: 128 of float64, 80 with smoothing, 48 of simple ones; than 32 of
    rows that pass: 64 of float64, and 40 of float32 whose rows begin anywhere."""
    if gradient and not smoothed and wide != mo.float64:
        return plan.crowded
    passing = plan.streamed and not gradient
    quarters = 4 if not (gradient or passing) else 2 if wide == mo.float64 else 3
    if passing and wide != mo.float64 and not (plan.shifted and plan.width == _SINGLES):
        return plan
    return replace(plan, resident=max(1, plan.resident * quarters // 4))


def total_of(loss: Any, losses: Any, labels: Any, weight: Any, columns: int, options: Options) -> Any:
    """Add up the losses of rows, unless they are what is wanted; returns loss."""
    if options.reduction != "none":
        blocks = _adding(losses)
        total_kernel.launch(one(loss), losses, labels, weight, options.ignored, columns, options.reduction == "mean",
                            blocks, grid=blocks, block=THREADS, cluster=blocks, dependent=True)
    return loss


def count_of(like: Any, labels: Any, weight: Any, columns: int, options: Options) -> Any:
    """What a mean divides by, on the device; else None."""
    if options.reduction != "mean":
        return None
    count = one(empty(like, wider(dtype_of(like)), (1,)))
    blocks = _adding(labels)
    total_kernel.launch(count, None, labels, weight, options.ignored, columns, True, blocks, grid=blocks,
                        block=THREADS, cluster=blocks)
    return count


def _adding(rows: Any) -> int:
    """Blocks that add up a number of each row: a cluster where they are many, if the device has any."""
    many = math.prod(shape_of(rows)) > _ALONE * THREADS
    return _TOGETHER if many and has_clusters(rows) else 1


def for_rows(like: Any, dtype: Any, rows: tuple[int, ...]) -> Any:
    """An array with a number for each row."""
    return viewed(empty(like, dtype, (math.prod(rows),)), tuple(rows))


def one(x: Any) -> Any:
    """The view of one element that has no modes."""
    return viewed(x, ()) if shape_of(x) else x


def of_each(name: str, dloss: Any, rows: tuple[int, ...], options: Options) -> Any:
    """The gradient of the loss of each row, the same one repeated where losses are added up; None stays None."""
    return repeated(name, "dloss", dloss if dloss is None or options.reduction == "none" else one(dloss), rows)


def _given(name: str, logits: Any, labels: Any, weight: Any, options: Options) -> Rows:
    """The logits, whose rows all others have; ArgumentError for labels and options that do not suit them."""
    given = Rows(name, logits, "logits")
    if given.columns == 0 and given.rows:
        raise mo.ArgumentError(f"{name}: logits have shape {tuple(given.info.shape)}, and no columns")
    given.of_rows("labels", labels, LABELS, needed=True)
    given.of_columns("weight", weight)
    check_options(name, weight, options)
    return given


def options_of(name: str, ignored: Any, smoothing: Any, z: Any, reduction: Any) -> Options:
    """The options as Python's numbers; ArgumentError for those that there are not."""
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise mo.ArgumentError(f"{name}: reduction={shown(reduction)} is none of {', '.join(REDUCTIONS)}")
    found = Options(integer(name, "ignore_index", ignored), real(name, "label_smoothing", smoothing),
                    real(name, "z_loss", z), reduction)
    if not 0 <= found.smoothing <= 1:
        raise mo.ArgumentError(f"{name}: label_smoothing={shown(smoothing)} is not between 0 and 1")
    if not math.isfinite(found.z):
        raise mo.ArgumentError(f"{name}: z_loss={shown(z)} is not finite")
    return found


def check_options(name: str, weight: Any, options: Options) -> None:
    """ArgumentError for options that no kernel has together."""
    if weight is not None and options.smoothing:
        raise mo.ArgumentError(f"{name}: label_smoothing={options.smoothing!r} with weight: no kernel does both")


def check_loss(name: str, letter: str, loss: Any, rows: tuple[int, ...], options: Options) -> None:
    """ArgumentError unless there is a loss for each row, or one for all."""
    shape = tuple(described(name, letter, loss).shape)
    if options.reduction == "none" and shape != tuple(rows):
        raise mo.ArgumentError(f"{name}: {letter} has shape {shape}, and must have {tuple(rows)}, one for each row")
    if options.reduction != "none" and shape not in ((), (1,)):
        raise mo.ArgumentError(f"{name}: {letter} has shape {shape}, and must have one element, as reduction is "
                               f"{options.reduction!r}")


def _gradients(given: Rows, dlogits: Any, dloss: Any, options: Options) -> None:
    """ArgumentError unless the gradient has the shape of logits, and its factor that of the losses."""
    given.alike("dlogits", dlogits)
    if dloss is not None:
        check_loss(given.what, "dloss", dloss, given.info.shape[:-1], options)


def nothing(name: str, loss: Any, shape: tuple[int, ...], options: Options) -> Any:
    """Without rows there are no losses; their sum is 0, and they have no mean."""
    if options.reduction == "mean":
        raise mo.ArgumentError(f"{name}: logits have shape {tuple(shape)}: there is no mean of no rows",
                               hint='reduction="sum" gives 0')
    if options.reduction == "sum":
        loss[...] = 0
    return loss
