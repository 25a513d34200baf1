"""The declaration of an operation: what each field is to it, and what kind of operation its class is.

In: a class whose fields say their roles.  Out: a slotted dataclass of keywords, with its methods generated.

    @operation(Trait.ARITHMETIC)
    class Negate(Op):
        result: Value = defined()
        a: Operand = operand()

The role says what a field means, its annotation how it holds that: one, none, a tuple, pairs, an int in place of a
Value.  The methods are written as source and compiled, as dataclasses do, so that they cost no more than by hand.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from enum import Enum, auto
from functools import cache
from typing import Any, TypeVar, Union, dataclass_transform, get_args, get_origin

from moye.ir.nodes import Block, Buffer, Index, Literal, Op, Ref, TileRef, Value
from moye.ir.traits import Trait, with_implied


class Role(Enum):
    """What a field is to its operation."""

    DEFINED = auto()
    OPERAND = auto()
    READ = auto()
    WRITTEN = auto()
    UPDATED = auto()
    RULED = auto()
    BLOCK = auto()
    GIVEN = auto()
    COMPUTED = auto()
    ATTRIBUTE = auto()


def _field(role: Role, default: Any = MISSING, rule: Callable[[Any], bool] | None = None, repr: bool = True) -> Any:
    return field(default=default, repr=repr, metadata={"role": role, "rule": rule})


def defined() -> Any:
    """The Value that the operation defines; ``value.op`` is set to the operation."""
    return _field(Role.DEFINED)


def operand(*, default: Any = MISSING) -> Any:
    """Scalars that it uses; of a Buffer the address that it has in another block of the cluster."""
    return _field(Role.OPERAND, default)


def read(*, default: Any = MISSING) -> Any:
    """References that it reads, and scalars in their place."""
    return _field(Role.READ, default)


def written(*, default: Any = MISSING) -> Any:
    """References that it writes."""
    return _field(Role.WRITTEN, default)


def updated() -> Any:
    """References that it reads and writes."""
    return _field(Role.UPDATED)


def written_if(rule: Callable[[Any], bool]) -> Any:
    """References that it writes where the rule says so of the operation, and reads elsewhere."""
    return _field(Role.RULED, rule=rule)


def block() -> Any:
    """A block of operations inside of it."""
    return _field(Role.BLOCK)


def given() -> Any:
    """Values that its blocks begin with."""
    return _field(Role.GIVEN)


def computed() -> Any:
    """Indices that its blocks compute."""
    return _field(Role.COMPUTED)


def attribute(*, default: Any = MISSING, repr: bool = True) -> Any:
    """What is known while tracing: kinds, sizes, flags; buffers and variables."""
    return _field(Role.ATTRIBUTE, default, repr=repr)


O = TypeVar("O", bound=Op)  # noqa: E741


@dataclass_transform(kw_only_default=True, field_specifiers=(
    defined, operand, read, written, updated, written_if, block, given, computed, attribute))
def operation(*traits: Trait) -> Callable[[type[O]], type[O]]:
    """Make a class an operation with these traits, and those that follow from them."""
    def declare(cls: type[O]) -> type[O]:
        for name, method in _methods(cls).items():
            if name in vars(cls):
                raise TypeError(f"{cls.__name__}.{name} is generated from the roles of the fields")
            setattr(cls, name, method)
        cls.traits = with_implied(*traits)
        return dataclass(slots=True, kw_only=True)(cls)
    return declare


# --- roles and types -------------------------------------------------------------------------------------------------

_KINDS = (Value, Literal, Ref, TileRef, Buffer, Index, Block)
_REFERENCES = (Role.READ, Role.WRITTEN, Role.UPDATED, Role.RULED)
_HOLDS: dict[Role, tuple[set[type], set[type]]] = {
    Role.DEFINED: ({Value}, {Value}), Role.GIVEN: ({Value}, {Value}), Role.BLOCK: ({Block}, {Block}),
    Role.OPERAND: ({Value, Buffer, Index}, {Value, Literal, Buffer, Index}), Role.COMPUTED: ({Index}, {Index}),
    Role.ATTRIBUTE: (set(), {Buffer}),
    **dict.fromkeys(_REFERENCES, ({Ref, TileRef}, {Ref, TileRef, Value, Literal})),
}
"""What a field of each role holds: at least one of the first, and nothing but the second."""


@cache
def _typed(annotation: str, module: str) -> Any:
    """The type that an annotation means where it stands; most fields share a few."""
    return eval(annotation, vars(sys.modules[module]))


def _members(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one that it is."""
    union = isinstance(hint, types.UnionType) or get_origin(hint) is Union
    return get_args(hint) if union else (hint,)


def _held(hint: Any) -> Iterator[type]:
    """The nouns of the IR that an annotation names."""
    for member in _members(hint):
        if member in _KINDS:
            yield member
        elif get_origin(member) is tuple:
            for part in get_args(member):
                yield from _held(part)


