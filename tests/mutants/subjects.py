"""The correct kernels that are mutated: where their text is, how they are launched, and what they must give.

``SUBJECTS[name].job(module, large)`` makes the arguments and the result in float64.  ``large`` is the size for a GPU.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
Arrays = dict[str, np.ndarray]


@dataclass
class Job:
    """One launch: ``launch(**inputs, **outputs)``; the output ``result`` must be ``reference(**inputs)``."""

    launch: Callable[..., Any]
    inputs: Arrays
    outputs: Arrays
    result: str
    reference: Callable[..., np.ndarray]
    tolerance: float = 1e-5

    @property
    def expected(self) -> np.ndarray:
        return self.reference(**self.inputs)


@dataclass(frozen=True)
class Subject:
    """``functions`` of ``path`` are mutated; ``module`` is its name within moye, ``entry`` what is launched then."""

    path: Path
    functions: tuple[str, ...]
    job: Callable[..., Job]
    options: dict[str, Any] = field(default_factory=dict)
    module: str = ""
    entry: str = ""

    def load(self, text: str, folder: Path) -> ModuleType:
        """The module whose launch runs ``text`` in place of this subject's."""
        path = folder / self.path.name
        path.write_text(text)
        name = self.module or f"mutant_{self.path.stem}"
        if name in sys.modules:
            raise ImportError(f"{name} was imported before its mutant")
        sys.meta_path.insert(0, _Replaced(name, path))
        return importlib.import_module(self.entry or name)


