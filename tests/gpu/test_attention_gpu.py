"""Attention on the GPU against float64, forward and backward: ``tests/cases/random_attention.py`` draws the cases."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch

import moye as mo
import random_pages
from moye.kernels import attention, attention_backward, attention_varlen, attention_varlen_backward
from moye.kernels.attention.sm90.config import candidates, gradient_candidates
from random_attention import draw, pinned, resized, run
from torch_arrays import Torch

CHUNKS, FORMS, SIZES = 15, 5, 5


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs sm_90a")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_drawn(chunk):
    """Each form in some sizes, so that few kernels are compiled."""
    rng, wrong = random.Random(f"attention {chunk}"), []
    for _ in range(FORMS):
        case = draw(rng, most=2000, work=1 << 31)
        for _ in range(SIZES):
            try:
                run(case, Torch())
            except (AssertionError, mo.MoyeError) as error:
                wrong.append(f"{case}\n{type(error).__name__}: {error}")
            case = dataclasses.replace(case, seed=rng.randrange(1 << 30),
                                       queries=max(1, case.queries - 128 * rng.randint(0, case.queries // 256)),
                                       keys=max(1, case.keys - 128 * rng.randint(0, case.keys // 256)))
    assert not wrong, f"{len(wrong)} of {FORMS * SIZES} cases\n" + "\n".join(wrong[:3])


@pytest.mark.parametrize("chunk", range(6))
def test_head_dimensions_of_any_size(chunk):
    rng, wrong = random.Random(f"dimensions {chunk}"), []
    for _ in range(4):
        case = resized(rng, draw(rng, most=1000, work=1 << 29))
        try:
            run(case, Torch())
        except (AssertionError, mo.MoyeError) as error:
            wrong.append(f"{case}\n{type(error).__name__}: {error}")
    assert not wrong, f"{len(wrong)} of 4 cases\n" + "\n".join(wrong[:3])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_exact(dtype):
    """float32 and float64: every rule, any strides, by ordinary cores."""
    for seed in range(6):
        run(dataclasses.replace(draw(random.Random(seed), most=200, work=1 << 24), dtype=dtype), Torch())


def heads(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 96, 128, 192, 256])
def test_many_tiles(dim, causal):
    """More tiles than blocks, many keys, by every configuration: beside torch's own, and the same bits again.

    Lengths differ, because what was recorded for a length is not chosen again.
    """
    torch.manual_seed(0)
    for tiles in range(2 * len(candidates((dim, dim)))):
        n = 1100 + tiles
        q, k, v = heads(4, n, 16, dim), heads(4, n, 4, dim), heads(4, n, 4, dim)
        out, again = (torch.full_like(q, torch.nan) for _ in range(2))
        with pinned(tiles):
            attention(out, q, k, v, causal=causal)
            attention(again, q, k, v, causal=causal)
        exact = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(1, 2).double() for x in (q, k, v)), is_causal=causal, enable_gqa=True).transpose(1, 2)
        assert ((out.double() - exact).abs() < 2.0 ** -7 + 2.0 ** -8 * exact.abs()).all(), tiles     # 8 bits
        assert torch.equal(again, out), tiles


def small(*shape):
    return torch.randn(shape, device="cuda").to(torch.float8_e4m3fn)


def factors(batch, heads, heads_k):
    shapes = {"q_scale": (batch, heads), "k_scale": (batch, heads_k), "v_scale": (batch, heads_k)}
    return {name: torch.rand(shape, device="cuda") + 0.5 for name, shape in shapes.items()}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 96, 128, 192, 256])
def test_many_tiles_of_8_bits(dim, causal):
    """More tiles than blocks, many keys, by every configuration, twice, so that the second call is a replayed one."""
    torch.manual_seed(0)
    for tiles in range(2 * len(candidates((dim, dim), narrow=True))):
        n = 1100 + tiles
        q, k, v, scales = small(4, n, 16, dim), small(4, n, 4, dim), small(4, n, 4, dim), factors(4, 16, 4)
        out, again = (torch.full(q.shape, torch.nan, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        with pinned(tiles):
            attention(out, q, k, v, causal=causal, **scales)
            attention(again, q, k, v, causal=causal, **scales)
        wide = [x.double() * scale[:, None, :, None] for x, scale in zip((q, k, v), scales.values(), strict=True)]
        exact = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(1, 2) for x in wide), is_causal=causal, enable_gqa=True).transpose(1, 2)
        assert (out.double() - exact).norm() < 0.05 * exact.norm(), tiles
        assert torch.equal(again, out), tiles


def test_sequences_of_8_bits():
    """Bit by bit as each sequence by itself by the same tiles."""
    torch.manual_seed(0)
    lengths = [300, 0, 1, 513, 64]
    q, k, v = (small(sum(lengths), heads, 128) for heads in (4, 2, 2))
    scales = factors(len(lengths), 4, 2)
    ends = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
    out = torch.full(q.shape, torch.nan, device="cuda", dtype=torch.float16)
    with pinned(0):
        attention_varlen(out, q, k, v, ends, ends, longest_q=513, longest_k=513, causal=True, **scales)
    for s, (begin, end) in enumerate(zip(ends.tolist(), ends.tolist()[1:], strict=False)):
        if begin < end:
            own = torch.empty_like(out[None, begin:end])
            with pinned(0):
                attention(own, *(x[None, begin:end] for x in (q, k, v)), causal=True,
                          **{name: x[s:s + 1] for name, x in scales.items()})
            assert torch.equal(own[0], out[begin:end])


@pytest.mark.parametrize("dim", [64, 128, 192])
def test_each_run_gives_the_same_gradients(dim):
    torch.manual_seed(0)
    q, k, v = (heads(1, 700, 4, dim) for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(1, 4, 700, device="cuda")
    attention(out, q, k, v, causal=True, lse=lse)
    first, second = ([torch.full_like(q, torch.nan) for _ in range(3)] for _ in range(2))
    for gradients in (first, second):
        attention_backward(*gradients, q, q, k, v, out, lse, causal=True, deterministic=True)
    assert all(torch.equal(a, b) and not a.isnan().any() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dim", [64, 128])
def test_gradients_of_many_tiles(dim, deterministic, causal):
    """More blocks than run at a time add to the same queries, by every configuration: beside torch's in float64."""
    torch.manual_seed(0)
    for tiles in range(len(gradient_candidates((dim, dim)))):
        n = 1500 + tiles
        q, k, v, dout = heads(2, n, 16, dim), heads(2, n, 4, dim), heads(2, n, 4, dim), heads(2, n, 16, dim)
        out, lse = torch.empty_like(q), torch.empty(2, 16, n, device="cuda")
        attention(out, q, k, v, causal=causal, lse=lse)
        found = [torch.full_like(x, torch.nan) for x in (q, k, v)]
        with pinned(tiles):
            attention_backward(*found, dout, q, k, v, out, lse, causal=causal, deterministic=deterministic)
        exact = [x.double().requires_grad_() for x in (q, k, v)]
        result = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(1, 2) for x in exact), is_causal=causal, enable_gqa=True)
        result.transpose(1, 2).backward(dout.double())
        for name, x, y in zip(("dq", "dk", "dv"), found, exact, strict=True):
            assert (x.double() - y.grad).norm() < 2.0 ** -7 * y.grad.norm(), name


