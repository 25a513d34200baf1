"""Where a source still has a hole: a ``...`` that stands for an expression or a statement.

In: Python text.  Out: line numbers.  An ellipsis in a subscript, ``t[...]``, is none.

>>> holes("total = ...")
[1]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator


def holes(text: str) -> list[int]:
    """The lines of the holes, in order; none where the text is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    return sorted(set(_found(tree)))


def _found(node: ast.AST) -> Iterator[int]:
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.Subscript) and child is node.slice:
            inner = child.elts if isinstance(child, ast.Tuple) else [child]
            for one in inner:
                if not _is_ellipsis(one):
                    yield from _found(one)
        elif _is_ellipsis(child):
            yield getattr(child, "lineno", 1)
        else:
            yield from _found(child)


def _is_ellipsis(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis
