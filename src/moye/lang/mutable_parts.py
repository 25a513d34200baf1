"""Python's mutable objects, read and written back as ordered parts: what a traced region may change behind its back.

In: an object.  Out: its ``Kind``, which reads it as (keys, values), writes such a state back, and names its parts.

>>> kinds_of(type([]))[0].read([7, 8])
(range(0, 2), [7, 8])

moye's own objects, modules of others and immutable values have no kind.
"""

from __future__ import annotations

import array
import collections
import operator
import sys
import types
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from moye.tensor.known import Known, KnownBool, KnownInt, weak

State = tuple[Sequence[object], list[object]]
PLAIN = (int, float, bool, str, bytes, complex, type(None), KnownInt, KnownBool)
_FOREIGN = sys.stdlib_module_names | {
    "IPython", "_pytest", "cuda", "cupy", "ipykernel", "jax", "jaxlib", "matplotlib", "ml_dtypes", "moye", "numpy",
    "nvidia", "pandas", "pluggy", "pytest", "scipy", "torch", "traitlets"}
_HEAP = 1 << 9                                              # Py_TPFLAGS_HEAPTYPE: made by a class statement
_CONTAINERS = ("types", "collections", "array", "functools", "_collections", "collections.abc")


class Kind(ABC):
    """How a family of objects is read, written and named."""

    grows = False
    """Whether parts may come and go one by one, as attributes do; of a list they may not."""
    carried = True
    """Whether a part may be a variable of the kernel; the others can only stay as they are."""

    @abstractmethod
    def read(self, held: Any) -> State: ...

    def write(self, held: Any, state: State) -> None:
        """Put a state back: of a kind that is carried."""
        raise AssertionError(f"a {type(held).__name__} is not carried")

    @abstractmethod
    def name(self, path: str, key: object) -> str: ...


class _List(Kind):
    def read(self, held: Any) -> State:
        values = list(_items_of(held))
        return range(len(values)), values

    def write(self, held: Any, state: State) -> None:
        if isinstance(held, collections.deque):
            collections.deque.clear(held)
            collections.deque.extend(held, state[1])
        else:
            list.__setitem__(held, slice(None), state[1])

    def name(self, path: str, key: object) -> str:
        return f"{path}[{key}]"


def _items_of(held: Any) -> Iterator[object]:
    return collections.deque.__iter__(held) if isinstance(held, collections.deque) else list.__iter__(held)


class _Dict(Kind):
    def read(self, held: Any) -> State:
        return tuple(dict.keys(held)), list(dict.values(held))

    def write(self, held: Any, state: State) -> None:
        dict.clear(held)
        dict.update(held, zip(*state, strict=True))
        if isinstance(held, collections.OrderedDict):
            for key in state[0]:
                collections.OrderedDict.move_to_end(held, key)

    def name(self, path: str, key: object) -> str:
        return f"{path}[{key!r}]"


class _Set(Kind):
    carried = False

    def read(self, held: Any) -> State:
        return (), [tuple(sorted(map(id, held)))]

    def name(self, path: str, key: object) -> str:
        return path


class _Bytes(Kind):
    """Numbers in memory: of a bytearray, ``array.array`` or NumPy array; large ones as a checksum."""

    carried = False

    def read(self, held: Any) -> State:
        if getattr(getattr(held, "dtype", None), "hasobject", False):
            return (), [tuple(map(id, held.ravel().tolist()))]
        data = held.tobytes() if hasattr(held, "tobytes") else bytes(held)
        return (), [data if len(data) <= 1 << 12 else (len(data), zlib.crc32(data), zlib.adler32(data))]

    def name(self, path: str, key: object) -> str:
        return path


class _Version(Kind):
    """A torch tensor, which counts its changes."""

    carried = False

    def read(self, held: Any) -> State:
        return (), [held._version]

    def name(self, path: str, key: object) -> str:
        return path


class _Attributes(Kind):
    """What an instance holds, in its ``__dict__`` and its slots."""

    grows = True

    def read(self, held: Any) -> State:
        found = dict(getattr(held, "__dict__", {}))
        for name, member in _slots_of(type(held)):
            try:
                found[name] = member.__get__(held)
            except AttributeError:
                continue
        return tuple(found), list(found.values())

    def write(self, held: Any, state: State) -> None:
        given = dict(zip(*state, strict=True))
        for name, member in _slots_of(type(held)):
            if name in given:
                member.__set__(held, given.pop(name))
            elif _is_set(member, held):
                member.__delete__(held)
        if hasattr(held, "__dict__"):
            held.__dict__.clear()
            held.__dict__.update(given)

    def name(self, path: str, key: object) -> str:
        return f"{path}.{key}"


class _Class(Kind):
    """The plain attributes of a user's class; functions and descriptors are not state."""

    grows = True

    def read(self, held: Any) -> State:
        found = {name: value for name, value in vars(held).items()
                 if not (name.startswith("__") and name.endswith("__"))
                 and not name.startswith("_abc_") and not hasattr(type(value), "__get__")}
        return tuple(found), list(found.values())

    def write(self, held: Any, state: State) -> None:
        given = dict(zip(*state, strict=True))
        for name in self.read(held)[0]:
            if name not in given:
                type.__delattr__(held, str(name))
        for name, value in given.items():
            if vars(held).get(str(name)) is not value:
                type.__setattr__(held, str(name), value)

    def name(self, path: str, key: object) -> str:
        return f"{path}.{key}"