class _Replaced:
    """An importer of one module from another file."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path

    def find_spec(self, name: str, *_: object) -> Any:
        return importlib.util.spec_from_file_location(name, self.path) if name == self.name else None


def _columns(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return np.asfortranarray(np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype))


def _poisoned(shape: tuple[int, ...], dtype: Any = np.float32, order: Any = "F") -> np.ndarray:
    return np.full(shape, np.nan, dtype, order=order)


def _product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return A.astype(np.float64) @ B.astype(np.float64).T


# --- jobs ------------------------------------------------------------------------------------------------------------

def matmul(module: ModuleType, large: bool, *, sizes: tuple[int, int, int] = (256, 256, 32), orders: str = "FF",
           dtype: str = "float32", arguments: tuple[Any, ...] = (), tolerance: float = 1e-5) -> Job:
    M, N, K = (2048, 2048, 256) if large else sizes
    A, B = (np.asarray(_columns((n, K), dtype), order=order) for n, order in zip((M, N), orders, strict=True))
    return Job(lambda A, B, C: module.matmul(A, B, C, *arguments), {"A": A, "B": B}, {"C": _poisoned((M, N))}, "C",
               _product, tolerance)


def gemm(module: ModuleType, large: bool, *, function: str, dtype: str, splits: int = 1, tiles: int = -1,
         sizes: tuple[int, int, int] = (100, 90, 72), odd: bool = False, tolerance: float = 1e-5) -> Job:
    M, N, K = (2000, 1100, 520) if large else sizes
    N, K = N + odd, K + odd
    A, B = (np.ascontiguousarray(_columns((n, K), dtype)) for n in (M, N))
    if function == "gemm_shallow":
        shallow = importlib.import_module("moye.kernels.gemm.shallow.config").CONFIGS[tiles]
        return Job(lambda A, B, C: module.gemm_shallow(A, B, C, config=shallow), {"A": A, "B": B},
                   {"C": _poisoned((M, N), order="C")}, "C", _product, tolerance)
    if function == "gemm_sm80":
        config = importlib.import_module("moye.kernels.gemm.sm80.config")._BY_BITS[A.itemsize * 8][tiles]
    else:
        config = importlib.import_module("moye.kernels.gemm.simt.config").FLOAT[12]
    return Job(lambda A, B, C: getattr(module, function)(A, B, C, config=config, splits=splits),
               {"A": A, "B": B}, {"C": _poisoned((M, N), order="C")}, "C", _product, tolerance)


def transpose(module: ModuleType, large: bool) -> Job:
    src = _columns((4096, 2048) if large else (96, 64))
    return Job(lambda src, dst: module.transpose(dst, src), {"src": src}, {"dst": _poisoned(src.shape[::-1])},
               "dst", lambda src: src.T.astype(np.float64))


def copy(module: ModuleType, large: bool) -> Job:
    src = _columns((4096, 2048) if large else (96, 64))
    return Job(lambda src, dst: module.staged_copy(dst, src), {"src": src}, {"dst": _poisoned(src.shape)},
               "dst", lambda src: src.astype(np.float64))


def ticket(module: ModuleType, large: bool) -> Job:
    x = _columns((1 << 18, 16) if large else (256, 4))
    tiles = x.shape[0] // module.THREADS
    return Job(module.ticket, {"x": x}, {"partial": _poisoned(x.shape), "counter": np.zeros(tiles, np.int32),
                                         "out": _poisoned(x.shape[:1])},
               "out", lambda x: 2 * x.astype(np.float64).sum(1))


def turns(module: ModuleType, large: bool) -> Job:
    x = _columns((1 << 13, 8) if large else (256, 4))
    tiles = x.shape[0] // module.THREADS
    return Job(module.turns, {"x": x}, {"turn": np.zeros(tiles, np.int32), "out": _poisoned(x.shape[:1])},
               "out", lambda x: x.astype(np.float64).sum(1))


def turned(module: ModuleType, large: bool, *, function: str, width: int, factor: int = 1) -> Job:
    x = _columns(((1 << 20) if large else 2 * module.ITEMS * module.THREADS,))
    return Job(getattr(module, function), {"x": x}, {"out": _poisoned(x.shape)}, "out",
               lambda x: factor * x.astype(np.float64).reshape(-1, width)[:, ::-1].ravel())


def ring(module: ModuleType, large: bool) -> Job:
    x = _columns((512 * 32, 256) if large else (512 * 6, 2))
    return Job(module.stages, {"x": x}, {"out": _poisoned(x.shape)}, "out",
               lambda x: x.astype(np.float64).T.reshape(x.shape[1], -1, 512)[:, :, ::-1].reshape(x.shape[1], -1).T)


# --- the table -------------------------------------------------------------------------------------------------------

_EXAMPLES, _OWN = ROOT / "examples", Path(__file__).with_name("synchronised.py")
_TF32: dict[str, Any] = {"tolerance": 2e-3}
_SHALLOW: dict[str, Any] = {"dtype": "float16", "tiles": 1, "tolerance": 1e-4, "sizes": (100, 90, 22), "odd": True}
_HALF: dict[str, Any] = {"dtype": "float16", "tiles": 3, "tolerance": 1e-4}


def _example(stem: str, job: Callable[..., Job] = matmul, **options: Any) -> Subject:
    name = "matmul" if job is matmul else job.__name__
    functions = ("staged_copy", "staged_copy_kernel") if job is copy else (name, f"{name}_kernel")
    return Subject(_EXAMPLES / f"{stem}.py", functions, job, options)


def _own(name: str, job: Callable[..., Job], **options: Any) -> Subject:
    return Subject(_OWN, (name, f"{name}_kernel"), job, options)


def _part(name: str, functions: str, entry: str, **options: Any) -> Subject:
    path = ROOT / "src" / Path(*name.split("."))
    return Subject(path.with_suffix(".py"), tuple(functions.split()), gemm, {"function": entry, **options}, name,
                   f"moye.kernels.gemm.{entry.removeprefix('gemm_')}.kernel")


SUBJECTS: dict[str, Subject] = {
    "copy": _example("01_copy", copy),
    "transpose": _example("02_transpose", transpose),
    "tiled": _example("03_matmul_tiled"),
    "async": _example("04_matmul_async", arguments=((4, 1),)),
    "vectorized": _example("05_matmul_vectorized"),
    "overlapped": _example("06_matmul_overlapped", arguments=((16, 16), True)),
    "double_buffered": _example("09_matmul_double_buffered"),
    "tensor_core": _example("10_matmul_tensor_core", sizes=(32, 32, 32), orders="FC", **_TF32),
    "ldmatrix": _example("11_matmul_ldmatrix", sizes=(32, 32, 32), orders="CC", arguments=("k",), **_TF32),
    "tensor_double": _example("12_matmul_tensor_core_double_buffered", sizes=(128, 128, 64), orders="FC", **_TF32),
    "pipelined": _example("13_matmul_pipelined", sizes=(128, 64, 320), orders="CC", dtype="float16"),
    "ticket": _own("ticket", ticket),
    "turns": _own("turns", turns),
    "roles": _own("roles", turned, function="roles", width=64, factor=2),
    "warp": _own("warp", turned, function="warp", width=32),
    "ring": _own("stages", ring),
    "gemm_simt": _part("moye.kernels.gemm.simt.kernel",
                       "edge_predicate within store asynchronous begin refill by_quads gemm_kernel", "gemm_simt",
                       dtype="float32"),
    "gemm_sm80": _part("moye.kernels.gemm.sm80.kernel", "mainloop gemm_sm80_kernel", "gemm_sm80", sizes=(100, 90, 400),
                       **_HALF),
    "lines": _part("moye.kernels.gemm.sm80.lines", "mainloop begin place_of fetch put cut", "gemm_sm80", odd=True,
                   sizes=(100, 90, 400), **_HALF),
    "rows": _part("moye.kernels.gemm.parts.rows", "begin_of leading store_parts store_ends within", "gemm_sm80",
                  odd=True, **_HALF),
    "epilogue": _part("moye.kernels.gemm.parts.epilogues", "finish store put", "gemm_sm80",
                      sizes=(100, 92, 72), **_HALF),
    "epilogue_rows": _part("moye.kernels.gemm.parts.epilogues", "store", "gemm_sm80", odd=True, **_HALF),
    "operands": _part("moye.kernels.gemm.parts.operands", "load row_predicate side_of", "gemm_sm80", **_HALF),
    "shallow": _part("moye.kernels.gemm.shallow.kernel", "gemm_shallow_kernel", "gemm_shallow", **_SHALLOW),
    "shallow_lines": _part("moye.kernels.gemm.shallow.lines",
                           "begin_of fetch touches_ends place_of fetch_part fetch_ends", "gemm_shallow", **_SHALLOW),
    "shallow_multiply": _part("moye.kernels.gemm.shallow.multiply", "products operand gather kept", "gemm_shallow",
                              **_SHALLOW),
    "shallow_leave": _part("moye.kernels.gemm.shallow.leave", "stage lead_of leave leave_by_rows leave_ends",
                           "gemm_shallow", **_SHALLOW),
    "pipeline": _part("moye.pipelines.multistage", "commit wait ahead start next", "gemm_sm80", sizes=(100, 90, 400),
                      **_HALF),
}