def _role(cls: type[Op], name: str, hint: Any) -> Role:
    """The role that a field declares, if its annotation agrees."""
    role = getattr(vars(cls).get(name), "metadata", {}).get("role")
    if role is None:
        raise TypeError(f"{cls.__name__}.{name} has no role: say operand(), read(), attribute()... (operation.py)")
    some, all_ = _HOLDS[role]
    held = set(_held(hint))
    if held - all_ or (some and not held & some):
        what = ", ".join(sorted(each.__name__ for each in held)) or "nothing of the IR"
        raise TypeError(f"{cls.__name__}.{name} is {role.name.lower()}, but holds {what}")
    return Role(role)


# --- methods as source -----------------------------------------------------------------------------------------------

_Lines = Mapping[type, list[str]]
_ADDRESS = ["yield {0}.offset", "if {0}.buffer.base is not None:", "    yield {0}.buffer.base"]
_STRIDES = ["for stride in {0}.strides:", "    if isinstance(stride, Value):", "        yield stride"]
_YIELD = ["yield {0}"]
_OPERANDS: _Lines = {
    Value: _YIELD, Literal: _YIELD, Ref: _ADDRESS, TileRef: [*_ADDRESS, *_STRIDES],
    Index: ["yield from {0}.operands()"], Buffer: ["if {0}.base is not None:", "    yield {0}.base"],
}


def _refs(*lines: str) -> dict[str, _Lines]:
    return {"operands": _OPERANDS, "refs": {Ref: list(lines), TileRef: list(lines)}}


_GENERATED: dict[Role, dict[str, _Lines]] = {
    Role.DEFINED: {"defines": {Value: ["return {0}"]}, "__post_init__": {Value: ["{0}.op = self"]}},
    Role.OPERAND: {"operands": _OPERANDS}, Role.READ: _refs("yield {0}, False"), Role.WRITTEN: _refs("yield {0}, True"),
    Role.UPDATED: _refs("yield {0}, False", "yield {0}, True"), Role.RULED: _refs("yield {0}, {1}_is_written(self)"),
    Role.BLOCK: {"blocks": {Block: _YIELD}}, Role.GIVEN: {"given": {Value: _YIELD}},
    Role.COMPUTED: {"computed": _OPERANDS}, Role.ATTRIBUTE: {},
}
"""By role the methods that a field has a part in, and its lines there by what it holds: {0} is that, {1} the field."""


def _methods(cls: type[Op]) -> dict[str, Callable[..., Any]]:
    """The methods of a class, in the order of its fields; among references those that it reads come first."""
    hints = {name: _typed(text, cls.__module__) for name, text in cls.__annotations__.items()}
    lines, scope = dict[str, list[str]](), {each.__name__: each for each in _KINDS}
    roles = {name: _role(cls, name, hints[name]) for name in cls.__annotations__}
    for name, role in sorted(roles.items(), key=lambda item: item[1] is not Role.READ):
        if "refs" in (parts := _GENERATED[role]):
            lines.setdefault("refs", []).extend(_each(f"self.{name}", name, hints[name], parts["refs"]))
    for name, role in roles.items():
        scope[f"{name}_is_written"] = vars(cls)[name].metadata["rule"]
        for method, part in _GENERATED[role].items():
            if method != "refs":
                lines.setdefault(method, []).extend(_each(f"self.{name}", name, hints[name], part))
    return _compiled(cls.__qualname__, lines, scope)


def _each(text: str, name: str, hint: Any, leaves: _Lines, depth: int = 0) -> list[str]:
    """The lines for all that an expression of this type holds."""
    kinds, rest = dict[tuple[str, ...], list[str]](), []
    for member in _members(hint):
        if inner := _inside(text, name, member, leaves, depth):
            kinds.setdefault(tuple(inner), []).append((get_origin(member) or member).__name__)
        else:
            rest.append(member)
    if len(kinds) == 1 and rest in ([], [type(None)]):
        lines: list[str] = list(*kinds)
        return [f"if {text} is not None:", *_indented(lines)] if rest else lines
    tests = [(f"isinstance({text}, {'({})'.format(', '.join(names)) if names[1:] else names[0]})", lines)
             for lines, names in kinds.items()]
    return [line for i, (test, lines) in enumerate(tests)
            for line in (f"{'elif' if i else 'if'} {test}:", *_indented(lines))]


def _inside(text: str, name: str, kind: Any, leaves: _Lines, depth: int) -> list[str]:
    """The lines for one type that is no union."""
    if kind in leaves:
        return [line.format(text, name) for line in leaves[kind]]
    parts = get_args(kind) if get_origin(kind) is tuple else ()
    if parts[1:] == (...,):
        lines = _each(f"x{depth}", name, parts[0], leaves, depth + 1)
        return [f"for x{depth} in {text}:", *_indented(lines)] if lines else []
    return [line for i, part in enumerate(parts) for line in _each(f"{text}[{i}]", name, part, leaves, depth)]


def _indented(lines: list[str] | tuple[str, ...]) -> list[str]:
    return [f"    {line}" for line in lines]


def _compiled(owner: str, methods: dict[str, list[str]], scope: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    source = [line for name, body in methods.items() for line in (f"def {name}(self):", *_indented(body))]
    made = dict[str, Callable[..., Any]]()
    exec(compile("\n".join(source), f"<operation {owner}>", "exec"), scope, made)
    for name, method in made.items():
        method.__qualname__ = f"{owner}.{name}"
    return made
