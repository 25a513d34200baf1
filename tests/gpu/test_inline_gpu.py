"""Snippets of PTX and CUDA C++, prmt, lop3 and funnel shifts on the GPU: the same words as NumPy's and Python's."""

from __future__ import annotations

import numpy as np
import pytest

from inline_kernels import N, bit_data, bits, bits_expected, expected, snippet_data, snippets

torch = pytest.importorskip("torch")


def run(kernel, out, *inputs, threads):
    tensors = [torch.from_numpy(x.view(np.int32) if x.dtype == np.uint32 else x).cuda() for x in (out, *inputs)]
    words = [t.view(torch.uint32) if t.dtype == torch.int32 else t for t in tensors]
    kernel[1, threads](*words)
    return tensors[0].cpu().numpy().view(np.uint32)


def test_snippets():
    out, x, y, f = snippet_data()
    np.testing.assert_array_equal(run(snippets, out, x, y, f, threads=64), expected(x, y, f))


def test_bits():
    out, a, b, c = bit_data()
    np.testing.assert_array_equal(run(bits, out, a, b, c, threads=N), bits_expected(a, b, c))
