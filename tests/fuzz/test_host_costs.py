"""Calls that were made before take no long way on the host, of any public kernel, operator or kernel of a user.

Ways are counted, and no time is taken: ``python tests/fuzz/host_costs.py 0 3`` does that.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

import host_calls
import moye as mo
import moye.torch as mt
from fuzz.test_all_drawn import REACHED, called
from moye import kernels

LONG = {"gemm_plan": ("moved", "a plan of other arrays is made anew, once")}
"""Families that take a long way, when, and why."""
NOT_DRAWN = {name: why for name, why in REACHED.items() if not name.startswith("gemm_")}


@pytest.mark.parametrize("family", host_calls.FAMILIES)
def test_what_was_called_before_takes_no_long_way(family):
    """The same call, and one with tensors at other addresses: neither decided anew, nor classified and checked anew."""
    for seed in range(2):
        again, moved = host_calls.long_ways(family, seed)
        assert not {"run", "decide", "refuse"} & {*again}, f"{family} {seed}: the same call"
        if family not in LONG:
            assert not {"run", "decide", "refuse"} & {*moved}, f"{family} {seed}: a call with other tensors"


def test_every_public_kernel_and_operator_is_counted():
    names = called("host_calls")
    assert sorted({*kernels.__all__, *mt.__all__} - names - set(NOT_DRAWN)) == []


@mo.kernel
def by_number(out, xs):
    out[mo.thread_idx().x] = xs[1][mo.thread_idx().x]


def test_a_long_way_is_seen(monkeypatch):
    """The short way takes no dicts apart whose keys are numbers, as 1 and True are equal."""
    monkeypatch.setitem(host_calls.FAMILIES, "odd", lambda draw: lambda rows: host_calls.called(
        by_number[1, 32], torch.zeros(32), {1: torch.zeros(32)}))
    assert host_calls.long_ways("odd", 0) == (["plan", "run"], ["plan", "run"])
