"""Tensor maps of a warp that changes them: the steps of ``moye.tensor.device_maps`` in the order that TMA needs.

In: places in global memory, TMA copies.  Out: TMA copies of other arrays, by maps that lie at these places.

    maps = TensorMaps(workspace[bx, :, :], tma_A, tma_B); maps.init(); sync_threads()
    for g in range(groups):
        A = maps.update(0, address=pointers[g], shape=(M, K), strides=(K, 1))       # the whole warp
        if lane_idx() == 0: copyto(A, sA, mo.tile(A.tensor, ...), barrier=...)      # its first lane

The same calls can be written out (cutlass, sm90_mma_array_tma_gmma_ss_warpspecialized.hpp, tensormaps_perform_update).
"""

from __future__ import annotations

from typing import Any

from moye.errors import TensorError
from moye.lang.builtins import lane_idx, sync_warp
from moye.lang.hopper import tma_store_arrive, tma_store_wait
from moye.lang.scopes import Named
from moye.layout import rank, size
from moye.pipelines.barriers import OnlyIf, in_first_thread, name_barriers
from moye.tensor import device_maps
from moye.tensor.context import locate
from moye.tensor.expr import Scalar
from moye.tensor.tensor import Tensor
from moye.tensor.tma_copy import TmaTensor


class TensorMaps(Named):
    """A tensor map for each of ``copies``, in shared memory and, row i for copy i, in ``workspace``.

    ``workspace`` is (copies, 16) of int64 or uint64 in global memory, 128 bytes for each map, at multiples of 128
    bytes; each warp that changes maps has rows of its own.  TensorError for what is none.
    """

    __slots__ = ("copies", "edited", "workspace")

    def __init__(self, workspace: Tensor, *copies: TmaTensor) -> None:
        if not isinstance(workspace, Tensor) or rank(workspace.layout) != 2:
            shown = repr(workspace) if isinstance(workspace, Tensor) else f"a {type(workspace).__name__}"
            raise TensorError(f"TensorMaps: the workspace is a tensor (copies, 16) in global memory, not {shown}",
                              locs=(locate(),))
        count = size(workspace.layout, 0)
        if not copies or (isinstance(count, int) and count < len(copies)):
            raise TensorError(f"TensorMaps: {count} places for the maps of {len(copies)} copies", locs=(locate(),))
        self.workspace, self.copies = workspace, copies
        self.edited = device_maps.tensormap_array(len(copies))

    def named(self, name: str) -> None:
        """Name the maps in shared memory after the first variable that holds them."""
        name_barriers(name, edited=self.edited)

    def init(self) -> None:
        """Begin with the maps of the launch, in thread 0.  After it, the warp that changes them needs a barrier."""
        with in_first_thread():
            for i, tma in enumerate(self.copies):
                device_maps.copy_tensormap(self.edited[:, i], tma)

    def update(self, i: int, tensor: Tensor | None = None, *, address: Scalar | None = None,
               shape: tuple[Scalar, ...] | None = None, strides: tuple[Scalar, ...] | None = None) -> TmaTensor:
        """Copy i of another array, described as for ``update_tensormap``; a whole warp calls it.

        What goes by the map before is issued by the warp's first lane, which waits here until the map is no longer
        needed, or is known to be complete.  Others of the block may copy by the new map behind a barrier.
        """
        if not isinstance(i, int) or not 0 <= i < len(self.copies):
            raise TensorError(f"TensorMaps.update: {i!r} is none of the {len(self.copies)} copies", locs=(locate(),))
        tma, place = self.copies[i], self.workspace[i, :]
        with OnlyIf(lane_idx() == 0):
            tma_store_arrive()
            tma_store_wait(0)
            device_maps.update_tensormap(tma, self.edited[:, i], tensor, address=address, shape=shape, strides=strides)
        sync_warp()
        device_maps.release_tensormap(place, self.edited[:, i])
        device_maps.acquire_tensormap(place)
        extents: Any = shape if tensor is None else tensor.layout.shape
        return tma.at(place, extents)
