"""What control flow carries: a Python value taken apart into static structure and scalar leaves, and rebuilt.

In: a value of a kernel variable.  Out: ``Carried`` (structure, leaves), and ``rebuild``.

    take_apart(tCsA_p)       # structure ("tensor", buffer, layout, ...), leaves [offset]

A tensor is a carried pointer with an unchanged layout.  Containers and dataclasses are taken apart field by field.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NoReturn, Protocol

from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import TraceError
from moye.ir import fold, ops
from moye.ir.nodes import Buffer, Literal, Var
from moye.lang import remade
from moye.lang.beside import NAME, NONE, Beside, returned, taken
from moye.tensor.context import locate
from moye.tensor.expr import Expr, Scalar, default_dtype, is_scalar, operand_of, plain, position
from moye.tensor.tensor import Tensor, index_operand

SOMEWHERE = "on some path to this point"
_FEW = 6
"""Of how many parts an error tells each."""
_VARIES = "varies"
"""The attribute that marks those of moye's dataclasses whose numbers vary; the numbers of the others, such as a
layout's, are static."""


class Undefined:
    """A variable that has no value on some path, and ``where`` that is; any use of it is an error that names it."""

    __slots__ = ("name", "where")

    def __init__(self, name: str, where: str = SOMEWHERE) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "where", where)

    def _used(self, *_: object, **__: object) -> NoReturn:
        name, where = object.__getattribute__(self, "name"), object.__getattribute__(self, "where")
        raise TraceError(f"the variable {name!r} has no value {where}",
                         hint=f"give {name} a value before the loop or branch", locs=(locate(),))

    def __getattr__(self, attribute: str) -> NoReturn:
        self._used()

    def known_as(self) -> object:
        """The name of the variable."""
        return object.__getattribute__(self, "name")

    def known_where(self) -> bool:
        """Whether the path on which it has no value is known already."""
        return bool(object.__getattribute__(self, "where") != SOMEWHERE)

    __hash__ = object.__hash__


_OPERATORS = """
    add sub mul truediv floordiv mod pow and or xor lshift rshift matmul
    radd rsub rmul rtruediv rfloordiv rmod rpow rand ror rxor rlshift rrshift rmatmul
    divmod rdivmod round trunc floor ceil contains reversed delitem format
    eq ne lt le gt ge neg pos abs invert bool int float index iter len getitem setitem call setattr enter repr str
"""
for _name in _OPERATORS.split():
    setattr(Undefined, f"__{_name}__", Undefined._used)


@dataclass(slots=True)
class Carried:
    """A value as hashable-free static structure (compared with ``==``) and its scalar leaves in order."""

    structure: object
    leaves: list[Scalar]
    names: list[str]
    """What the variable of each leaf is called beyond the name of the whole: ``_read`` for a field."""


def take_apart(value: object) -> Carried:
    """The structure and the leaves of a value."""
    parts = Carried(None, [], [])
    parts.structure = _structure(value, parts, "")
    return parts


def _structure(value: object, into: Carried, name: str) -> object:
    if is_scalar(value):
        into.leaves.append(plain(value))
        into.names.append(name)
        return "scalar"
    if isinstance(value, Tensor):
        if value.space is Space.REGISTER:
            # Registers have no addresses, so that no pointer to them can be carried: both ways must mean the same ones.
            return ("fragment", value.buffer.id, value.offset, value.dtype, _Static(value.layout), value)
        beside, leaves = taken(value)
        # The offset alone varies: the layout is static, so that code is printed once for all stages.
        into.leaves += [Expr(index_operand(value.offset)), *leaves]
        into.names += [name, *[name + NAME] * len(leaves)]
        return ("tensor", value.buffer.id, value.dtype, _Static(value.layout), value.swizzle, _Same(value), beside)
    if is_taken_apart(value):
        named = remade.is_record(value)
        parts = tuple((key, _structure(item, into, f"{name}_{key}" if named else name))
                      for key, item in remade.parts_of(value).items())
        return (type(value), parts, _Same(value))
    return _Static(value)


def is_taken_apart(value: object) -> bool:
    """Whether a value is carried part by part, and made anew of them."""
    if isinstance(value, (tuple, list, dict, deque)):
        return not isinstance(value, enum.Enum)
    return remade.is_record(value) and is_carried(value)