class _Cell(Kind):
    def read(self, held: Any) -> State:
        try:
            return ("",), [held.cell_contents]
        except ValueError:                                  # not assigned yet
            return (), []

    def write(self, held: Any, state: State) -> None:
        if state[1]:
            held.cell_contents = state[1][0]
        elif self.read(held)[1]:
            del held.cell_contents

    def name(self, path: str, key: object) -> str:
        return path


class _Iterator(Kind):
    """A generator or another iterator: how far it is."""

    carried = False

    def read(self, held: Any) -> State:
        return (), [_progress(held, 0)]

    def name(self, path: str, key: object) -> str:
        return path


class Globals(Kind):
    """Chosen names of a module's namespace."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def read(self, held: Any) -> State:
        found = [name for name in self.names if name in held]
        return tuple(found), [held[name] for name in found]

    def write(self, held: Any, state: State) -> None:
        given = dict(zip(*state, strict=True))
        for name in self.names:
            if name in given:
                held[name] = given[name]
            else:
                held.pop(name, None)

    def name(self, path: str, key: object) -> str:
        return str(key)


_LIST, _DICT, _SET, _BYTES, _VERSION, _ATTRIBUTES = _List(), _Dict(), _Set(), _Bytes(), _Version(), _Attributes()
CELL, CLASS, _ITERATOR = _Cell(), _Class(), _Iterator()
_known: WeakKeyDictionary[type, tuple[Kind, ...]] = WeakKeyDictionary()


def kinds_of(cls: type) -> tuple[Kind, ...]:
    """The kinds of a class's instances: none for what cannot change, or is moye's or another package's."""
    found = _known.get(cls)
    if found is None:
        found = _known[cls] = tuple(_kinds(cls))
    return found


def _kinds(cls: type) -> Iterator[Kind]:
    module = cls.__module__ or ""
    if cls in PLAIN or module.split(".")[0] == "moye" or issubclass(cls, (type, types.ModuleType)):
        return
    builtin = ((list, _LIST), (collections.deque, _LIST), (dict, _DICT), (set, _SET), (bytearray, _BYTES),
               (array.array, _BYTES))
    yield from (kind for base, kind in builtin if issubclass(cls, base))
    if cls.__name__ == "ndarray" and module == "numpy":
        yield _BYTES
    elif module.split(".")[0] == "torch" and hasattr(cls, "_version"):
        yield _VERSION
    elif hasattr(cls, "__next__") and hasattr(cls, "__iter__"):
        yield _ITERATOR
    if (is_users_class(cls) or module in _CONTAINERS) and ((hasattr(cls, "__dictoffset__") and cls.__dictoffset__)
                                                        or any(True for _ in _slots_of(cls))):
        yield _ATTRIBUTES


def is_users(module: str | None) -> bool:
    """Whether a module is the user's, or may hold kernels: not moye's, the standard library's or a known package's."""
    top = (module or "").partition(".")[0]
    return top == "__main__" or top not in _FOREIGN


def is_users_class(cls: type) -> bool:
    """Whether a class is the user's; one that ``exec`` made in a namespace without a name says it is a builtin."""
    return is_users(cls.__module__) or (cls.__module__ == "builtins" and bool(cls.__flags__ & _HEAP))


def same(a: object, b: object) -> bool:
    """Whether a part is unchanged: the same object, or an equal plain value."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return repr(a) == repr(b)                           # tells -0.0 from 0.0
    if isinstance(a, Known) and isinstance(b, Known):
        return weak(a) == weak(b) and a.dtype is b.dtype
    if isinstance(a, tuple) and isinstance(b, tuple) and _is_plain(a) and _is_plain(b):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) in PLAIN and a == b


def _is_plain(value: object) -> bool:
    return all(map(_is_plain, value)) if type(value) is tuple else type(value) in PLAIN


def _slots_of(cls: type) -> tuple[tuple[str, Any], ...]:
    """The slots of a class and its bases, by name; a base's slot of the same name is hidden."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if "__slots__" in vars(base):
            found.update((name, member) for name, member in vars(base).items()
                         if isinstance(member, types.MemberDescriptorType) and not name.startswith("__"))
    return tuple(found.items())


def _is_set(member: Any, held: object) -> bool:
    try:
        member.__get__(held)
    except AttributeError:
        return False
    return True


def _progress(held: Any, depth: int) -> object:
    """The state that tells how far an iterator is."""
    if isinstance(held, types.GeneratorType):
        frame = held.gi_frame
        if frame is None:
            return None
        return frame.f_lasti, tuple((name, _token(value, depth)) for name, value in sorted(frame.f_locals.items()))
    if type(held).__module__ == "builtins" and hasattr(held, "__length_hint__"):
        return operator.length_hint(held)                   # those of ranges and dicts reduce to a new object each time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            made = held.__reduce__()
    except Exception:                                       # one that does not tell
        return None
    return tuple(_token(part, depth) for part in made) if isinstance(made, tuple) else str(made)


def _token(value: Any, depth: int) -> object:
    if type(value) in PLAIN:
        return value
    if isinstance(value, tuple):
        return tuple(_token(item, depth) for item in value)
    if depth < 8 and hasattr(type(value), "__next__"):
        return _progress(value, depth + 1)
    return id(value)
