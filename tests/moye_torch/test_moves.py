"""``swiglu``, ``geglu``, ``permute``, ``rope``, ``embedding``, ``reduce``, ``cumsum``, ``top_k`` as operators."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import moye.torch as mt  # noqa: E402
from moye.errors import ArgumentError  # noqa: E402
from moye.torch.operators.gated import _gated, _gated_backward  # noqa: E402
from moye.torch.operators.moves import _embedding_backward  # noqa: E402
from moye.torch.operators.reductions import _reduce  # noqa: E402
from operators import check_fake, check_one_graph, check_operator, check_reference  # noqa: E402


def drawn(*shape, dtype=torch.float64, grad=True):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(grad)


def gated(gate, up, activation):
    gate, up = (gate, up) if up is not None else gate.chunk(2, -1)
    return (F.silu(gate) if activation == "silu" else F.gelu(gate, approximate=activation)) * up


@pytest.mark.parametrize("activation", ["silu", "none", "tanh"])
def test_gates(activation):
    check_operator(_gated, (drawn(3, 10), None, activation), gated)
    check_reference(_gated, (drawn(3, 10), drawn(3, 10), activation), gated)
    check_reference(_gated, (drawn(4, 7, 16, dtype=torch.bfloat16), None, activation), gated)


def test_gates_by_name():
    x = drawn(5, 12, dtype=torch.float32, grad=False)
    assert torch.allclose(mt.swiglu(x), gated(x, None, "silu"), atol=1e-6)
    assert torch.allclose(mt.geglu(x[:, :6], x[:, 6:], "tanh"), gated(x, None, "tanh"), atol=1e-6)
    check_operator(_gated_backward, (x[:, :6].detach(), x[:, :6].detach(), x[:, 6:].detach(), "silu"))
    with pytest.raises(ArgumentError, match="approximate is"):
        mt.geglu(x, approximate="silu")


def test_permutations():
    check_operator(mt.permute, (drawn(3, 4, 5), [2, 0, 1]), lambda x, axes: x.permute(axes).contiguous(), twice=True)
    check_reference(mt.permute, (drawn(40, 33, dtype=torch.bfloat16), [1, 0]), lambda x, axes: x.permute(axes))


def tables(count, half):
    angles = torch.outer(torch.arange(count, dtype=torch.float64), 0.3 ** torch.arange(half, dtype=torch.float64))
    return angles.cos(), angles.sin()


def turned(x, cos, sin, positions=None, offset=0, interleaved=False, inverse=False):
    half, length = cos.shape[1], x.shape[-3]
    places = (torch.arange(length) if positions is None else positions) + offset
    c, s = cos[places].unsqueeze(-2), sin[places].unsqueeze(-2) * (-1 if inverse else 1)
    y = x[..., :2 * half]
    a, b = (y[..., ::2], y[..., 1::2]) if interleaved else y.chunk(2, -1)
    one, two = a * c - b * s, b * c + a * s
    y = torch.stack((one, two), -1).flatten(-2) if interleaved else torch.cat((one, two), -1)
    return torch.cat((y, x[..., 2 * half:]), -1)


def test_rotations():
    ids = torch.tensor([[0, 5, 2], [1, 1, 4]])
    check_operator(mt.rope, (drawn(2, 3, 2, 9), *tables(8, 4), ids, 1, True, False), turned, twice=True)
    check_reference(mt.rope, (drawn(6, 2, 16, dtype=torch.float16), *tables(8, 8)), turned)


def test_embeddings():
    ids = torch.tensor([[0, 5, 2, 5], [1, 1, 4, 5]])
    check_operator(mt.embedding, (ids, drawn(6, 10)), F.embedding)
    check_reference(mt.embedding, (ids, drawn(6, 10), 4), F.embedding)
    check_reference(mt.embedding, (ids, drawn(6, 10), -2), F.embedding)
    with pytest.raises(ArgumentError, match="padding_idx=6 is none of the 6 rows"):
        mt.embedding(ids, drawn(6, 10), 6)
    check_operator(_embedding_backward, (drawn(2, 4, 10, grad=False), ids, 6, None))
    check_reference(mt.embedding, (ids.int(), drawn(6, 10, dtype=torch.bfloat16)), F.embedding)


def reduced(x, kind, axis, keepdim=False):
    if kind.startswith("norm"):
        return torch.linalg.vector_norm(x, float(kind[4:]), axis, keepdim)
    if kind.startswith("arg"):
        return getattr(x, kind)(axis[0], keepdim)
    return getattr(torch, {"max": "amax", "min": "amin"}.get(kind, kind))(x, axis, keepdim)


@pytest.mark.parametrize("kind", ["sum", "logsumexp", "norm2"])
def test_reductions(kind):
    check_operator(mt.reduce, (drawn(3, 4, 5), kind, [0, 2], True), reduced, twice=True)
    torch.library.opcheck(_reduce.overload, (drawn(3, 4, 5), kind, [0, 2], True))
    assert mt.reduce(drawn(3, 4), kind, -1).equal(mt.reduce(drawn(3, 4), kind, [1]))


@pytest.mark.parametrize("kind", ["mean", "max", "min", "norm1", "norminf", "argmax", "argmin"])
def test_other_kinds(kind):
    x = drawn(4, 6)
    x = torch.round(x.detach() * 2).requires_grad_() if kind[:3] != "arg" else x.detach()       # several equals
    check_reference(mt.reduce, (x, kind, [1], False), reduced)
    check_fake(mt.reduce, (x, kind, [1], False))


def test_prefix_sums():
    check_operator(mt.cumsum, (drawn(3, 5), 0), torch.cumsum, twice=True)
    check_reference(mt.cumsum, (drawn(3, 40, dtype=torch.bfloat16), -1), torch.cumsum)


def test_the_k_largest():
    check_operator(mt.top_k, (drawn(3, 9), 4, True), lambda x, k, largest: torch.topk(x, k, -1, largest), twice=True)


def test_one_graph_for_all_shapes():
    check_one_graph(_gated, [(drawn(n, 8), None, "silu") for n in (6, 9, 12)], backward=True)
    check_one_graph(mt.cumsum, [(drawn(n, 8), -1) for n in (6, 9, 12)], backward=True)
