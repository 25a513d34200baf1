"""A snippet of PTX or CUDA C++ in the simulator: the Python function that says what it means, called for all lanes.

In: an op with a snippet, and its operands.  Out: ``InlineSite(op).bind(batch)``, a callable that gives the result.

    site((a, b))        # the NumPy function of the snippet, for arrays of one shape

The function is the user's: what it returns is looked at before it is believed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.errors import DTypeError, SimulationError, TraceError
from moye.ir import ops
from moye.sim.values import scalars
from moye.sim.values.memory import Array, numpy_dtype


class InlineSite:
    """The same for every batch: a snippet has no state.  ``uniform`` if its result is the same for all lanes."""

    def __init__(self, op: ops.Inline | ops.InlineEffect, *, uniform: bool) -> None:
        self.op, self.snippet, self.uniform = op, op.snippet, uniform

    def bind(self, batch: object) -> InlineSite:
        return self

    def __call__(self, operands: tuple[Any, ...]) -> Any:
        """The results: one, a tuple of several, or None."""
        taken = [np.asarray(x, numpy_dtype(dtype)) for x, dtype in zip(operands, self.snippet.takes, strict=True)]
        shape = np.broadcast_shapes(*(x.shape for x in taken), () if self.uniform else (1, 1))
        # Views of one shape that cannot be written: what is given belongs to other operations as well.
        with np.errstate(all="ignore"):
            found = self._meaning([np.broadcast_to(x, shape) for x in taken])
        gives = self.snippet.gives
        several = found if len(gives) > 1 and isinstance(found, (tuple, list)) else () if not gives else (found,)
        if len(several) != len(gives):
            raise SimulationError(f"the meaning of {self.snippet} gives {len(several)} of {len(gives)} results",
                                  locs=(self.op.loc,))
        results = tuple(self._read(each, i, shape) for i, each in enumerate(several))
        return None if not results else results if len(results) > 1 else results[0]

    def _meaning(self, arrays: list[Array]) -> Any:
        """What the user's function gives.  One that the kernel defines has control flow of the kernel."""
        assert self.snippet.meaning is not None, "the generator refuses a snippet without a meaning"
        try:
            return self.snippet.meaning(*arrays)
        except TraceError as error:
            raise SimulationError(f"the meaning of {self.snippet} is code of the kernel: {error.message}",
                                  hint="define the function outside of the kernel", locs=(self.op.loc,)) from error

    def _read(self, found: Any, index: int, shape: tuple[int, ...]) -> Any:
        """One result, which has the dtype that the snippet gives and the shape of the operands."""
        dtype = self.snippet.gives[index]
        array = np.asarray(found)
        if array.dtype != numpy_dtype(dtype):
            raise DTypeError(f"the meaning of {self.snippet} gives {array.dtype} for result {index}, not {dtype}",
                             hint=f'end it with .astype("{dtype.numpy}")', locs=(self.op.loc,))
        if self.uniform and array.shape == ():
            return scalars.to_scalar(array[()], dtype)
        try:
            made: Array = np.broadcast_to(array, shape)
        except ValueError:
            raise SimulationError(f"the meaning of {self.snippet} gives an array of shape {array.shape} for operands "
                                  f"of shape {shape}", locs=(self.op.loc,)) from None
        return made
