"""Every example runs at a small size in the simulator, and is as short as an example should be."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import moye as mo
from moye.cuda.device import driver
from moye.layout import analysis
from moye.tensor.retile import side_of

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted(EXAMPLES.rglob("*.py"))
SMALL = {
    "01_copy": {"M": 64, "N": 96},
    "02_transpose": {"M": 64, "N": 96},
    "03_matmul_tiled": {"M": 128, "N": 256, "K": 16},
    "04_matmul_async": {"M": 128, "N": 256, "K": 16},
    "05_matmul_vectorized": {"M": 128, "N": 256, "K": 16},
    "06_matmul_overlapped": {"M": 128, "N": 256, "K": 16},
    "07_reductions": {"N": 2048},
    "08_elementwise": {"M": 64, "N": 64},
    "09_matmul_double_buffered": {"M": 256, "N": 128, "K": 32},
    "10_matmul_tensor_core": {"M": 64, "N": 48, "K": 32},
    "11_matmul_ldmatrix": {"M": 64, "N": 48, "K": 32},
    "12_matmul_tensor_core_double_buffered": {"M": 256, "N": 128, "K": 64},
    "13_matmul_pipelined": {"M": 128, "N": 64, "K": 256},
    "14_tma_copy": {"M": 100, "N": 44},
    "15_matmul_wgmma": {"M": 256, "N": 128, "K": 72},
    "16_cluster_reduction": {"M": 3, "N": 8192},
    "17_matmul_warp_specialized": {"M": 200, "N": 136, "K": 72},
    "18_matmul_persistent": {"M": 384, "N": 256, "K": 192, "blocks": 1},
    "kernels": {},
}


class Compiled:
    """In place of a kernel: its launches are compiled for sm_90a."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, launch):
        return lambda *arguments: self.kernel.compile(*arguments, block=launch[1], arch="sm_90a")

    def launch(self, *arguments, grid, block, cluster):
        return self.kernel.compile(*arguments, block=block, cluster=cluster, arch="sm_90a")


def _load(path):
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    monkeypatch.setattr(driver, "available", lambda: False)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_main(path, capsys, tmp_path):
    module = _load(path)
    extra = {"out": tmp_path} if path.stem.startswith("09") else {}
    module.main(**({} if path.parent.name == "broken" else SMALL[path.stem]), **extra)
    assert capsys.readouterr().out


def test_the_demo_writes_the_printed_cuda(capsys, tmp_path):
    _load(EXAMPLES / "09_matmul_double_buffered.py").main(128, 128, 16, tmp_path)
    told = capsys.readouterr().out
    source = (tmp_path / "matmul_double_buffered.cu").read_text()
    assert "__global__" in source
    assert "cp.async" in source
    for word in ("ran on:   the simulator", "error:", "checked:", "races", f"{tmp_path}/matmul_double_buffered.cu"):
        assert word in told


