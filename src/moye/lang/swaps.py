"""Register tensors that change places in a loop of the kernel: ``a, b = b, a`` at the end of a turn.

In: the values of carried variables at the end of a turn, and what they held at its start.  Out: moves between the
registers, after which each variable has its own again.

    places = changed(pairs); exchange(places)

Registers have no addresses, so that the variables cannot change them.  Their contents do: an unrolled loop
(``For.unroll``) has no moves left of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from moye.errors import TraceError
from moye.ir.nodes import Buffer
from moye.layout import make_layout
from moye.tensor.context import locate
from moye.tensor.tensor import Tensor, make_fragment

Places = dict[int, tuple[Buffer, Buffer]]
"""For each register buffer, by its id: itself, and where its contents go."""


def fragments(structure: Any) -> Iterator[tuple[Any, ...]]:
    """The register tensors of a structure (``carry.py``), in order."""
    if isinstance(structure, tuple) and structure and structure[0] == "fragment":
        yield structure
    elif isinstance(structure, tuple):
        for part in structure:
            yield from fragments(part)


def changed(pairs: Iterable[tuple[Any, Any]]) -> Places:
    """Where contents go, of (structure at the start of a turn, at its end) by variable; {} if nothing changes places.

    It is a permutation of whole tensors, or nothing: two names of one tensor, or a tensor lost, are left as they are.
    """
    places: Places = {}
    for before, after in pairs:
        old, new = list(fragments(before)), list(fragments(after))
        if len(old) != len(new):
            return {}
        for own, other in zip(old, new, strict=True):
            to, from_ = own[5].buffer, other[5].buffer
            if own[2:5] != other[2:5] or places.get(from_.id, (from_, to))[1] is not to:
                return {}
            places[from_.id] = from_, to
    moved = {number: place for number, place in places.items() if place[0] is not place[1]}
    return moved if {to.id for _, to in moved.values()} == set(moved) else {}


def exchange(places: Places) -> None:
    """Move the contents, all at once."""
    held = []
    for buffer, to in places.values():
        spare = make_fragment(make_layout(buffer.elements or 0), buffer.dtype)
        spare.buffer.name = f"{buffer.name}_before"
        spare[...] = _whole(buffer)
        held.append((to, spare))
    for to, spare in held:
        _whole(to)[...] = spare


def _whole(buffer: Buffer) -> Tensor:
    return Tensor(buffer, 0, make_layout(buffer.elements or 0), buffer.dtype)


def turns(places: Places) -> int:
    """After how many turns every tensor is at its own place again."""
    count, at = 1, {number: to.id for number, (_, to) in places.items()}
    while any(number != place for number, place in at.items()):
        at = {number: places[place][1].id for number, place in at.items()}
        count += 1
    return count


def placed(structure: Any, places: Mapping[int, tuple[Buffer, Buffer]]) -> Any:
    """A structure whose register tensors are where their contents went."""
    if not isinstance(structure, tuple):
        return structure
    if structure and structure[0] == "fragment":
        if structure[1] not in places:
            return structure
        like, to = structure[5], places[structure[1]][1]
        tensor = Tensor(to, like.offset, like.layout, like.dtype, like.swizzle, like.name)
        return ("fragment", to.id, *structure[2:5], tensor)
    parts = [placed(part, places) for part in structure]
    same = all(new is old for new, old in zip(parts, structure, strict=True))
    return structure if same else tuple(parts)


def refuse_others(others: Iterable[Tensor], places: Places) -> None:
    """TraceError if something that the loop does not carry is a view of registers that change places."""
    for tensor in others:
        if tensor.buffer.id in places:
            _refuse(tensor, places)


def _refuse(tensor: Tensor, places: Places) -> NoReturn:
    names = ", ".join(sorted(buffer.name for buffer, _ in places.values()))
    raise TraceError(f"the register tensors {names} change places in a loop of the kernel, and another variable, made "
                     f"before the loop, is a view of {tensor.buffer.name}",
                     hint="make the view in the loop, from the variable that changes places", locs=(locate(),))
