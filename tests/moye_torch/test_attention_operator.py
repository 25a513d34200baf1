"""``moye.torch.attention``: all that operators have to be."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import moye.torch  # noqa: E402
from moye.errors import ArgumentError, UnsupportedError  # noqa: E402
from moye.torch.operators import attention as operators  # noqa: E402
from operators import (  # noqa: E402
    check_compiled,
    check_fake,
    check_one_graph,
    check_operator,
    check_reference,
    check_ways,
    fresh,
)


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


E4M3 = torch.float8_e4m3fn


def exact_8bit(q, k, v, q_scale, k_scale, v_scale, *options):
    q, k, v = (x.double() * (1 if scale is None else scale.double()[..., None, :, None])
               for x, scale in ((q, q_scale), (k, k_scale), (v, v_scale)))
    return exact(q, k, v, *options[:-1])


def narrow(queries=20, keys=33, heads_k=1, dim=32):
    return tuple(x.detach().to(E4M3) for x in heads(queries, keys, heads_k, dim))


def factors(*counts):
    return tuple(torch.rand(1, count, generator=torch.Generator().manual_seed(count)) + 0.5 for count in counts)


def check_without_products(operator, arguments):
    """``check_operator`` without opcheck's test of the schema, which multiplies arguments: in 8 bits torch cannot."""
    for test in ("test_autograd_registration", "test_faketensor"):
        torch.library.opcheck(operator.overload, fresh(arguments), test_utils=test)
    check_ways(operator, arguments)
    check_fake(operator, arguments)
    check_compiled(operator, arguments)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_8_bits(dtype):
    """The result is as its weights, which have 4 bits."""
    arguments = (*narrow(), *factors(2, 1, 1), *PLAIN, dtype)
    check_without_products(operators._attention_8bit, arguments)
    check_reference(operators._attention_8bit, arguments, exact_8bit, 2.0 ** -4)
    assert operators._attention_8bit(*arguments)[0].dtype == dtype


def test_8_bits_by_the_public_name():
    q, k, v = narrow()
    out, lse = moye.torch.attention(q, k, v, causal=True, v_scale=torch.tensor([2.0]), return_lse=True)
    once = moye.torch.attention(q, k, v, causal=True, dtype=torch.float16)
    assert out.dtype == torch.bfloat16 and once.dtype == torch.float16 and lse.shape == (1, 2, 20)
    torch.testing.assert_close(out.float(), 2 * once.float(), rtol=2.0 ** -7, atol=1e-3)


def paged(stored=None, queries=2):
    q, k, v = (drawn(*shape, grad=False) for shape in ((2, queries, 4, 32), (5, 16, 2, 32), (5, 16, 2, 32)))
    table, lengths = torch.tensor([[3, 0], [4, 1]], dtype=torch.int32), torch.tensor([20, 9], dtype=torch.int32)
    return (q, *(x if stored is None else x.to(stored) for x in (k, v)), table, lengths)


def exact_pages(q, k, v, table, lengths, bias, alibi, sinks, k_scale, v_scale, window, scale, softcap):
    found = []
    for b, n in enumerate(lengths.tolist()):
        whole = [(x.double() * (1.0 if factor is None else factor.double()[..., None]))[table[b].long()]
                 .reshape(1, -1, *x.shape[2:])[:, :n] for x, factor in ((k, k_scale), (v, v_scale))]
        found.append(exact(q[b:b + 1], *whole, None if bias is None else bias[b:b + 1, ..., :n], alibi, sinks, True,
                           window, None, scale, softcap))
    return tuple(torch.cat(x) for x in zip(*found, strict=True))


ONCE = (None, None, None, None, None, None, None, 0.0)


def test_pages():
    check_operator(operators._paged_attention, (*paged(), *ONCE), exact_pages)


def test_pages_of_8_bits():
    arguments = (*paged(E4M3), *ONCE)
    check_without_products(operators._paged_attention, arguments)
    check_reference(operators._paged_attention, arguments, exact_pages)


def test_pages_with_rules():
    of_token = torch.rand(5, 16, 2, generator=torch.Generator().manual_seed(0)) + 0.5
    options = (drawn(2, 4, 2, 32, dtype=torch.float32, grad=False), drawn(4, dtype=torch.float32, grad=False),
               drawn(4, dtype=torch.float32, grad=False), of_token, of_token, 11, 0.25, 5.0)
    check_reference(operators._paged_attention, (*paged(E4M3), *options), exact_pages, 1e-2)


def test_pages_by_the_public_name():
    out, lse = moye.torch.paged_attention(*paged(), return_lse=True)
    assert torch.equal(out, moye.torch.paged_attention(*paged())) and lse.shape == (2, 4, 2)


def test_refused():
    q, k, v = heads()
    with pytest.raises(UnsupportedError, match="attention has no gradient of bias"):
        moye.torch.attention(q, k, v, bias=drawn(1, 2, 20, 33, dtype=torch.float32))
    with pytest.raises(ArgumentError, match=r"k is \(1, 32, 1, 32\)"):
        moye.torch.attention(q, k[:, 1:], v)
    with pytest.raises(ArgumentError, match=r"are for float8_e4m3fn, and q is torch.float16"):
        moye.torch.attention(q, k, v, k_scale=torch.ones(1))


def test_the_gradient_of_a_sink_that_does_not_count():
    """Beside a query that sees no key either; the other sink's gradient is torch's."""
    torch.manual_seed(3)
    q, k, v = (torch.randn(1, n, 2, 8, dtype=torch.float64) for n in (3, 2, 2))
    sinks = torch.tensor([-torch.inf, 0.25], dtype=torch.float64, requires_grad=True)
    moye.torch.attention(q, k, v, causal=True, sinks=sinks).sum().backward()
    assert sinks.grad[0] == 0 and torch.isfinite(sinks.grad).all()
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / 8 ** 0.5
    hidden = torch.ones(3, 2).tril(-1).logical_not()
    given = sinks.detach().requires_grad_()
    column = given[None, :, None, None].expand(1, 2, 3, 1)
    whole = torch.cat([scores.masked_fill(hidden, -torch.inf), column], -1)[:, 1:]
    torch.einsum("bhqk,bkhd->bqhd", whole.softmax(-1)[..., :2], v[:, :, 1:]).sum().backward()
    assert torch.allclose(sinks.grad[1], given.grad[1])
