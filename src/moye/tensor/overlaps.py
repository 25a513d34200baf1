"""Whether two views may hold an element in common, so that one must be read before the other is written.

In: two tensors.  Out: True where they do or may.

    overlap(s[1:5], s[0:4])     # True: an element is written before it is read, if one goes from the first on
"""

from __future__ import annotations

from moye.layout import cosize, is_static, size
from moye.tensor.view import View

LOOKED_AT = 4096
"""Elements up to which places are compared one by one; of more, where they begin and end."""
UNKNOWN = 64
"""Elements up to which views at places that only the kernel knows are taken to overlap: registers hold so many."""


def overlap(dst: View, src: View) -> bool:
    """Whether an element of ``dst`` is, or may be, another one of ``src``."""
    same = dst.offset is src.offset or (isinstance(dst.offset, int) and isinstance(src.offset, int)
                                        and dst.offset == src.offset)
    alike = dst.layout == src.layout and dst.dtype == src.dtype and dst.swizzle == src.swizzle
    return not (same and alike) and touch(dst, src)


def touch(one: View, other: View) -> bool:
    """Whether two views have, or may have, an element in common.

    Of dynamic extents, and of more than ``UNKNOWN`` elements whose places are dynamic, nothing is said: False.
    """
    counts = [size(view.layout) for view in (one, other)]
    if one.buffer is not other.buffer or not all(isinstance(count, int) for count in counts):
        return False
    mine, others = _places(one), _places(other)
    if mine is None or others is None:
        return all(isinstance(count, int) and count <= UNKNOWN for count in counts)
    return not mine.isdisjoint(others)


def _places(tensor: View) -> set[int] | None:
    """The bytes that a view holds, from the beginning of its buffer; None where only the kernel knows."""
    offset, layout, width, swizzle = tensor.offset, tensor.layout, tensor.dtype.bits // 8, tensor.swizzle
    count, reach = size(layout), cosize(layout)
    if not isinstance(offset, int) or not isinstance(count, int) or not isinstance(reach, int) or not width \
            or not is_static(layout):
        return None
    found: set[int] = set()
    for step in map(layout, range(count)) if count <= LOOKED_AT else range(reach):
        place = offset + step
        place = place if swizzle is None else swizzle(place)
        assert isinstance(place, int), "a static layout has static offsets"
        found.update(range(place * width, place * width + width))
    return found
