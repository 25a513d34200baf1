"""Operators of PyTorch on the GPU: gradients, compiled and captured, streams, autocast, and what a call costs."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import moye as mo
import moye.torch
from moye.torch.operators.linear import _linear
from operator_kernels import multiply_into, numbers, parts, scaled_add, square
from operators import (
    TOLERANCES,
    check_captured,
    check_compiled,
    check_one_graph,
    check_operator,
    check_reference,
    outcome,
    same,
)
from shipped_operators import CASES, Place

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "torch_ops.py"


def on_gpu(*shape, dtype=torch.float32, grad=True):
    return numbers(*shape, dtype=dtype, grad=grad, device="cuda")


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_all_of_it(dtype):
    arguments = (on_gpu(3, 500, dtype=dtype), on_gpu(3, 500, dtype=dtype), 0.5)
    check_operator(scaled_add, arguments, lambda x, y, alpha: x + alpha * y, twice=True, backend="inductor")
    check_captured(scaled_add, arguments)


def test_a_first_gradient():
    x = on_gpu(700, dtype=torch.float64)
    check_operator(square, (x,), lambda x: x * x)
    check_captured(square, (x,))


def test_in_place():
    x = on_gpu(20, grad=False)
    check_operator(multiply_into, (torch.ones_like(x), x, x))
    out = torch.ones_like(x)
    before = out._version
    multiply_into(out, x, x, times=2)
    assert torch.allclose(out, 1 + 2 * x * x) and out._version == before + 2
    with pytest.raises(mo.ArgumentError, match="requires grad"):
        multiply_into(out.requires_grad_(), x, x)


def test_many_kinds_of_arguments():
    check_operator(parts, ([on_gpu(6, grad=False) for _ in range(3)], 4, True, "a", torch.float64))


def test_one_graph_for_all_shapes():
    check_one_graph(scaled_add, [(on_gpu(n, 50), on_gpu(n, 50), 2.0) for n in (3, 4, 700)], backward=True)


def reference(x, weight, bias, activation="none", tf32=False):
    found = torch.nn.functional.linear(x, weight, bias)
    return found if activation == "none" else getattr(torch.nn.functional, activation)(found)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_linear(dtype):
    shapes = ((2, 9, 7), (5, 7), (5,)) if dtype == torch.float64 else ((4, 100, 256), (384, 256), (384,))
    operands = [on_gpu(*shape, dtype=dtype) for shape in shapes]
    check_operator(_linear, (*operands, "none", False), reference, twice=dtype == torch.float64)
    check_captured(_linear, (*operands, "none", False))
    check_reference(moye.torch.linear, (*operands, "gelu"), reference)
    check_reference(moye.torch.linear, (*(x.detach() for x in operands), "silu"), reference)
    if dtype == torch.bfloat16:
        check_compiled(moye.torch.linear, (*operands, "relu"), backend="inductor")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", sorted(CASES))
def test_each_operator_that_comes_with_moye(name, dtype):
    """Right, compiled and captured, forward and backward."""
    op, arguments, reference = CASES[name](Place("cuda", dtype, 24))
    rounded = name == "linear_cross_entropy"            # whose logits have the dtype of x
    check_reference(op, arguments, reference, TOLERANCES[dtype] if rounded else None)
    check_compiled(op, arguments, near=name == "attention")             # its gradients are added by atomics
    check_captured(op, arguments, near=name == "attention")


def test_autocast():
    layer = torch.nn.Linear(256, 384, device="cuda")
    x = on_gpu(64, 256)
    with torch.autocast("cuda", torch.bfloat16):
        found, wanted = moye.torch.linear(x, layer.weight, layer.bias), layer(x)
    assert found.dtype == wanted.dtype == torch.bfloat16
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)
    (moved,) = torch.autograd.grad(found.float().sum(), layer.weight)
    (right,) = torch.autograd.grad(wanted.float().sum(), layer.weight)
    assert moved.dtype == torch.float32
    torch.testing.assert_close(moved, right, rtol=2e-2, atol=2e-1)


def test_on_a_stream_of_its_own():
    x, y = on_gpu(1 << 20, grad=False), on_gpu(1 << 20, grad=False)
    wanted, stream = scaled_add(x, y, 2.0), torch.cuda.Stream()         # it is compiled then
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        found = scaled_add(x, y, 2.0)
        assert not stream.query()                       # it was queued behind the pause
    stream.synchronize()
    assert torch.equal(found, wanted)


def test_reduced_overhead():
    """torch's own graphs, forward and backward."""
    x, y = on_gpu(3, 500), on_gpu(3, 500)
    compiled = torch.compile(lambda x, y: square(scaled_add(x, y, 2.0)), fullgraph=True, mode="reduce-overhead")
    wanted = outcome(lambda x, y: square(scaled_add(x, y, 2.0)), (x, y))
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        same(outcome(compiled, (x, y)), wanted, "reduce-overhead", near=True)


@pytest.mark.alone
def test_what_a_call_costs(tmp_path):
    """Less than half of what a custom_op costs beyond the direct launch; the benchmark tells the microseconds."""
    file = tmp_path / "torch_ops.csv"
    done = subprocess.run([sys.executable, BENCHMARK, "3", "--csv", file], capture_output=True, text=True, timeout=300,
                          check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    with open(file, newline="") as rows:
        beyond = {row["way"]: float(row["beyond"]) for row in csv.DictReader(rows)}
    assert beyond["moye"] < 0.5 * beyond["custom_op"]
    assert beyond["moye, with autograd"] < beyond["custom_op, with autograd"]
