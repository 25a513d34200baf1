"""Permutations on the GPU, bit by bit beside torch: tiles, vectors, ragged sizes, offsets, beyond 2^31 bytes."""

from __future__ import annotations

import pytest
import torch

from moye.kernels import permute, transpose

DTYPES = [torch.uint8, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.int64]
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def random_bits(shape, dtype):
    raw = torch.randint(0, 256, (*shape, dtype.itemsize), device="cuda", dtype=torch.uint8)
    return raw.view(dtype)[..., 0]


def check(x, axes):
    shape = [x.shape[i] for i in axes]
    out = random_bits(shape, x.dtype)
    permute(out, x, axes)
    words = WORDS[x.element_size()]
    assert torch.equal(out.view(words), x.permute(axes).contiguous().view(words))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_matrices(dtype):
    torch.manual_seed(0)
    for shape in ((1, 1), (128, 128), (1000, 1032), (999, 1031), (1200, 1031), (4096, 2048), (70001, 3), (3, 70001)):
        check(random_bits(shape, dtype), (1, 0))
    check(random_bits((333, 1029), dtype)[1:, 3:], (1, 0))


@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
def test_ranks(dtype):
    torch.manual_seed(1)
    x = random_bits((3, 17, 40, 33), dtype)
    for axes in ((0, 2, 1, 3), (3, 1, 0, 2), (1, 3, 2, 0), (0, 1, 3, 2), (2, 3, 0, 1)):
        check(x, axes)
        check(x[:, ::2], axes)
    check(random_bits((1, 40), dtype).expand(30, 40), (1, 0))


def test_a_large_matrix_and_launching_again():
    """Offsets beyond 2^31 bytes, and the short way of launching."""
    x = random_bits((32768, 40000), torch.int16)
    out = torch.empty((40000, 32768), device="cuda", dtype=torch.int16)
    for _ in range(2):
        transpose(out, x)
        x.add_(1)
    transpose(out, x)
    assert torch.equal(out[-300:], x[:, -300:].T) and torch.equal(out[:300], x[:, :300].T)
