"""``moye.torch.attention``: all that operators have to be."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import moye.torch  # noqa: E402
from moye.errors import ArgumentError, UnsupportedError  # noqa: E402
from moye.torch.operators import attention as operators  # noqa: E402
from operators import check_one_graph, check_operator, check_reference  # noqa: E402


def drawn(*shape, dtype=torch.float16, grad=True):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype).requires_grad_(grad)


def heads(queries=20, keys=33, heads_k=1, dim=32, dtype=torch.float16):
    return (drawn(1, queries, 2, dim, dtype=dtype), drawn(1, keys, heads_k, dim, dtype=dtype),
            drawn(1, keys, heads_k, dim, dtype=dtype))


def exact(q, k, v, bias, alibi, sinks, causal, left, right, scale, softcap):
    k, v = (x.repeat_interleave(q.shape[2] // k.shape[2], 2) for x in (k, v))
    s = torch.einsum("bqhd,bkhd->bhqk", q, k) * (scale or 1 / math.sqrt(q.shape[3]))
    s = softcap * torch.tanh(s / softcap) if softcap else s
    row = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1]
    column = torch.arange(k.shape[1])
    if alibi is not None:
        s = s - alibi[..., None, None] * (row - column).abs()
    s = s if bias is None else s + bias
    right = 0 if causal else right
    far = 10 ** 6
    seen = (column >= row - (far if left is None else left)) & (column <= row + (far if right is None else right))
    s = torch.where(seen, s, -torch.inf)
    if sinks is not None:
        s = torch.cat([s, sinks[None, :, None, None].expand(*s.shape[:3], 1)], -1)
    lse = torch.logsumexp(s, -1)
    p = torch.nan_to_num(torch.exp(s - lse[..., None]))[..., :k.shape[1]]
    return torch.einsum("bhqk,bkhd->bqhd", p, v), lse.detach()


PLAIN = (None, None, None, False, None, None, None, 0.0)


def test_all_of_it():
    check_operator(operators._attention, (*heads(), *PLAIN), exact)


@pytest.mark.parametrize(("options", "dtype"), [
    ((None, None, drawn(2, dtype=torch.float32), True, None, None, None, 0.0), torch.float16),
    ((drawn(1, 2, 20, 33, dtype=torch.float32, grad=False), drawn(2, dtype=torch.float32, grad=False), None, False, 9,
      3, 0.25, 2.0), torch.bfloat16)], ids=["sinks", "rules"])
def test_rules(options, dtype):
    """The gradient of sinks is float32, of results that were rounded to 16 bits."""
    tolerance = 2e-3 if dtype == torch.float16 else 1.6e-2
    check_reference(operators._attention, (*heads(dtype=dtype), *options), exact, tolerance)


EXACT = {
    "plain": PLAIN,
    "causal, sinks": (None, None, drawn(2, dtype=torch.float64), True, None, None, None, 0.0),
    "window, cap": (None, None, None, False, 4, 2, 0.4, 1.5),
    "bias, slopes": (drawn(1, 2, 7, 9, dtype=torch.float64, grad=False), drawn(1, 2, dtype=torch.float64, grad=False),
                     drawn(2, dtype=torch.float64), True, 5, None, None, 2.0)}


@pytest.mark.parametrize("options", EXACT.values(), ids=EXACT)
def test_gradients_of_float64(options):
    """Against finite differences, too; all else that operators have to be."""
    check_operator(operators._attention, (*heads(7, 9, dim=10, dtype=torch.float64), *options), exact)


def test_gradients_of_many_heads_and_rows_that_see_nothing():
    """More queries than keys: the first see none of them."""
    q, k, v = drawn(2, 6, 4, 5, dtype=torch.float64), *(drawn(2, 4, 2, n, dtype=torch.float64) for n in (5, 3))
    check_operator(operators._attention, (q, k, v, None, None, None, True, None, None, None, 0.0), exact)


def test_float32():
    check_reference(operators._attention, (*heads(dtype=torch.float32), *PLAIN), exact)


def test_one_graph_for_all_lengths():
    check_one_graph(operators._attention, [(*heads(n, n), *PLAIN) for n in (16, 24, 40)])


def test_results():
    q, k, v = heads()
    out, lse = moye.torch.attention(q, k, v, return_lse=True)
    assert torch.equal(out, moye.torch.attention(q, k, v)) and out.requires_grad and not lse.requires_grad


def test_refused():
    q, k, v = heads()
    with pytest.raises(UnsupportedError, match="attention has no gradient of bias"):
        moye.torch.attention(q, k, v, bias=drawn(1, 2, 20, 33, dtype=torch.float32))
    with pytest.raises(ArgumentError, match=r"k is \(1, 32, 1, 32\)"):
        moye.torch.attention(q, k[:, 1:], v)
