"""What is no tensor, no number or no shape of an operator's is refused in one sentence, by moye or by torch's types."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import moye.torch as mt  # noqa: E402
from moye import ArgumentError  # noqa: E402

x, table, heads = torch.ones(3, 8), torch.ones(5, 8), torch.ones(1, 3, 2, 16)
labels, flat = torch.tensor([0, 1, 2]), torch.ones(())
CALLS = {
    "x is None": lambda: mt.cumsum(None),
    "logits is None": lambda: mt.cross_entropy(None, labels),
    "ids is None": lambda: mt.embedding(None, table),
    "x is a list, and no tensor": lambda: mt.linear([1.0], table),
    "bias is a float, and no tensor": lambda: mt.linear(x, table, 1.0),
    "weight is a NoneType, and no tensor": lambda: mt.linear_cross_entropy(x, None, labels),
    "scale=None is no number": lambda: mt.softmax(x, scale=None),
    "scale is larger than a float": lambda: mt.log_softmax(x, scale=10**400),
    "z_loss='x' is no number": lambda: mt.cross_entropy(x, labels, z_loss="x"),
    r"softcap=\[\] is no number": lambda: mt.attention(heads, heads, heads, softcap=[]),
    "window=None is no pair": lambda: mt.attention(heads, heads, heads, window=None),
    "return_lse=2 is neither True nor False": lambda: mt.attention(heads, heads, heads, return_lse=2),
    r"v has shape \(\), and must have 4 modes": lambda: mt.attention(heads, heads, flat),
    r"bias has shape \(2,\), which is not repeated to": lambda: mt.attention(heads, heads, heads, bias=torch.ones(2)),
    r"activation \[\]; there are": lambda: mt.linear(x, table, activation=[]),
    r"axes=\[2, 0\] are no order of the 2 axes": lambda: mt.permute(x, [2, 0]),
    r"table has shape \(\); it is \(rows, columns\)": lambda: mt.embedding(labels, flat),
    "causal=True is no integer": lambda: mt.softmax(x, causal=True),
    "dim=True is no integer": lambda: mt.log_softmax(x, True),
    "axis=False is no integer": lambda: mt.cumsum(x, False),
    r"axis=\[True\] is no integer": lambda: mt.reduce(x, "sum", [True]),
    "k=True is no integer": lambda: mt.top_k(x, True),
    "ignore_index=True is no integer": lambda: mt.cross_entropy(x, labels, ignore_index=True),
    "eps=-1.0 is no number of at least 0": lambda: mt.rms_norm(x, eps=-1.0),
    "eps=nan is no number of at least 0": lambda: mt.layer_norm(x, eps=float("nan")),
    "eps='x' is no number": lambda: mt.layer_norm(x, eps="x"),
    "weight requires a gradient": lambda: mt.cross_entropy(x, labels, torch.ones(x.shape[-1], requires_grad=True)),
    "causal=2 is no truth value": lambda: mt.attention(heads, heads, heads, causal=2),
    "gate is one number": lambda: mt.swiglu(flat),
    "k is 1099511627776, which may be 0 to 2048": lambda: mt.top_k(x, 2**40),
}


@pytest.mark.parametrize("told", CALLS)
def test_refused(told):
    with pytest.raises(ArgumentError, match=told):
        CALLS[told]()


def test_numbers_of_numpy_and_of_tensors():
    for scale in (torch.tensor(0.5), 1):
        assert torch.allclose(mt.softmax(x, scale=scale), torch.softmax(x * float(scale), -1))
