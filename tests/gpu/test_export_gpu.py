"""Exported C on a GPU: the example's program in C++, and functions called with torch's tensors, streams and graphs."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import exported_c
import moye as mo
from export_kernels import BOXES, across, boxes, meet, saxpy
from moye.cuda.device import driver

EXAMPLE = Path(__file__).parents[2] / "examples" / "export"


def like(*shape, strides=None, **how):
    return mo.TensorLike(mo.float32, shape, strides, **how)


class Library:
    """Exported functions, called with tensors and numbers; a code that is not 0 is an AssertionError."""

    def __init__(self, folder, *exports):
        built = exported_c.build(mo.export(folder / "kernels.c", *exports), folder)
        self.library = ctypes.CDLL(str(built.library))
        torch.cuda.current_stream().synchronize()       # torch makes its context current

    def code(self, name, *arguments, stream=None):
        given = []
        for x in arguments:
            if isinstance(x, torch.Tensor):
                ints = ctypes.c_int64 * x.dim()
                given += [ctypes.c_void_p(x.data_ptr()), ints(*x.shape), ints(*x.stride())]
            else:
                given.append(ctypes.c_float(x) if isinstance(x, float) else ctypes.c_int64(x))
        handle = (stream or torch.cuda.current_stream()).cuda_stream
        return getattr(self.library, name)(*given, ctypes.c_void_p(handle))

    def told(self, name, code):
        function = getattr(self.library, f"{name}_error_string")
        function.restype = ctypes.c_char_p
        return function(code).decode()

    def __call__(self, name, *arguments, **how):
        assert (code := self.code(name, *arguments, **how)) == 0, self.told(name, code)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    arch, x = driver.device_arch(0), like(128, 64, strides=(64, 1))
    exports = [mo.Export(saxpy, [mo.Specialisation(like(8), like(8), 2.0, block=256),
                                 mo.Specialisation(like(8, align=4), like(8, align=4), 2.0, block=256)],
                         grid=lambda x: mo.ceil_div(x.shape[0], 256), arch=arch),
               mo.Export(meet, [mo.Specialisation(like(64), like(64), block=32)], arch=arch)]
    if int(arch.strip("sm_af")) >= 90:
        exports += [mo.Export(boxes, [mo.Specialisation(mo.make_tma_copy(mo.TmaLoad(), x, BOXES),
                                                        mo.make_tma_copy(mo.TmaStore(), x, BOXES), block=32)],
                              arch=arch),
                    mo.Export(across, [mo.Specialisation(like(64), block=32, cluster=4)], arch=arch)]
    return Library(tmp_path_factory.mktemp("export"), *exports)


needs_hopper = pytest.mark.skipif(driver.available() and int(driver.device_arch(0).strip("sm_af")) < 90,
                                  reason="needs sm_90")


def test_the_program_of_the_example(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(Path(mo.__file__).parents[1])}
    subprocess.run([sys.executable, "-m", "moye.cli", "build", EXAMPLE / "kernels.py", "-o", tmp_path / "kernels.c",
                    "--arch", driver.device_arch(0)], env=env, check=True)
    subprocess.run(["gcc", "-std=c99", *exported_c.FLAGS, "-c", "kernels.c", "-o", "kernels.o"], cwd=tmp_path,
                   check=True)
    subprocess.run(["g++", "-std=c++17", *exported_c.FLAGS, "-I.", f"-I{EXAMPLE}", EXAMPLE / "main.cpp", "kernels.o",
                    "-o", "main", "-ldl", "-lpthread"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("largest error") == 2 and "refused: saxpy: x does not begin" in done.stdout


@pytest.mark.parametrize("n, first", [(1, 0), (255, 0), (100003, 0), (100003, 1), (0, 0)])
def test_saxpy(library, n, first):
    x, y = (torch.randn(n + first, device="cuda")[first:] for _ in "xy")
    expected = y + 2.5 * x
    library("saxpy", y, x, 2.5)
    torch.testing.assert_close(y, expected)


def test_on_another_stream_from_other_threads(library):
    failed = []

    def run(seed):
        torch.cuda.set_device(0)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x, y = torch.randn(5000, device="cuda"), torch.zeros(5000, device="cuda")
            for _ in range(50):
                library("saxpy", y, x, 1.0, stream=stream)
            stream.synchronize()
            if not torch.allclose(y, 50 * x, rtol=1e-4):
                failed.append(seed)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_in_a_captured_graph(library):
    x, y = torch.randn(5000, device="cuda"), torch.zeros(5000, device="cuda")
    assert library.library.saxpy_load() == 0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        library("saxpy", y, x, 1.0)
    for _ in range(3):
        graph.replay()
    torch.testing.assert_close(y, 3 * x)


def test_refusals(library):
    x = torch.randn(5000, device="cuda")
    code = library.code("saxpy", x[:100], x[50:150], 1.0)
    assert library.told("saxpy", code).endswith("y and x share memory, and y is written")
    z, y = torch.zeros(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    assert "grid_sync" in library.told("meet", library.code("meet", 1 << 20, 1, 1, z, y))


def test_a_grid_that_meets(library):
    z, y = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
    library("meet", 64, 1, 1, z, y)
    assert z.tolist() == [*map(float, range(1, 64)), 0.0]


@needs_hopper
@pytest.mark.parametrize("M, N", [(128, 64), (100, 36), (1, 4), (300, 200)])
def test_tma(library, M, N):
    src, dst = torch.randn(M, N, device="cuda"), torch.zeros(M, N, device="cuda")
    library("boxes", -(-M // 64), -(-N // 32), 1, src, dst)
    assert torch.equal(src, dst)


@needs_hopper
def test_clusters(library):
    y = torch.full((64,), 7.0, device="cuda")
    library("across", 64, 1, 1, y)
    assert not y.any()


# --- examples, launched from C ---------------------------------------------------------------------------------------


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLE.parent / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def through(kernel, folder):
    handle = torch.cuda.current_stream().cuda_stream
    return exported_c.ThroughC(kernel, folder, driver.device_arch(0), handle)


@needs_hopper
@pytest.mark.parametrize("name, dtype, M, N, K", [("17_matmul_warp_specialized", torch.float16, 1000, 520, 1000),
                                                  ("18_matmul_persistent", torch.bfloat16, 1024, 512, 512)])
def test_products_by_tma_and_wgmma(name, dtype, M, N, K, tmp_path):
    module = example(name)
    a, b = (torch.randn(n, K, device="cuda", dtype=dtype) for n in (M, N))
    c = torch.full((M, N), float("nan"), device="cuda", dtype=dtype)
    kernel = through(module.matmul_kernel, tmp_path)
    module.matmul(a, b, c, kernel=kernel)
    exact = a.double() @ b.double().T
    assert kernel.calls == 1 and (c.double() - exact).norm() / exact.norm() < 3e-3


@needs_hopper
def test_a_softmax_over_clusters(tmp_path):
    module = example("16_cluster_reduction")
    x, y = torch.randn(8, 16384, device="cuda"), torch.zeros(8, 16384, device="cuda")
    module.softmax(y, x, kernel=through(module.softmax_kernel, tmp_path))
    torch.testing.assert_close(y, torch.softmax(x, 1))


def test_a_pipelined_product(tmp_path):
    module = example("13_matmul_pipelined")
    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in "ab")
    c = torch.zeros(512, 512, device="cuda")
    module.matmul(a, b, c, kernel=through(module.matmul_kernel, tmp_path))
    exact = a.double() @ b.double().T
    assert (c.double() - exact).norm() / exact.norm() < 3e-3
