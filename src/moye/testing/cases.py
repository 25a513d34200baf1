"""What a kernel is judged by: ``Case`` (arguments and what is an output), ``Goals`` (costs) and ``Limits`` (resources).

In: a function that draws the arguments for given sizes.  Out: cases at sizes, seeds, strides, aliases and values at
which kernels that are right by luck fail.

    def make(rng, n): return {"out": np.empty(n, np.float32), "x": rng.standard_normal(n, np.float32)}
    cases(make, [(1000,), *ragged_sizes(256)], strided=("x",), special=True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from moye.errors import ArgumentError

Array = np.ndarray[Any, Any]
Make = Callable[..., Mapping[str, Any]]
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)


def in_turn(line: Mapping[str, Any]) -> int:
    """How many wavefronts a line of ``Report.counters()`` takes for one that would do: one after the other.

    That is the degree of its worst bank conflict.  A cp.async may take more without any, out of many lines of memory.
    """
    return max(int(line["degree"]), -(-int(line["wavefronts"]) // max(int(line["ideal"]), 1)))


@dataclass(frozen=True, slots=True)
class Goals:
    """What a kernel may cost, in a case.  None asks for nothing.

    ``degree``: the largest degree of a bank conflict (1: none); a cp.async that takes one wavefront for each line of
    its source counts as one of as many.  ``conflicts``: wavefronts of shared memory above the fewest possible.
    ``sectors``: sectors of global memory that are moved, relative to the fewest possible (1.0).
    ``overlap``: the least share of products that run while copies are in flight, in block 0.  ``launches``: the most
    launches.  ``at_most`` and ``at_least``: bounds of numbers of ``Report.counters()``, and of operations in the
    kernels under their names in the IR, such as ``{"global_load_requests": 32}`` or ``{"TensorCopy": 1}``.
    """

    degree: int | None = None
    conflicts: int | None = None
    sectors: float | None = None
    overlap: float | None = None
    launches: int | None = None
    at_most: Mapping[str, float] = field(default_factory=dict)
    at_least: Mapping[str, float] = field(default_factory=dict)

    def missed(self, numbers: Mapping[str, Any]) -> list[tuple[str, str]]:
        """(status, sentence) for each goal that is not reached."""
        found = [*self._shared(numbers), *self._global(numbers)]
        if self.overlap is not None and (numbers["overlap"] or 0) < self.overlap:
            found.append(("overlap", f"{numbers['overlap'] or 0:.2f} of the products run while copies are in flight, "
                                     f"and at least {self.overlap:.2f} is asked for"))
        counts = {**numbers["counters"], **numbers["operations"], "launches": numbers["launches"]}
        most = dict(self.at_most) if self.launches is None else {**self.at_most, "launches": self.launches}
        said = {name: f"the kernel has {name} {count} times" for name, count in numbers["operations"].items()}
        found += [("costly", f"{said.get(name, f'{name} is {counts.get(name, 0)}')}, and at most {bound} is asked for")
                  for name, bound in most.items() if counts.get(name, 0) > bound]
        found += [("costly", f"{name} is {counts.get(name, 0)}, and at least {bound} is asked for")
                  for name, bound in self.at_least.items() if counts.get(name, 0) < bound]
        return found

    def _shared(self, numbers: Mapping[str, Any]) -> list[tuple[str, str]]:
        if self.degree is not None and numbers["degree"] > self.degree:
            line = max((row for row in numbers["lines"] if row["space"] == "shared"), key=in_turn)
            if in_turn(line) > line["degree"]:
                return [("bank conflicts", f"the {line['direction']} of {line['tensor']} at line {line['line']} takes "
                                           f"{line['wavefronts']} wavefronts where {line['ideal']} would do, as "
                                           f"{line['instruction']} goes line by line of its source: degree "
                                           f"{in_turn(line)}, and at most {self.degree} is asked for")]
            return [("bank conflicts", f"the {line['direction']} of {line['tensor']} at line {line['line']} has bank "
                                       f"conflicts of degree {line['degree']}, and at most {self.degree} is asked for")]
        if self.conflicts is not None and numbers["conflicts"] > self.conflicts:
            return [("bank conflicts", f"accesses of shared memory take {numbers['conflicts']} wavefronts more than "
                                       f"the fewest possible, and at most {self.conflicts} is asked for")]
        return []

    def _global(self, numbers: Mapping[str, Any]) -> list[tuple[str, str]]:
        if self.sectors is None or numbers["sector_ratio"] <= self.sectors:
            return []
        line = max((row for row in numbers["lines"] if row["space"] == "global"),
                   key=lambda row: row["sectors"] / max(1, row["ideal"]))
        return [("uncoalesced", f"{numbers['sector_ratio']:.2f} times the fewest possible sectors of global memory are "
                                f"moved, and at most {self.sectors:.2f} times is asked for; the {line['direction']} of "
                                f"{line['tensor']} at line {line['line']} moves {line['sectors']} where "
                                f"{line['ideal']} would do")]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a source may use: ``seconds`` of wall time in all, ``cpu`` seconds, ``memory`` in bytes of addresses,
    ``output`` in bytes of what it prints; what is beyond is dropped.
    """

    seconds: float = 60.0
    cpu: int = 60
    memory: int = 8 << 30
    output: int = 1 << 16

    def __post_init__(self) -> None:
        for name in ("seconds", "cpu", "memory", "output"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ArgumentError(f"Limits: {name} is {value!r}, and must be a positive number")


@dataclass(frozen=True, slots=True)
class Case:
    """One call that a source is judged by.

    ``arguments`` by name: NumPy arrays (which may overlap and have any strides), numbers, strings.  ``outputs`` are
    filled with poison first; ``updated`` are read and written; nothing else may change.  ``grid``, ``block`` and
    ``cluster``: the entry is a kernel that the judge launches; without ``block`` it is a host function that launches.
    ``rtol``: the allowed error of floats, relative to their norm (None: by dtype).  ``exact``: bit for bit, but for
    the bits of a NaN.  ``earliest`` completes asynchronous copies at once.
    """

    name: str
    arguments: Mapping[str, Any]
    outputs: tuple[str, ...] = ("out",)
    updated: tuple[str, ...] = ()
    grid: Any = None
    block: Any = None
    cluster: Any = (1, 1, 1)
    rtol: float | None = None
    exact: bool = False
    earliest: bool = False
    goals: Goals | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.arguments, Mapping):
            raise ArgumentError(f"Case: arguments is {self.arguments!r}, and must be a dict by name")
        for name in (*_names("outputs", self.outputs), *_names("updated", self.updated)):
            if not isinstance(self.arguments.get(name), np.ndarray):
                raise ArgumentError(f"Case: the output {name!r} is none of the arrays {', '.join(self.arrays)}")
        for name, value in self.arguments.items():
            if not isinstance(value, (np.ndarray, bool, int, float, str, np.generic)):
                raise ArgumentError(f"Case: argument {name!r} is a {type(value).__name__}, and must be a NumPy array, "
                                    f"a number or a string", hint="make other things in the host function")

    @property
    def arrays(self) -> dict[str, Array]:
        """The arguments that are arrays."""
        return {name: x for name, x in self.arguments.items() if isinstance(x, np.ndarray)}

    @property
    def written(self) -> tuple[str, ...]:
        return (*self.outputs, *self.updated)


