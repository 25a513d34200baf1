"""Func -> Func without barriers that keep nobody from anything.

Contract: ``block_reduce`` and ``block_scan`` end with a barrier, so that their scratch may be used again
(``SyncThreads.keeps``).  It goes where nothing behind it touches the scratch, and where another barrier of the block
follows at once.  What stands before and after such a call is ordered by the barrier inside of it in any case.  In loops
the barrier stays: the next turn comes to the scratch again.  Barriers of the user's stay.  In place.
"""

from __future__ import annotations

from collections.abc import Iterator

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func


def spare(func: Func) -> Func:
    """Remove the barriers at the ends of collectives that nobody needs."""
    if any(ref.buffer.space is Space.CLUSTER for op in func.body.walk() for ref, _ in op.refs()):
        return func                                     # other blocks come to the scratch by another name
    walked = list(func.body.walk())
    needless = {id(op) for op, behind in _ends(func.body) if _at_once(behind) or _untouched(op.keeps, op, walked)}
    _drop(func.body, needless)
    return func


def _ends(block: Block) -> Iterator[tuple[ops.SyncThreads, list[ops.Op]]]:
    """The barriers at the ends of collectives, outside of loops, and what follows them in their block."""
    for at, op in enumerate(block.ops):
        if isinstance(op, ops.SyncThreads) and op.keeps:
            yield op, block.ops[at + 1:]
        elif isinstance(op, ops.If):
            for inner in op.blocks():
                yield from _ends(inner)


def _at_once(behind: list[ops.Op]) -> bool:
    return bool(behind) and isinstance(behind[0], ops.SyncThreads)


def _untouched(kept: tuple[Buffer, ...], barrier: ops.SyncThreads, walked: list[ops.Op]) -> bool:
    """Whether no operation behind the barrier touches its tensors, nor may do so where nobody sees it."""
    ids, found = {buffer.id for buffer in kept}, False
    for op in walked:
        if found and (isinstance(op, ops.InlineEffect) or any(ref.buffer.id in ids for ref, _ in op.refs())):
            return False
        found = found or op is barrier
    return True


def _drop(block: Block, needless: set[int]) -> None:
    block.ops = [op for op in block.ops if id(op) not in needless]
    for op in block.ops:
        for inner in op.blocks():
            _drop(inner, needless)