def test_the_demo_without_rich_and_without_nvrtc(capsys, tmp_path, monkeypatch):
    """Plain text shows the progress, and one line says why no CUDA was printed."""
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setenv("MOYE_DISK_CACHE", "0")
    _load(EXAMPLES / "09_matmul_double_buffered.py").main(128, 128, 16, tmp_path)
    told = capsys.readouterr().out
    assert "1/1 blocks\n" in told
    assert "CUDA:     not compiled here: compiling needs NVRTC" in told


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_is_short_and_explained(path):
    text = path.read_text()
    assert text.startswith('"""')
    assert text.count("\n") <= 150, f"{path.name} has {text.count(chr(10))} lines"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_uses_public_names_alone(path):
    """``import moye as mo`` and no module inside it, nor a name that begins with an underscore."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert not [a.name for a in node.names if a.name.startswith("moye.")], ast.unparse(node)
            assert all(a.asname == "mo" for a in node.names if a.name == "moye"), ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] != "moye", ast.unparse(node)
    names = {node.attr for node in ast.walk(tree)
             if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "mo"}
    assert names <= set(mo.__all__), names - set(mo.__all__)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_pipelined_product_is_clean(stages):
    """Under every check, with fewer tiles than stages and with more."""
    example = _load(EXAMPLES / "13_matmul_pipelined.py")
    example.PIPE = mo.Pipeline(stages)
    example.SA = example.SB = mo.tile_to_shape(example.ATOM, (64, 64, stages))
    for K in (64, 384):
        A, B = (np.eye(64, K, k, dtype=np.float16) for k in (0, 1))
        C = np.full((64, 64), np.nan, np.float32)
        report = example.matmul(A, B, C, mo.check(example.matmul_kernel))
        assert report.ok, str(report)
        assert np.array_equal(C, A @ B.T)


@pytest.mark.slow
@pytest.mark.parametrize("K", [8, 64, 264, 640])
def test_the_product_of_warpgroups_is_clean(K):
    """Under every check, with fewer tiles than stages and with more; K may end within a tile."""
    example = _load(EXAMPLES / "15_matmul_wgmma.py")
    A, B = (np.random.default_rng(K + i).standard_normal((rows, K)).astype(np.float16)
            for i, rows in enumerate((256, 128)))
    C = np.full((256, 128), np.nan, np.float32)
    report = example.matmul(A, B, C, mo.check(example.matmul_kernel))
    assert report.ok, str(report)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    assert np.linalg.norm(C - expected) < 1e-6 * np.linalg.norm(expected)


@pytest.mark.slow
@pytest.mark.parametrize("K", [8, 64, 264, 640])
def test_the_specialised_product_is_clean(K):
    """Ragged along every mode, with fewer tiles than stages and with more."""
    example = _load(EXAMPLES / "17_matmul_warp_specialized.py")
    A, B = (np.random.default_rng(K + i).standard_normal((rows, K)).astype(np.float16)
            for i, rows in enumerate((200, 136)))
    C = np.full((200, 136), np.nan, np.float16)
    report = example.matmul(A, B, C, mo.check(example.matmul_kernel))
    assert report.ok, str(report)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    assert np.linalg.norm(C - expected) < 3e-4 * np.linalg.norm(expected)


@pytest.mark.parametrize(("shape", "blocks"), [
    ((128, 128, 64), 1), ((384, 256, 192), 2), ((200, 392, 8), 1), ((200, 392, 456), 3)], ids=str)
def test_the_persistent_product_is_clean(shape, blocks):
    """Odd and even numbers of tiles for a block, ragged ones, fewer k tiles than stages and more."""
    example, (M, N, K) = _load(EXAMPLES / "18_matmul_persistent.py"), shape
    A, B = (mo.testing.array(np.random.default_rng(K + i).standard_normal((rows, K)), mo.bfloat16)
            for i, rows in enumerate((M, N)))
    C = mo.testing.array(np.full((M, N), np.nan), mo.bfloat16)
    report = example.matmul(A, B, C, blocks, mo.check(example.matmul_kernel))
    assert report.ok, str(report)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    assert np.linalg.norm(C.astype(np.float64) - expected) < 3e-3 * np.linalg.norm(expected)


@pytest.mark.parametrize(("stem", "dtype", "out"), [
    ("15_matmul_wgmma", mo.float16, mo.float32), ("17_matmul_warp_specialized", mo.float16, mo.float16),
    ("18_matmul_persistent", mo.bfloat16, mo.bfloat16)])
def test_the_products_of_warpgroups_are_compiled_without_a_loss(stem, dtype, out):
    """No spills and no note of ptxas that it serialises products."""
    example = _load(EXAMPLES / f"{stem}.py")
    A, B = (mo.testing.array(np.zeros((256, 128)), dtype) for _ in range(2))
    C = mo.testing.array(np.zeros((256, 256)), out)
    program = example.matmul(A, B, C, kernel=Compiled(example.matmul_kernel))
    assert program.spills == program.stack == 0
    assert "(C7" not in program.compiled.log


@pytest.mark.parametrize("shape", [(1, 4096), (5, 16384)])
def test_the_softmax_of_a_cluster_is_clean(shape):
    example = _load(EXAMPLES / "16_cluster_reduction.py")
    X = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    Y = np.full_like(X, np.nan)
    report = example.softmax(Y, X, mo.check(example.softmax_kernel))
    assert report.ok and not report.lints and not report.not_judged, str(report)
    wide = np.exp(X.astype(np.float64))
    assert np.abs(Y - wide / wide.sum(axis=1, keepdims=True)).max() < 1e-7


def test_the_softmax_of_a_cluster_stays_in_registers():
    example = _load(EXAMPLES / "16_cluster_reduction.py")
    program = example.softmax(*(np.zeros((4, 65536), np.float32) for _ in range(2)), Compiled(example.softmax_kernel))
    assert program.spills == program.stack == 0
    assert program.ptx.count("ld.shared::cluster") == 3 * example.BLOCKS    # the maximum twice


def test_the_copy_by_tma_is_clean():
    example = _load(EXAMPLES / "14_tma_copy.py")
    src = np.arange(100 * 44, dtype=np.float32).reshape(100, 44)
    dst = np.full_like(src, np.nan)
    report = example.copy(dst, src, mo.check(example.copy_kernel))
    assert report.ok, str(report)
    assert np.array_equal(dst, src)


def test_the_pipelined_product_has_no_bank_conflicts():
    example = _load(EXAMPLES / "13_matmul_pipelined.py")
    assert analysis.copy_report(example.COPY, smem=example.SA).banks.degree == 1
    for load, smem in ((example.LOAD_A, example.SA), (example.LOAD_B, example.SB)):
        rows = mo.make_layout(*side_of(load.layout_tv, load.atom.op.threads, load.atom.values, load.atom.source))
        places = analysis.thread_values(rows, load.tiler, smem)
        assert analysis.bank_conflicts(places, 16, "ldmatrix").degree == 1
    program = example.matmul_kernel.compile(
        *(mo.TensorLike(mo.float16, (512, 512), (512, 1)) if x == "AB" else x for x in (
            "AB", example.SA, example.COPY, example.LOAD_A, "AB", example.SB, example.COPY, example.LOAD_B)),
        mo.TensorLike(mo.float32, (512, 512), (512, 1)), example.MMA, example.PIPE, block=128, arch="sm_80")
    assert program.spills == program.stack == 0
    assert "PRMT" not in program.sass