def _names(what: str, names: Any) -> tuple[str, ...]:
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"Case: {what} is {names!r}, and must be a tuple of names")
    return names


def ragged_sizes(tile: int, most: int = 3) -> list[tuple[int]]:
    """Sizes at which a kernel with tiles of ``tile`` may fail: 1, around one tile, primes, around ``most`` tiles.

    >>> ragged_sizes(32)
    [(1,), (31,), (32,), (33,), (61,), (95,), (97,)]
    """
    for what, value in (("tile", tile), ("most", most)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 20:
            raise ArgumentError(f"ragged_sizes: {what} is {value!r}, and must be a positive integer")
    sizes = {1, tile - 1, tile, tile + 1, _prime_below(2 * tile), most * tile - 1, most * tile + 1}
    return [(size,) for size in sorted(sizes) if size > 0]


def _prime_below(n: int) -> int:
    return next((p for p in range(n - 1, 1, -1) if all(p % d for d in range(2, int(p ** 0.5) + 1))), 1)


def cases(make: Make, sizes: Iterable[Sequence[int]], *, seeds: Sequence[int] = (0, 1),
          outputs: tuple[str, ...] = ("out",), updated: tuple[str, ...] = (), strided: Sequence[str] = (),
          aliased: Sequence[tuple[str, str]] = (), special: bool = False, goals: Goals | None = None,
          **common: Any) -> list[Case]:
    """Cases of one function at several sizes, and variants of the first size.

    ``make(rng, *size)`` draws the arguments by name.  The first size is drawn with every seed, and has the ``goals``;
    the others with one seed each.  ``strided`` names arrays that must also work as views with gaps, in another order
    of modes; ``aliased`` has pairs of arrays of one shape that may be one; ``special`` puts NaN, infinities and zeros
    of both signs into the float inputs.  ``common`` goes to every ``Case``.
    """
    if not callable(make):
        raise ArgumentError(f"cases: make is {make!r}, and must be a function of a random generator and sizes")
    several = _sizes(sizes)
    drawn = [(several[0], seed) for seed in seeds] + [(size, 1000 + i) for i, size in enumerate(several[1:])]
    found = []
    for number, (size, seed) in enumerate(drawn):
        case = Case(f"size {_shown(size)}, seed {seed}", make(np.random.default_rng(seed), *size), outputs, updated,
                    earliest=number % 2 == 1, **common)
        found.append(replace(case, goals=goals) if number == 0 else case)
    return [*found, *_variants(make, several[0], found[0], strided, aliased, special)]


def _sizes(sizes: Any) -> list[tuple[int, ...]]:
    try:
        several = [tuple(size) for size in sizes]
    except TypeError:
        raise ArgumentError(f"cases: sizes is {sizes!r}, and must be a list of tuples of integers") from None
    if not several:
        raise ArgumentError("cases: there are no sizes")
    return several


def _shown(size: Sequence[int]) -> str:
    return " x ".join(map(str, size))


def _variants(make: Make, size: tuple[int, ...], like: Case, strided: Sequence[str],
              aliased: Sequence[tuple[str, str]], special: bool) -> list[Case]:
    plain, found = replace(like, goals=None), []
    if strided:
        drawn = dict(make(np.random.default_rng(2001), *size))
        drawn.update({name: with_gaps(drawn[name]) for name in strided})
        found.append(replace(plain, name=f"{like.name}, strided {', '.join(strided)}", arguments=drawn))
    for one, other in aliased:
        drawn = dict(make(np.random.default_rng(2002), *size))
        drawn[one] = drawn[other]
        found.append(replace(plain, name=f"{like.name}, {one} is {other}", arguments=drawn,
                             outputs=tuple(name for name in like.outputs if name not in (one, other)),
                             updated=tuple(dict.fromkeys((*like.updated, one)))))
    if special:
        rng = np.random.default_rng(2003)
        drawn = dict(make(rng, *size))
        drawn.update({name: with_special(rng, x) for name, x in drawn.items()
                      if isinstance(x, np.ndarray) and name not in like.outputs and x.dtype.kind == "f"})
        found.append(replace(plain, name=f"{like.name}, special values", arguments=drawn))
    return found


def with_gaps(x: Array) -> Array:
    """The same elements in every second place of larger memory, with the order of the modes reversed."""
    room = np.zeros(tuple(2 * n for n in reversed(x.shape)), x.dtype)
    view = room.T[tuple(slice(None, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def with_special(rng: np.random.Generator, x: Array) -> Array:
    """A copy with special values in about an eighth of its places: each of them, if there are so many places."""
    copied = x.copy("K")
    count = min(x.size, max(len(SPECIAL), x.size // 8))
    places = np.unravel_index(rng.permutation(x.size)[:count], x.shape)
    copied[places] = np.resize(np.array(SPECIAL), count).astype(x.dtype)
    return copied
