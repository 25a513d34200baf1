"""A grid so large that a block's position leaves 32 bits: the kernel that is launched has indices of 64 bits."""

from __future__ import annotations

import torch

import moye as mo


@mo.kernel
def spread(x):
    i = mo.block_idx().x * (1 << 20) + mo.thread_idx().x
    if i < mo.size(x):
        x[i] += 1


def test_no_position_wraps():
    x = torch.zeros(64, device="cuda")
    for _ in range(2):                                      # the second launch takes the short way
        spread[4100, 32](x)
    assert x[:32].eq(2).all() and not x[32:].any()