def is_carried(value: object) -> bool:
    """Whether a dataclass instance is taken apart: the user's always, moye's own where it holds traced values."""
    if hasattr(type(value), _VARIES) or not type(value).__module__.startswith("moye."):
        return True
    return any(isinstance(part, (Expr, Tensor)) or (remade.is_record(part) and is_carried(part))
               for part in remade.state_of(value).values())


def plain_class(a: object, b: object) -> str | None:
    """The name of the class whose objects two structures are, where that is no dataclass; None for anything else."""
    values = [x.value for x in (a, b) if isinstance(x, _Static)]
    of = {type(value) for value in values}
    if len(values) != 2 or len(of) != 1:
        return None
    kind = of.pop()
    own = hasattr(values[0], "__dict__") or any(vars(base).get("__slots__") for base in kind.__mro__)
    by_text = any(isinstance(vars(base).get("__call__"), FunctionType) for base in kind.__mro__)
    code = callable(values[0]) and not by_text              # a function, a type
    return kind.__name__ if own and not code and not kind.__module__.startswith("moye.") else None


def is_static(structure: object) -> bool:
    """Whether a structure is an object that tracing knows, and no variable of the kernel."""
    return isinstance(structure, _Static)


def is_none(structure: object) -> bool:
    return isinstance(structure, _Static) and structure.value is None


class _Static:
    """A static value, compared by value where it can be and else by identity."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static):
            return False
        if self.value is other.value or _same_function(self.value, other.value):
            return True
        try:
            return type(self.value) is type(other.value) and bool(self.value == other.value)
        except Exception:  # a type whose == is not a truth value is compared by identity
            return False

    def __repr__(self) -> str:
        return str(self.value)

    __hash__ = None  # type: ignore[assignment]


_CONSTANTS = (int, float, bool, str, type(None))


def _same_function(a: object, b: object) -> bool:
    """Whether one ``def`` or lambda made both, of the same variables around it: each turn of a loop makes another."""
    if not isinstance(a, FunctionType) or not isinstance(b, FunctionType) or a.__code__ is not b.__code__:
        return False
    kept = [(*(f.__closure__ or ()), *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()) for f in (a, b)]
    return len(kept[0]) == len(kept[1]) and all(x is y or _same_constant(x, y) for x, y in zip(*kept, strict=True))


def _same_constant(x: object, y: object) -> bool:
    return type(x) is type(y) and type(x) in _CONSTANTS and repr(x) == repr(y)      # 0.0 is not -0.0


class _Same:
    """Carries the prototype of a value; equal to every other prototype."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same)

    def __repr__(self) -> str:
        return ""

    __hash__ = None  # type: ignore[assignment]