def test_sequences_of_any_lengths():
    """As each sequence by itself, within the rounding of another kernel's order."""
    torch.manual_seed(0)
    lengths = [300, 0, 1, 513, 64]
    q, k, v = heads(sum(lengths), 4, 64), heads(sum(lengths), 2, 64), heads(sum(lengths), 2, 64)
    ends = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
    out, lse = torch.full_like(q, torch.nan), torch.full((4, len(q)), torch.nan, device="cuda")
    attention_varlen(out, q, k, v, ends, ends, longest_q=513, longest_k=513, causal=True, lse=lse)
    gradients = [torch.full_like(x, torch.nan) for x in (q, k, v)]
    attention_varlen_backward(*gradients, q, q, k, v, out, lse, ends, ends, longest_q=513, longest_k=513, causal=True)
    for begin, end in zip(ends.tolist(), ends.tolist()[1:], strict=False):
        if begin == end:
            continue
        one = [x[None, begin:end] for x in (q, k, v)]
        own, own_lse = torch.empty_like(one[0]), torch.empty(1, 4, end - begin, device="cuda")
        attention(own, *one, causal=True, lse=own_lse)
        assert (own[0].float() - out[begin:end].float()).abs().max() < 2.0 ** -6
        found = [torch.empty_like(x) for x in one]
        attention_backward(*found, one[0], *one, own, own_lse, causal=True)
        for mine, whole in zip(found, gradients, strict=True):
            # Of one key alone dQ and dK are nothing but rounding.
            most = 2.0 ** -4 * max(float(mine.abs().max()), 2.0 ** -4)
            assert (mine[0].float() - whole[begin:end].float()).abs().max() < most


@pytest.mark.parametrize("chunk", range(4))
def test_drawn_pages(chunk):
    rng, wrong = random.Random(f"pages {chunk}"), []
    for _ in range(6):
        case = random_pages.draw(rng, most=20000)
        case = random_pages.resized(rng, case) if chunk % 2 else case
        try:
            random_pages.run(case, Torch())
        except (AssertionError, mo.MoyeError) as error:
            wrong.append(f"{case}\n{type(error).__name__}: {error}")
    assert not wrong, f"{len(wrong)} of 6 cases\n" + "\n".join(wrong[:3])


@pytest.mark.parametrize("stored", ["", "e4m3"])
def test_pages_of_many_sequences(stored):
    """More sequences and heads than warps, most of them short: shares begin and end anywhere."""
    rng = random.Random("many sequences")
    lengths = tuple(rng.choice((0, 1, 15, 200, 3000)) for _ in range(300))
    factors = ("head", "token") if stored else ("", "")
    random_pages.run(random_pages.Case(5, "bf16", 2, lengths, 32, 8, 128, 128, 32, 3, stored=stored, factors=factors),
                     Torch())
