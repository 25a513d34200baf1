"""Random layouts and a symbolic DynInt for the layout tests, handed out as fixtures."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from layout_symbols import Env, Sym, value
from moye.layout import Layout


def random_shape(rng: random.Random, extents: tuple[int, ...] = (1, 2, 3, 4, 6, 8), deep: int = 2,
                 room: int = 256) -> Any:
    """A random nested shape of at most ``room`` elements."""
    if deep == 0 or rng.random() < 0.3:
        return rng.choice([e for e in extents if e <= room])
    modes = []
    for _ in range(rng.randint(1, 3)):
        modes.append(random_shape(rng, extents, deep - 1, room))
        room //= max(1, _size(modes[-1]))
    return tuple(modes)


def _size(shape: Any) -> int:
    result = 1
    for item in shape if isinstance(shape, tuple) else ():
        result *= _size(item)
    return result if isinstance(shape, tuple) else shape


def random_layout(rng: random.Random, injective: bool = False, **options: Any) -> Layout:
    """A random static layout: permuted compact strides, with gaps, and (unless injective) zeros."""
    from moye.layout.tuples import flatten_tuple, unflatten_tuple
    shape = random_shape(rng, **options)
    leaves = [int(leaf) for leaf in flatten_tuple(shape) if isinstance(leaf, int)]
    order = list(range(len(leaves)))
    rng.shuffle(order)
    steps, step = [0] * len(leaves), 1
    for i in order:
        if rng.random() < 0.2:
            step *= rng.choice((2, 3))
        if injective or rng.random() > 0.1:
            steps[i] = step
            step *= leaves[i]
    return Layout(shape, unflatten_tuple(steps, shape))


@pytest.fixture
def sym() -> type[Sym]:
    Sym.assumed = []
    Sym.assumptions = []
    return Sym


@pytest.fixture
def static() -> Callable[[Layout, Env], Layout]:
    """Evaluate the dynamic leaves of a layout."""
    from moye.layout.tuples import map_leaves
    return lambda layout, env: Layout(map_leaves(lambda x: value(x, env), layout.shape),
                                      map_leaves(lambda x: value(x, env), layout.stride))


@pytest.fixture
def layouts() -> Callable[..., list[Layout]]:
    """``layouts(count, seed=, injective=, ...)``: random layouts, the same ones in every run."""
    def make(count: int, seed: int = 0, **options: Any) -> list[Layout]:
        rng = random.Random(seed)
        return [random_layout(rng, **options) for _ in range(count)]
    return make
