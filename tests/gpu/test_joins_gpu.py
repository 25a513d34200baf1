"""Variables where two ways meet, and static zeros, on the device: as tests/lang/test_joins.py has them simulated."""

from __future__ import annotations

import torch

import moye as mo


@mo.kernel
def joined(out, narrow, wide, n):
    i = mo.thread_idx().x
    if i < n:  # noqa: SIM108  statements are what is tested
        x = narrow[i]
    else:
        x = wide[i]
    out[i] = x


@mo.kernel
def times(out, z: mo.Constexpr):
    out[0] = mo.float32(z) * -1


@mo.kernel
def decided(out, small):
    i = mo.thread_idx().x
    if i < 32:  # noqa: SIM108
        a = small[i]
    else:
        a = mo.int32(3)
    out[i, 0] = a * 100
    out[i, 1] = 2.0 * (i // 32) + 0.5


def test_joins():
    for a, b in ((torch.uint8, torch.int32), (torch.float16, torch.float64), (torch.bfloat16, torch.float32)):
        one, other = (torch.arange(32, device="cuda").to(t) for t in (a, b))
        out = torch.zeros(32, dtype=b, device="cuda")
        joined[1, 32](out, one, other * 2, 7)
        expected = torch.where(torch.arange(32, device="cuda") < 7, one.to(b), other * 2)
        assert torch.equal(out, expected)


def test_static_zeros():
    out = torch.ones(1, device="cuda")
    for z in (0.0, -0.0, 0.0, -0.0):
        times[1, 1](out, z)
        assert bool(torch.signbit(out)[0]) is (str(z) == "0.0")


def test_what_facts_decide():
    out = torch.zeros((2, 32), device="cuda").T
    decided[1, 32](out, torch.full((32,), 100, dtype=torch.int8, device="cuda"))
    assert (out[:, 0] == 10000).all() and (out[:, 1] == 0.5).all()
