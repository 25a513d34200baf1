"""Random kernels on the GPU: the fourth answer, bit by bit the interpreter's.

All programs are one compilation, each in a namespace of its own, with multiply-adds that round twice (--fmad=false).
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fuzz.answers import differences, for_moye, judge
from fuzz.generator import draw
from fuzz.programs import arguments
from moye.cuda.compiler import nvrtc
from moye.cuda.device import driver

SEEDS = range(5000, 5030)


@pytest.fixture(scope="module")
def programs():
    """Programs that simulator and interpreter agree on, with their CUDA."""
    judged = [(program, judge(program)) for program in map(draw, SEEDS)]
    assert not [f"{p.seed}: {v.kind}: {v.text}" for p, v in judged if v.failed]
    clean = [(program, verdict) for program, verdict in judged if verdict.kind == "clean"]
    assert len(clean) > len(SEEDS) // 2
    assert not [f"{p.seed}: {v.printed}" for p, v in clean if isinstance(v.printed, Exception)]
    return clean


@pytest.fixture(scope="module")
def cubin(programs):
    text = "\n".join(f"namespace n{p.seed} {{\n{v.printed.source}\n}}" for p, v in programs)
    return nvrtc.compile_cubin(text, programs[0][0].name, driver.device_arch(0), options=("--fmad=false",)).cubin


def on_the_gpu(program, verdict, cubin):
    """What differs from the interpreter's memories."""
    items = arguments(program)
    hosts = for_moye(items)
    device = [torch.from_numpy(x.ravel(order="F").view(np.uint8)).cuda() if isinstance(x, np.ndarray) else x
              for x in hosts]
    values = []
    for slot in verdict.printed.slots:
        host = hosts[slot.param]
        values.append(device[slot.param].data_ptr() if slot.kind == "ptr" else
                      host.strides[slot.mode] // host.itemsize if slot.kind == "stride" else
                      host if slot.kind == "scalar" else host.shape[slot.mode])
    kernel = driver.load(cubin, program.name, 0, tuple(slot.format for slot in verdict.printed.slots))
    kernel.launch((program.grid, 1, 1), (program.block, 1, 1), None, 0, driver.current_stream(0), values)
    torch.cuda.synchronize()
    found = [x.cpu().numpy().view(host.dtype).reshape(host.shape, order="F") if isinstance(x, torch.Tensor) else x
             for x, host in zip(device, hosts, strict=True)]
    return differences(items, verdict.memories, found, program.parameters)


def test_the_gpu_computes_what_the_source_says(programs, cubin):
    told = {p.seed: found[:3] for p, v in programs if (found := on_the_gpu(p, v, cubin))}
    assert not told
