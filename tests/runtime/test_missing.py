"""What a launch lacks, and what a kernel cannot know: one sentence in the user's own words."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import moye as mo


@mo.kernel
def k(x):
    x[0] = 1.0


@pytest.mark.parametrize("call", [lambda x: k.launch(x), lambda x: k.launch(x, grid=1), lambda x: k.launch(x, block=1),
                                  lambda x: k.prepare(x), lambda x: k.compile(x), lambda x: k.trace(x)])
def test_a_launch_without_its_shape(call):
    with pytest.raises(mo.LaunchError, match=r"a kernel needs (grid|block)=, one to three integers"):
        call(np.zeros(2, np.float32))


def test_options_stand_in_launch():
    with pytest.raises(mo.ArgumentError, match=r"k\(x\) has no parameter 'stream'\n.*k.launch\(") as caught:
        k[1, 32](np.zeros(2, np.float32), stream=3)
    assert "takes options" in str(caught.value)
    with pytest.raises(mo.ArgumentError, match="compile takes block=, cluster= and arch="):
        k.compile(np.zeros(2, np.float32), grid=1, block=32)


def test_a_wrapped_kernel():
    def raw(x):
        x[0] = 1.0

    @functools.wraps(raw)
    def inner(*args):
        return raw(*args)
    x = np.zeros(2, np.float32)
    mo.kernel(inner)[1, 1](x)
    assert x[0] == 1


@mo.kernel
def shared(x):
    s = mo.shared_array(mo.uint128, 4)
    s[0] = 3
    x[0] = 1.0


@mo.kernel
def recast(x):
    mo.recast(x, mo.uint128)[0] = x[0]


@pytest.mark.parametrize("kernel", [shared, recast])
def test_a_number_in_128_bits(kernel):
    with pytest.raises(mo.TensorError, match="is a uint128, which is only moved"):
        kernel[1, 1](np.zeros(8, np.float32))


@mo.kernel
def under_a_condition(array, c):
    if c[0] > 0:
        c[0] = mo.tile(array, (4,), (0,))[1]


@mo.kernel
def of_a_scalar(c, count):
    if c[0] > 0:
        c[0] = mo.float32(mo.size(mo.tile(mo.identity_tensor((count,)), (4,), (0,))))


def test_hints_have_the_users_words():
    c = np.zeros(4, np.float32)
    with pytest.raises(mo.FactError) as caught:
        under_a_condition[1, 1](np.zeros(17, np.float32), c)
    assert "say mo.assume(mo.size(array, 0) % 4 == 0) before" in str(caught.value)
    with pytest.raises(mo.FactError) as caught:
        of_a_scalar[1, 1](c, 17)
    assert "say mo.assume(count % 4 == 0) before" in str(caught.value)
