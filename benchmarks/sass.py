"""The machine code of two source trees side by side: instructions and registers of every kernel, no GPU.

The kernels are the golden CUDA of tests/golden (the examples', and those of the printer's tests) and products of
``gemm_simt``, ``gemm_sm80`` and ``gemm_sm90``, for sm_90a.  A tree is a checkout: with src and tests.  "same" says that
the machine code is the same, instruction by instruction.  The last line counts.

    python benchmarks/sass.py OLD NEW [--only NAME]

``--only`` takes part of a name, and may be repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import moye.kernels as library
from moye.cuda.compiler import nvrtc
from moye.runtime.prepare import compile_only

PRODUCTS = {
    "simt f32": ("gemm_simt", "float32", "float32", (2048, 2048, 2048), {}),
    "sm80 f16": ("gemm_sm80", "float16", "float16", (2048, 2048, 2048), {}),
    "sm80 bf16": ("gemm_sm80", "bfloat16", "bfloat16", (2048, 2048, 2048), {}),
    "sm80 f32": ("gemm_sm80", "float32", "float32", (2048, 2048, 2048), {}),
    "sm80 s8": ("gemm_sm80", "int8", "int32", (2048, 2048, 2048), {}),
    "sm90 bf16": ("gemm_sm90", "bfloat16", "bfloat16", (8192, 8192, 8192), {}),
    "sm90 bf16 of 16 rows": ("gemm_sm90", "bfloat16", "bfloat16", (16, 8192, 8192), {}),
    "sm90 bf16 of 1000 rows": ("gemm_sm90", "bfloat16", "bfloat16", (1000, 4098, 4096), {}),
    "sm90 bf16, odd rows": ("gemm_sm90", "bfloat16", "bfloat16", (4096, 4097, 4096), {}),
    "sm90 f16, f32 out": ("gemm_sm90", "float16", "float32", (8192, 8192, 8192), {}),
    "sm90 f16, gelu": ("gemm_sm90", "float16", "float16", (8192, 8192, 8192), {"activation": "gelu"}),
    "sm90 bf16, gelu in pairs": ("gemm_sm90", "bfloat16", "bfloat16", (8192, 8194, 8192), {"activation": "gelu"}),
    "sm90 tf32": ("gemm_sm90", "float32", "float32", (8192, 8192, 8192), {}),
    "sm90 e4m3": ("gemm_sm90", "float8_e4m3fn", "bfloat16", (4096, 4096, 4096), {}),
    "sm90 s8": ("gemm_sm90", "int8", "int32", (4096, 4096, 4096), {}),
}


def sources(tree: Path) -> dict[str, str]:
    """The CUDA of every kernel of a tree, by name."""
    golden = tree / "tests" / "golden"
    found = {str(path.relative_to(golden)): path.read_text() for path in sorted(golden.rglob("*.cu"))}
    command = [sys.executable, __file__, "--print"]
    env = {**os.environ, "PYTHONPATH": str(tree / "src")}
    printed = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    return found | json.loads(printed)


def products() -> dict[str, str]:
    """The CUDA of the library's products, printed by the package that is imported."""
    found = {}
    for name, (function, inputs, out, (M, N, K), options) in PRODUCTS.items():
        a, c = (np.dtype(getattr(ml_dtypes, text, text)) for text in (inputs, out))
        with compile_only("sm_90a") as gathered:
            getattr(library, function)(np.empty((M, K), a), np.empty((N, K), a), np.empty((M, N), c), **options)
        found[name] = gathered.programs[-1].source
    return found


def measured(source: str) -> dict[str, object]:
    """Instructions, registers, spilled bytes and the code itself; nothing where it does not compile."""
    kernel = re.search(r'extern "C" __global__[^{]*?(\w+)\((?!\d)[^{]*\{', source)
    if kernel is None:
        return {}
    compiled = nvrtc.compile_cubin(source, kernel[1], "sm_90a")
    lines = [re.sub(r"/\*.*?\*/|\s+", " ", line).strip() for line in compiled.sass.splitlines() if ";" in line]
    code = [line for line in lines if not line.startswith("NOP") and not line.startswith("//")]
    return {"count": len(code), "registers": compiled.registers,
            "spills": compiled.spill_stores + compiled.spill_loads + compiled.stack_frame,
            "code": hashlib.sha256("\n".join(code).encode()).hexdigest()}


def row(name: str, old: dict[str, object], new: dict[str, object]) -> str:
    columns = [f"{old[key]:>6} {new[key]:>6}" for key in ("count", "registers", "spills")]
    return f"{name[:44]:44} {'  '.join(columns)}  {'same' if old['code'] == new['code'] else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE")
    parser.add_argument("--only", action="append", default=[""])
    parser.add_argument("--print", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.print:
        print(json.dumps(products()))
        return
    old, new = map(sources, asked.trees)
    wanted = [name for name in old if name in new and any(part in name for part in asked.only[1:] or [""])]
    print(f"{'':44} instructions     registers  bytes spilled")
    same = fewer = more = 0
    for name in wanted:
        before = measured(old[name])
        after = before if old[name] == new[name] else measured(new[name])
        if before and after:
            print(row(name, before, after), flush=True)
            same += before["code"] == after["code"]
            fewer += after["count"] < before["count"]
            more += after["count"] > before["count"] or after["registers"] > before["registers"]
    print(f"{len(wanted)} kernels: {same} the same, {fewer} with fewer instructions, {more} with more of anything")


if __name__ == "__main__":
    main()
