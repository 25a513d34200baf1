"""Dynamic leaves: the same verbs, evaluated afterwards, agree with static layouts; missing facts are named."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import moye.layout as ml
from moye.errors import FactError, LayoutError
from moye.layout import Layout, make_layout, size

Static = Callable[[Layout, Mapping[str, int]], Layout]


@pytest.fixture
def matrix(sym: Any) -> Layout:
    return Layout((sym("M"), sym("K")), (sym("sM"), sym("sK")))


def test_zipped_divide_form(sym: Any) -> None:
    layout = Layout((sym("M", divisor=128), sym("K", divisor=8)), (sym("sM"), sym("sK")))
    assert str(ml.zipped_divide(layout, (128, 8))) == "((128,8),(M/128,K/8)):((sM,sK),(128*sM,8*sK))"
    assert str(ml.zipped_divide(layout, (128, None))) == "((128,K),(M/128,1)):((sM,sK),(128*sM,0))"
    assert sym.assumed == []


@pytest.mark.parametrize("extents", [(256, 16), (200, 20), (1, 7)])
def test_divides_evaluate_to_static_divides(matrix: Layout, static: Static, extents: tuple[int, int]) -> None:
    env = {"M": extents[0], "K": extents[1], "sM": 3, "sK": 1000}
    numbers = static(matrix, env)
    for verb in (ml.logical_divide, ml.zipped_divide, ml.tiled_divide, ml.flat_divide):
        got, want = static(verb(matrix, (128, 8)), env), verb(Layout((1024, 1024), (3, 1000)), (128, 8))
        assert ml.congruent(got, want)
        assert size(got) >= size(numbers)  # type: ignore[operator]
        assert got.stride == want.stride


def test_offsets(matrix: Layout, static: Static, sym: Any) -> None:
    env = {"M": 6, "K": 5, "sM": 7, "sK": 50, "i": 4, "j": 3}
    i, j = sym("i"), sym("j")
    assert matrix(i, j).run(env) == static(matrix, env)(4, 3)  # type: ignore[union-attr]
    assert matrix(j, i).run(env) == static(matrix, env)(3, 4)  # type: ignore[union-attr]
    assert matrix(sym("n")).run(env | {"n": 20}) == static(matrix, env)(20)  # type: ignore[union-attr]
    assert ml.cosize(matrix).run(env) == ml.cosize(static(matrix, env))  # type: ignore[union-attr]
    assert ml.size(matrix).run(env) == 30  # type: ignore[union-attr]


def test_dynamic_index_of_a_static_layout(sym: Any) -> None:
    thread = sym("tid", lower=0, upper=255)
    assert str(make_layout((32, 8))(thread)) == "tid"
    assert str(Layout.parse("(32,8):(1,40)")(thread)) == "tid%32+tid//32*40"
    assert str(Layout.parse("(32,8):(0,1)")(thread)) == "tid//32"
    assert str(Layout.parse("(256,2):(3,1)")(thread)) == "tid*3"
    assert str(ml.idx2crd((32, (4, 2)), thread)) == "(tid%32, (tid//32%4, tid//32//4))"
    for source in ("((2,4),(8,4)):((1,64),(2,16))", "(4,1):(3,100)"):
        layout = Layout.parse(source)
        for value in (0, 5, 77, 255):
            assert layout(thread).run({"tid": value}) == layout(value)  # type: ignore[union-attr]


def test_slices(matrix: Layout, sym: Any) -> None:
    tiles = ml.zipped_divide(matrix, (128, 8))
    sub, offset = ml.slice_and_offset(((None, None), (sym("bx"), None)), tiles)
    assert str(sub) == "(128,8,(K+7)//8):(sM,sK,8*sK)"
    assert offset.run({"bx": 2, "sM": 3}) == 768  # type: ignore[union-attr]


def test_composition_of_one_dynamic_mode(sym: Any) -> None:
    layout = Layout(sym("M"), sym("s"))
    assert str(ml.composition(layout, Layout.parse("(4,8):(8,1)"))) == "(4,8):(8*s,s)"
    assert str(ml.composition(Layout.parse("(4,8):(8,1)"), Layout((4, 2), (1, 4)))) == "(4,2):(8,1)"


def test_composition_with_facts(sym: Any) -> None:
    layout = Layout((sym("M", divisor=128), sym("K")), (1, sym("sK")))
    assert str(ml.composition(layout, Layout(32, 1))) == "32:1"
    assert str(ml.composition(layout, Layout(32, 2))) == "32:2"
    assert str(ml.composition(Layout((sym("M", lower=50), 4), (1, sym("s"))), Layout(32, 1))) == "32:1"
    assert str(ml.composition(Layout((4, sym("N")), (1, sym("s"))), Layout(8, 1))) == "(4,2):(1,s)"


def test_composition_without_facts(sym: Any) -> None:
    with pytest.raises(FactError) as caught:
        ml.composition(Layout((sym("M"), sym("K")), (1, sym("sK"))), Layout(32, 1))
    assert caught.value.message == ("composition of (M,K):(1,sK) with 32:1 at mode 0 (M:1) of the coalesced left "
                                    "layout needs a bound that tells whether 32 <= M")


def test_equality_is_provable_sameness(sym: Any) -> None:
    layout = Layout((sym("M"), 4), (1, sym("s")))
    assert layout == Layout((sym("M"), 4), (1, sym("s")))
    assert layout != Layout((sym("N"), 4), (1, sym("s")))
    assert hash(layout) == hash(Layout((sym("M"), 4), (1, sym("s"))))
    assert len({layout: 1, Layout((sym("M"), 4), (1, sym("s"))): 2}) == 1


def test_coalesce(sym: Any) -> None:
    m, k = sym("M"), sym("K")
    assert str(ml.coalesce(make_layout((m, k)))) == "M*K:1"
    assert str(ml.coalesce(Layout((m, 1, k), (1, 5, sym("s"))))) == "(M,K):(1,s)"


def test_complement(sym: Any) -> None:
    assert str(ml.complement(make_layout(128), sym("M", divisor=128))) == "M/128:128"
    assert str(ml.complement(Layout(4, 2), sym("M"))) == "(2,(M+7)//8):(1,8)"
    with pytest.raises(FactError) as caught:
        ml.complement(Layout((4, 8), (sym("s"), sym("t"))))
    assert caught.value.message == "complement of (4,8):(s,t) needs a bound that tells whether stride t < s"


def test_inverses_of_compact_dynamic_layouts(sym: Any, static: Static) -> None:
    m, k = sym("M", lower=1), sym("K", lower=1)
    inverse = ml.right_inverse(Layout((k, m), (m, 1)))
    assert str(inverse) == "(M,K):(K,1)"
    env = {"M": 4, "K": 6}
    numbers, back = static(Layout((k, m), (m, 1)), env), static(inverse, env)
    assert [numbers(back(i)) for i in range(24)] == list(range(24))


def test_vectors_record_no_assumption(sym: Any) -> None:
    tile = Layout((8, sym("M")), (1, sym("s")))
    assert ml.max_common_vector(tile, make_layout((8, 4))) == 8
    assert ml.max_common_vector(Layout((sym("M"), 4), (1, sym("s"))), make_layout((8, 4))) == 1
    assert sym.assumed == []


def test_recast_records_divisibility(sym: Any) -> None:
    layout = Layout((sym("M", divisor=8), 4), (1, sym("s")))
    assert str(ml.recast(layout, 16, 128)) == "(M/8,4):(1,s/8)"
    assert sym.assumed == ["s % 8 == 0"]


def test_products(sym: Any, static: Static) -> None:
    result = ml.blocked_product(make_layout((8, 4)), make_layout((sym("m"), sym("n"))))
    assert str(result) == "((8,m),(4,n)):((1,32),(8,m*32))"
    assert static(result, {"m": 2, "n": 3}) == ml.blocked_product(make_layout((8, 4)), make_layout((2, 3)))


def test_tile_to_shape(sym: Any) -> None:
    assert str(ml.tile_to_shape(make_layout((8, 8)), (64, sym("K", divisor=8)))) == "((8,8),(8,K/8)):((1,64),(8,512))"


def test_no_python_comparison_of_dynamic_integers(sym: Any) -> None:
    """Every verb on every pair of static and dynamic modes: a comparison would raise AssertionError."""
    pieces = [(4, 1), (sym("M", divisor=16), 1), (8, sym("s")), (sym("N"), sym("t")), (1, 0)]
    for a, b in itertools.product(pieces, pieces):
        layout = Layout((a[0], b[0]), (a[1], b[1]))
        for verb in (ml.coalesce, ml.filter, ml.flatten, ml.right_inverse, ml.nullspace, ml.cosize, str, hash):
            verb(layout)  # type: ignore[operator]
        for risky in (ml.complement, ml.left_inverse, lambda x: ml.composition(x, make_layout(16)),
                      lambda x: ml.logical_divide(x, 4), lambda x: ml.blocked_product(x, make_layout(2))):
            with contextlib.suppress(LayoutError):
                risky(layout)
