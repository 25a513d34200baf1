"""Keys of tuned choices: by value, of everything that an argument may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import moye as mo
from moye.runtime.tuning.key import described


@dataclass(frozen=True)
class Pair:
    x: Any
    scale: float


def array(rows=32, columns=64, dtype=np.float32):
    return np.zeros((rows, columns), dtype)


def copy(x, shape=(16, 64), stride=(64, 1), op=None, **options):
    return mo.make_tma_copy(op or mo.TmaLoad(), x, mo.make_layout(shape, stride), **options)


def alike(*values):
    """Whether all have one key and one text."""
    found = [described(value) for value in values]
    keys, texts = {argument.key() for argument in found}, {argument.text() for argument in found}
    assert len(keys) == len(texts), (keys, texts)
    return len(keys) == 1


def test_arrays_count_by_what_kernels_are_specialised_on_and_their_shape():
    assert alike(array(), array())
    assert not alike(array(), array(16))
    assert not alike(array(), array(dtype=np.int32))
    assert not alike(array(), array(64, 32).T)
    assert described(array()).text() == "float32 (32, 64):(4n, 1) align 16"
    wide = array(32, 128)
    assert described(wide[:, :64]).key() != described(array()).key()        # strides by value in this process,
    assert described(wide[:, :64]).text() == described(array()).text()      # by their kind on disk
    assert not alike(wide[:, 2:66], wide[:, :64])


def test_tma_copies_count_by_array_and_tile():
    assert alike(copy(array()), copy(array()))
    assert not alike(copy(array()), array())
    assert not alike(copy(array()), copy(array(64)))
    assert not alike(copy(array()), copy(array(), (8, 64)))
    assert not alike(copy(array()), copy(array(), (16, 64), (64, 1), mo.TmaStore()))
    assert not alike(copy(array()), copy(array(), multicast=2))
    assert not alike(copy(array()), copy(array(), tile=(16, 64)))
    assert described(copy(array())).text() == \
        f"tma({mo.TmaLoad()!r}, (16,64):(64,1), None, 1) of float32 (32, 64):(4n, 1) align 16"


def test_containers_count_by_their_parts():
    x = array()
    for wrap in (lambda a: (a, 1), lambda a: [a, 1], lambda a: {"a": a}, lambda a: Pair(a, 2.0),
                 lambda a: ((a,), None)):
        assert alike(wrap(copy(x)), wrap(copy(array())))
        assert not alike(wrap(copy(x)), wrap(x))
        assert not alike(wrap(copy(x)), wrap(copy(array(64))))
    assert not alike((x, 1), (x, 2))
    assert not alike((x, 1), [x, 1])
    assert not alike(Pair(x, 1.0), (x, 1.0))
    assert [info.shape for info in described(((x, copy(array(64))), 3)).arrays()] == [(32, 64), (64, 64)]
    assert described((x, 3)).text() == "tuple(0: float32 (32, 64):(4n, 1) align 16, 1: 3)"


def test_other_values_count_as_they_are():
    assert alike((1, 2), (1, 2)) and not alike((1, 2), (1, 3))
    assert described(1).key() != described(True).key() != described(1.0).key()
    assert alike([1, {2: 3}], [1, {2: 3}])                                  # without a hash
    assert alike(mo.make_layout((4, 8)), mo.make_layout((4, 8)))
    assert not any(described((1, Pair(None, 1.0))).arrays())
