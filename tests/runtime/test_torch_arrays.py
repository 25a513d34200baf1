"""torch tensors without memory of their own are refused in one sentence; tests/gpu has the others."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from moye.errors import ArgumentError  # noqa: E402
from moye.runtime.arrays import describe  # noqa: E402


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.zeros(8)


@pytest.mark.parametrize(("make", "told"), [
    (lambda: torch.masked.masked_tensor(torch.zeros(8), torch.ones(8, dtype=torch.bool)), "MaskedTensor"),
    (lambda: torch._efficientzerotensor((8,)), "its pointer is null"),
    (fake, r"FakeTensor has no memory.*\nhint: @mo.torch_op makes an operator"),
    (lambda: torch.nested.nested_tensor([torch.zeros(3), torch.zeros(5)]), "a nested tensor"),
    (lambda: torch.zeros(8).to_sparse(), "storage"),
    (lambda: torch.zeros(8, device="meta"), "'meta'"),
    (lambda: torch._neg_view(torch.zeros(8)), "negation pending"),
])
def test_no_memory(make, told):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ArgumentError, match=told):
            describe(make())


def test_memory():
    x = torch.zeros(4, 6)
    for tensor in (x, x.T, x[1:, ::2], torch.nn.Parameter(x), torch.zeros(())):
        info = describe(tensor)
        assert (info.ptr, tuple(info.shape), tuple(info.strides)) == (tensor.data_ptr(), tuple(tensor.shape),
                                                                       tensor.stride())
    assert describe(torch.zeros(0, 3)).shape == (0, 3)
