"""Arguments that share memory, on a GPU: each thread sees what it wrote, by every way to launch; version counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

import moye as mo
from moye.errors import ArgumentError

N = 256


@dataclass(frozen=True)
class Operands:
    target: Any
    source: Any


@mo.kernel
def write_then_read(y, x):
    """Each thread writes y, then reads x at the same place; where they are one array that is what it wrote."""
    i = mo.thread_idx().x
    y[i] = 1.0
    y[i] = x[i] + 1.0


@mo.kernel
def of_records(pair, more):
    i = mo.thread_idx().x
    pair.target[i] = more[0][i]
    pair.target[i] = pair.source[i] + 1.0


def fresh():
    return torch.full((N,), 5.0, device="cuda")


def captured(launch, x):
    launch(x)                                           # loaded before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(x)
    x.fill_(5.0)
    graph.replay()


@pytest.mark.parametrize("launch", [
    lambda x: write_then_read[1, N](x, x),
    lambda x: write_then_read.launch(x, x, grid=1, block=N),
    lambda x: write_then_read.prepare(x, x, grid=1, block=N)(),
    lambda x: write_then_read.compile(x, x, block=N).prepare(x, x, grid=1)(),
    lambda x: captured(lambda x: write_then_read[1, N](x, x), x),
    lambda x: of_records[1, N](Operands(x, x), (torch.ones_like(x),)),
], ids=["launch", "options", "prepare", "compile", "graph", "records"])
def test_the_same_array_twice(launch):
    other = fresh()
    write_then_read[1, N](fresh(), other)               # a plan for arrays that are apart
    write_then_read[1, N](fresh(), other)
    x = fresh()
    launch(x)
    assert torch.equal(x, torch.full_like(x, 2.0))


def test_slices_of_one_array():
    memory = torch.empty(2 * N, device="cuda")
    for first, expected in ((0, 2.0), (N, 6.0), (0, 2.0)):
        memory.fill_(5.0)
        write_then_read[1, N](memory[:N], memory[first:first + N])
        assert torch.equal(memory[:N], torch.full_like(memory[:N], expected))
    strided = memory.view(N, 2).fill_(5.0)
    for column, expected in ((0, 2.0), (1, 6.0), (0, 2.0)):
        strided.fill_(5.0)
        write_then_read[1, N](strided[:, 0], strided[:, column])
        assert torch.equal(strided[:, 0], torch.full_like(strided[:, 0], expected))


def test_version_counters_and_what_autograd_records():
    w = torch.ones(N, device="cuda", requires_grad=True)
    y = w * 1.0
    z = (y * y).sum()
    out = torch.zeros(N, device="cuda")
    for launch in range(3):
        with pytest.raises(ArgumentError, match="requires grad"):
            write_then_read[1, N](y, out)
        write_then_read[1, N](out, y.detach())
        assert (out._version, y._version) == (launch + 1, 0)
    prepared = write_then_read.prepare(out, y.detach(), grid=1, block=N)
    prepared()
    assert out._version == 4
    with torch.no_grad():
        for _ in range(2):
            write_then_read[1, N](y, out)
    assert y._version == 2
    with pytest.raises(ArgumentError, match="requires grad"):
        write_then_read[1, N](y, out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