def same_structure(a: object, b: object) -> bool:
    """Whether two structures agree (register fragments must be the same registers)."""
    if isinstance(a, tuple) and isinstance(b, tuple) and a and b and a[0] == "fragment" == b[0]:
        return bool(a[:5] == b[:5])
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same_structure(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


class Holds(Protocol):
    """Variables that hold a value."""

    structure: Any
    variables: list[Var]
    facts: list[fold.Facts]


def united(a: Any, b: Any) -> Any:
    """Two structures that agree, as what is carried where both ways meet."""
    parts = _parts(a)
    if not parts or a == "scalar":
        return a
    if a[0] == "tensor":
        both = a[6].united(b[6])
        return a if both is a[6] else (*a[:6], both)
    items = [united(x, y) for x, y in zip(parts, _parts(b), strict=True)]
    if all(x is y for x, y in zip(items, parts, strict=True)):
        return a
    return (a[0], tuple((x[0], y) for x, y in zip(a[1], items, strict=True)), *a[2:])


def _parts(structure: Any) -> list[Any]:
    """The structures that make up one; of a scalar or tensor itself."""
    if structure == "scalar":
        return [structure]
    if not isinstance(structure, tuple) or structure[0] == "fragment":
        return []
    if structure[0] == "tensor":
        return [structure]
    return [part[1] for part in structure[1]]


def _leaves(structure: Any) -> Iterator[Beside]:
    """What goes with each pointer and scalar; these are leaves themselves."""
    for part in _parts(structure):
        if part is structure:
            yield Beside() if part == "scalar" else part[6]
        else:
            yield from _leaves(part)


def fitted(have: Any, want: Any) -> list[int | None]:
    """For each leaf of a structure, the number of the leaf that another structure has for it; None if it has none."""
    found: list[int | None] = []
    at = 0
    for one, other in zip(_leaves(have), _leaves(want), strict=True):
        mine = {part: [at + 1 + n for n in numbers] for part, numbers in one.parts()}
        found.append(at)
        for part, numbers in other.parts():
            found.extend(mine.get(part, [None] * len(numbers)))
        at += 1 + one.leaves
    return found


def widen(held: Holds, structure: object, name: str) -> list[Var] | None:
    """Let variables hold a value of another structure too; the result is the new ones that this needs, None if nothing
    changes."""
    both = united(held.structure, structure)
    if both is held.structure:
        return None
    numbers, none = fitted(held.structure, both), operand_of(NONE)
    # What the variables had no room for so far starts as NONE, so that the turns before need not know of it.
    new = [variable(name, NAME, dt.int64) for number in numbers if number is None]
    supply = iter(new)
    pairs = [(next(supply), fold.facts_of(none)) if n is None else (held.variables[n], held.facts[n]) for n in numbers]
    held.structure, held.variables, held.facts = both, [v for v, _ in pairs], [f for _, f in pairs]
    return new


def fit(parts: Carried, structure: object) -> Carried:
    """A value as another structure, which agrees with its own, has it."""
    if parts.structure is structure:
        return parts
    numbers = fitted(parts.structure, structure)
    return Carried(structure, [NONE if n is None else parts.leaves[n] for n in numbers],
                   [NAME if n is None else parts.names[n] for n in numbers])


def variable(name: str, part: str, dtype: dt.DType) -> Var:
    """The Var of one leaf."""
    return Var(name + part, dtype, judged=part.endswith(NAME))


def rebuild(structure: object, leaves: Iterator[Scalar]) -> Any:
    """A value of this structure with the next leaves."""
    if structure == "scalar":
        return next(leaves)
    # The object itself, not a copy: identity of static objects is kept through control flow.
    if isinstance(structure, _Static):
        return structure.value
    if not isinstance(structure, tuple):
        raise AssertionError(f"not a structure: {structure!r}")
    kind = structure[0]
    if kind == "fragment":
        return structure[5]
    if kind == "tensor":
        like, leaf = structure[5].value, next(leaves)
        offset: Any = position(leaf) if isinstance(leaf, Expr) else leaf
        return Tensor(like.buffer, offset, like.layout, like.dtype, like.swizzle, like.name, like.order,
                      returned(like, structure[6], leaves))
    return remade.remade(structure[2].value, [rebuild(item, leaves) for _, item in structure[1]])


def _block(buffer: Buffer) -> str:
    """The block of the cluster that a mapped tensor is in, as text."""
    mapped = None if buffer.base is None else buffer.base.op
    if not isinstance(mapped, ops.MapShared):
        return ""
    rank = mapped.rank
    return f" in block {rank.value if isinstance(rank, Literal) else rank.name or 'of a traced rank'}"


def describe(structure: object, parts: bool = False) -> str:
    """A structure for error messages; of containers also the parts."""
    if structure == "scalar":
        return "a scalar"
    if isinstance(structure, tuple) and structure and structure[0] == "tensor":
        like = structure[5].value
        return f"a view of {like.buffer.name}{_block(like.buffer)} with layout {like.layout}"
    if isinstance(structure, tuple) and structure and structure[0] == "fragment":
        return f"the register tensor {structure[5].label} with layout {structure[5].layout}"
    if isinstance(structure, tuple) and len(structure) == 3 and isinstance(structure[2], _Same):
        return _described(*structure, parts)
    if isinstance(structure, _Static):
        value = structure.value
        return repr(value) if isinstance(value, str) else f"the function {value.__name__}" \
            if isinstance(value, FunctionType) else str(value)
    return repr(structure)


def _described(kind: type, held: tuple[tuple[object, object], ...], of: _Same, parts: bool) -> str:
    """A container or dataclass for error messages."""
    if remade.is_record(of.value):
        return f"{kind.__name__}({', '.join(f'{name}={describe(part, parts)}' for name, part in held)})"
    told = f"a {kind.__name__} of {len(held)}"
    if not parts or len(held) > _FEW:
        return told
    keys = [f"{key!r}: " if issubclass(kind, dict) else "" for key, _ in held]
    return f"{told} ({', '.join(key + describe(part, parts) for key, (_, part) in zip(keys, held, strict=True))})"


def carried_dtype(leaf: Scalar) -> dt.DType:
    """The dtype of the variable that holds a leaf."""
    return leaf.dtype if isinstance(leaf, Expr) else default_dtype(leaf)
