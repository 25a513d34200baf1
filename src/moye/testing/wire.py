"""Messages between the judge and the process that it judges in: JSON and bytes, never pickles.

In: a socket.  Out: ``send`` and ``receive``, of a dict and a list of byte strings.

    send(end, {"case": 3}, [memory]); head, blobs = receive(end)

A frame is the length of its JSON, the JSON, and the blobs, whose lengths the JSON tells.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

MOST_TEXT = 64 << 20
"""The longest JSON that is read, in bytes."""
_LENGTH = struct.Struct("<Q")


def send(end: socket.socket, head: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """One frame."""
    text = json.dumps({"head": head, "sizes": [len(blob) for blob in blobs]}).encode()
    end.sendall(_LENGTH.pack(len(text)) + text)
    for blob in blobs:
        end.sendall(blob)


def receive(end: socket.socket, ready: Callable[[], None] | None = None) -> tuple[dict[str, Any], list[bytes]]:
    """The next frame; EOFError where the other end is closed, ValueError for what is no frame.

    ``ready`` is called before each read, and may wait until there is something to read.
    """
    (length,) = _LENGTH.unpack(_exactly(end, _LENGTH.size, ready))
    if length > MOST_TEXT:
        raise ValueError(f"a frame of {length} bytes")
    told = json.loads(_exactly(end, length, ready))
    sizes = told["sizes"]
    if not all(isinstance(size, int) and 0 <= size <= MOST_TEXT * 64 for size in sizes):
        raise ValueError(f"a frame with blobs of {sizes} bytes")
    return dict(told["head"]), [_exactly(end, size, ready) for size in sizes]


def _exactly(end: socket.socket, count: int, ready: Callable[[], None] | None) -> bytes:
    parts, left = [], count
    while left:
        if ready is not None:
            ready()
        part = end.recv(min(left, 1 << 20))
        if not part:
            raise EOFError("the other end is closed")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
