"""torch tensors without memory of their own are refused in one sentence; tests/gpu has the others."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

import moye as mo  # noqa: E402
from moye.errors import ArgumentError  # noqa: E402
from moye.runtime.arrays import describe  # noqa: E402


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.zeros(8)


def nested(**options):
    return torch.nested.nested_tensor([torch.zeros(3), torch.zeros(5)], **options)


def shrunk():
    x = torch.ones(8)[4:]
    x.untyped_storage().resize_(28)
    return x


@pytest.mark.parametrize(("make", "told"), [
    (shrunk, r"of shape \(4,\) reaches to byte 32 of a storage of 28\nhint: its storage was resized"),
    (lambda: torch.masked.masked_tensor(torch.zeros(8), torch.ones(8, dtype=torch.bool)),
     r"a masked torch tensor .*\nhint: pass x.get_data\(\) and x.get_mask\(\)"),
    (lambda: torch._efficientzerotensor((8,)), "its pointer is null"),
    (fake, r"FakeTensor has no memory.*\nhint: @mo.torch_op makes an operator"),
    (nested, r"a nested torch tensor is several tensors .*\nhint: pass x.to_padded_tensor\(0\)"),
    (lambda: nested(layout=torch.jagged), "a nested torch tensor is several tensors"),
    (lambda: torch.eye(4).to_sparse(), r"a sparse torch tensor \(sparse_coo\) .*\nhint: .*x.coalesce\(\).indices\(\)"),
    (lambda: torch.eye(4).to_sparse_csr(), r"a sparse torch tensor \(sparse_csr\) .*\nhint: pass x.crow_indices\(\)"),
    (lambda: torch.eye(4).to_sparse_csc(), r"a sparse torch tensor \(sparse_csc\) .*\nhint: pass x.ccol_indices\(\)"),
    (lambda: torch.eye(4).to_sparse_bsr((2, 2)), r"a sparse torch tensor \(sparse_bsr\) .*\nhint: pass x.crow_ind"),
    (lambda: torch.zeros(4, dtype=torch.complex64), r"\nhint: pass torch.view_as_real\(x\)"),
    (lambda: torch.zeros(8, device="meta"), "'meta'"),
    (lambda: torch._neg_view(torch.zeros(8)), "negation pending"),
])
def test_no_memory(make, told):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ArgumentError, match=told):
            describe(make())


def test_in_vmap():
    told = []

    def inside(x):
        with pytest.raises(ArgumentError) as caught:
            describe(x)
        told.append(str(caught.value))
        return x

    torch.func.vmap(inside)(torch.zeros(4, 4))
    assert told == ["a torch tensor inside of torch.func.vmap has no memory of its own\n"
                    "hint: launch on the whole batch, with a mode for it"]


@mo.kernel
def element(out, x, shape):
    rows, columns = shape
    out[0] = x[rows - 1, columns - 1] + len(shape)


def test_hints_lead_to_what_a_kernel_takes():
    out, eye = torch.zeros(1), torch.eye(4)
    eye[2, 3] = 5
    csr, coo = eye.to_sparse_csr(), eye.to_sparse().coalesce()
    for parts in ((csr.crow_indices(), csr.col_indices(), csr.values()), (coo.indices(), coo.values())):
        assert all(describe(part) is not None for part in parts)
    assert describe(nested().to_padded_tensor(0)).shape == (2, 5)
    assert describe(torch.view_as_real(torch.zeros(4, dtype=torch.complex64))).shape == (4, 2)
    element[1, 1](out, eye, eye.shape)                  # a torch.Size is a tuple of integers
    assert out.item() == 1 + 2


def test_memory():
    x = torch.zeros(4, 6)
    for tensor in (x, x.T, x[1:, ::2], torch.nn.Parameter(x), torch.zeros(())):
        info = describe(tensor)
        assert (info.ptr, tuple(info.shape), tuple(info.strides)) == (tensor.data_ptr(), tuple(tensor.shape),
                                                                       tensor.stride())
    assert describe(torch.zeros(0, 3)).shape == (0, 3)
