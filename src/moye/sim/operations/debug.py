"""What a simulated kernel says: print lines and snapshots.

In: values of a batch (scalars, or arrays that broadcast to (T, B)), a mask.  Out: lines of text, ``Inspection``s.

    lines(op, (3,), None, batch)      # ["[block (0,0,0) thread (0,0,0)] i = 3", ...]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from moye.errors import Loc
from moye.ir import ops
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array


@dataclass(slots=True)
class Inspection:
    """A snapshot: tensors (*extents, T, B) and scalars, for the blocks ``blocks`` (B, 3) and the lanes of ``mask``."""

    label: str
    loc: Loc
    blocks: Array
    tensors: dict[str, Array]
    scalars: dict[str, Any]
    mask: Mask

    def tensor(self, name: str, thread: int = 0, block: int = 0) -> Array:
        """What one thread sees of a tensor; ``block`` counts within the batch."""
        return self.tensors[name][..., thread, block]


def lines(op: ops.Print, values: tuple[Any, ...], mask: Mask, batch: BatchState) -> Iterator[str]:
    """One line per active thread: block by block, threads in order."""
    shape = (batch.threads, batch.blocks)
    active = lanes_of(mask, *shape)
    full = [np.broadcast_to(np.asarray(value), shape) for value in values]
    x, y, _ = batch.block_dim
    for block, thread in np.argwhere(active.T).tolist():
        given, forms = iter(full), iter(op.formats)
        text = "".join(part if isinstance(part, str) else _text(next(given)[thread, block], next(forms, ""))
                       for part in op.parts)
        indices = (*batch.block_ids[block], thread % x, thread // x % y, thread // (x * y))
        yield (_WHERE % tuple(int(i) for i in indices) + text).removesuffix("\n")


_WHERE = "[block (%d,%d,%d) thread (%d,%d,%d)] "  # as the printed CUDA's printf


def _text(value: Any, form: str) -> str:
    """A number as the printed CUDA shows it: in a printf format, or %g, %d, True and False."""
    if form:
        if not np.isfinite(value):                      # C fills them with blanks, and Python with zeros
            form = re.sub(r"^(%[-+ #]*)0", r"\1", form)
        return form % (int(value) if form[-1] in "duxXo" else float(value))
    return str(value) if np.asarray(value).dtype.kind in "biu" else f"{float(value):g}"


def say(op: ops.Print, values: tuple[Any, ...], mask: Mask, batch: BatchState) -> None:
    for line in lines(op, values, mask, batch):
        batch.launch.print(line)
