"""Check what tiled copies and tiled MMAs take: atoms, permutations, tensors, threads; each is refused in one sentence.

In: an argument, and what it belongs to.  Out: nothing; a TensorError, LayoutError or LaunchError, or a guard for
launch.

    require_tiled("partition_A", gA, (128, 16), mma)     # launch checks dynamic extents
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

from moye.atoms.atom import CopyOp, MmaOp
from moye.errors import LaunchError, LayoutError, TensorError
from moye.ir import ops
from moye.ir.lanes import UnknownError, lanes_of_block, values_of
from moye.ir.nodes import Literal
from moye.layout import DynInt, Layout, is_bijective, rank, size
from moye.tensor.context import builder, locate, tracing
from moye.tensor.coords import CoordTensor
from moye.tensor.expr import Expr, operand_of
from moye.tensor.tensor import Tensor

Permutation = Layout | int | None


def require_mma(what: str, op: object) -> None:
    """Require an MMA operation, as a record."""
    if not isinstance(op, MmaOp):
        raise TensorError(f"{what}: {kind(op)} is no MMA operation",
                          hint="mo.mma.find(a, b, c) has those of three dtypes, mo.UniversalFMA(dtype) is scalar")


def require_copy(what: str, op: object) -> None:
    """Require a copy operation, as a record."""
    if not isinstance(op, CopyOp):
        raise TensorError(f"{what}: {kind(op)} is no copy operation",
                          hint="mo.UniversalCopy(dtype), mo.CpAsync(dtype), mo.LdMatrix(4) and mo.StMatrix(4) are")


def require_made(what: str, x: object, wanted: type, how: str) -> None:
    """Require an object that moye makes; ``how`` says how to make one."""
    if not isinstance(x, wanted):
        raise TensorError(f"{what}: {kind(x)} is no {wanted.__name__}", hint=f"make one with {how}")


def permutations_of(op: MmaOp, atoms: tuple[int, ...], given: object) -> tuple[Permutation, ...]:
    """The permutations of a tiled MMA of this many atoms along M, N and K, one for each of the three."""
    if given is not None and not isinstance(given, (tuple, list)):
        raise LayoutError(f"make_tiled_mma: permutations={given!r} is no tuple of up to three tiles, along M, N and K")
    perms = tuple(given or ())
    if len(perms) > 3:
        raise LayoutError(f"make_tiled_mma: there are {len(perms)} permutations {perms}; M, N and K are 3")
    for name, perm, extent, count in zip("MNK", perms, op.shape_mnk, atoms, strict=False):
        if perm is None:
            continue
        if not isinstance(perm, Layout) and (type(perm) is not int or perm < 1):
            raise LayoutError(f"make_tiled_mma: the tile {perm!r} along {name} is no positive integer, layout or None")
        have = size(perm) if isinstance(perm, Layout) else perm
        if not isinstance(have, int) or have % (extent * count):
            raise LayoutError(f"make_tiled_mma: the tile {perm} along {name} has {have} elements, no multiple of "
                              f"{extent * count}, which {count} {'atom covers' if count == 1 else 'atoms cover'}: {op}")
        if isinstance(perm, Layout) and not is_bijective(perm):
            raise LayoutError(f"make_tiled_mma: the tile {perm} along {name} is no permutation of 0 to {have - 1}")
    return perms + (None,) * (3 - len(perms))


def require_tiled(what: str, tensor: Any, tile: tuple[int, ...], tiled: object) -> None:
    """Check a partition: the extents of its tensor must be multiples of what the tiled copy or tiled MMA covers."""
    if not isinstance(tensor, (Tensor, CoordTensor)):
        raise TensorError(f"{what} takes a tensor of a kernel, not {kind(tensor)}", locs=(locate(),))
    if rank(tensor.layout) < len(tile):
        raise TensorError(f"{what}({tensor.label}): {tensor.layout} has rank {rank(tensor.layout)}, but {tiled} covers "
                          f"{len(tile)} modes", locs=(locate(),))
    for mode, extent in enumerate(tile):
        have = size(tensor.layout, mode)
        if isinstance(have, int) and have % extent:
            raise TensorError(f"{what}({tensor.label}): extent {have} of mode {mode} of {tensor.layout} is no multiple "
                              f"of {extent}, which {tiled} covers", locs=(locate(),), code="A4")
        if not isinstance(have, int):
            have.require_divisible(extent, f"{what}({tensor.label}): extent {{value}} of mode {mode} is no multiple of "
                                           f"{extent}, which {tiled} covers", code="A4")


def require_threads(what: str, threads: int, thread: Any, call: str = "get_slice") -> Any:
    """The thread index as an index, checked that it runs over exactly the threads of the tiled object (class A10)."""
    if isinstance(thread, int):
        if not 0 <= thread < threads:
            raise TensorError(f"{call}({thread}): {what} has {threads} threads", locs=(locate(),), code="A10")
        return thread
    if not isinstance(thread, (DynInt, Integral)):
        raise TensorError(f"{call}({thread!r}): the index of a thread is an integer, such as mo.thread_idx().x",
                          locs=(locate(),))
    if not tracing() or not isinstance(thread, Expr):
        return thread
    thread = thread.as_index()
    if isinstance(thread, int):
        return require_threads(what, threads, thread, call)
    if builder().conditions or builder().jumped:
        _require_some(what, threads, thread, call)
    elif thread.lower == 0 and thread.upper is not None and thread.upper + 1 != threads:
        have = thread.upper + 1
        block = builder().func.block_dim
        hint = f"launch kernel[grid, {threads}](...)"
        if have > threads:
            hint += f", or take the slice under the condition of its {threads} threads, with their index from 0"
        raise LaunchError(f"{what} has {threads} threads, but the thread index given to {call} runs over {have} "
                          f"(a block of {block})", hint=hint, locs=(locate(),), code="A10")
    return thread


def _require_some(what: str, threads: int, thread: Expr, call: str) -> None:
    """Check the same if only some of the block's threads come: A10 if one of them is not a thread of the tiled object.

    If that depends on more than the thread's index, the simulator checks it.
    """
    here = builder()
    index = operand_of(thread)
    said = f"{what} has {threads} threads, but the thread index given to {call}"
    try:
        lanes = lanes_of_block(here.func.block_dim)
        for cond in here.open_conditions:
            lanes = [lane for lane, holds in zip(lanes, values_of(cond, lanes), strict=True) if holds]
        came: list[int] | None = values_of(index, lanes)
    except UnknownError:
        came = None
    if came is not None and all(0 <= number < threads for number in came):
        return
    if came is not None and not here.jumped:
        raise LaunchError(f"{said} runs from {min(came)} to {max(came)} under the condition around it",
                          hint=f"let in {threads} threads, and count them from 0", locs=(locate(),), code="A10")
    if thread.lower == 0 and thread.upper is not None and thread.upper + 1 > threads:
        fits = here.binary("lt", index, Literal(threads, index.dtype))
        here.emit(ops.Assert(cond=fits, message=f"{said} is {threads} or more", code="A10"))


def kind(x: object) -> str:
    """The name of a value in a sentence."""
    if x is None or isinstance(x, (bool, int, float, str, tuple, list, CopyOp, MmaOp)):
        return repr(x)
    if type(x).__module__.startswith("moye."):
        return str(x)
    return f"the {type(x).__name__} {getattr(x, '__name__', '')}".rstrip()
