"""Text of the user's in printed CUDA: it stays where it is put, whatever is in it.

In: a name, a path, a source line, a message.  Out: the same as one line of a comment, or as the inside of a string.

>>> comment("a\\nx[0] = 1;"), string('say "hi"')
('a\\\\nx[0] = 1;', 'say \\\\"hi\\\\"')

All that comes from outside goes through one of these two; identifiers go through ``names.identifier``.
"""

from __future__ import annotations

_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def comment(text: str) -> str:
    """One line of a ``//`` comment: no line ends in it or is spliced to the next one."""
    shown = text if text.isprintable() else \
        "".join(c if c.isprintable() else _SHORT.get(c) or f"\\x{ord(c):02x}" for c in text)
    return shown.replace("??", "? ?").rstrip("\\ ")


def string(text: str) -> str:
    """The inside of a C string literal; what UTF-8 cannot say is a question mark."""
    return "".join(map(_character, text)).replace("??", "\\?\\?")


def _character(c: str) -> str:
    if c in '\\"':
        return f"\\{c}"
    if c.isprintable():
        return c
    return _SHORT.get(c) or "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", "replace"))
