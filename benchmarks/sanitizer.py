"""Who finds what: the kernels of examples/broken under NVIDIA's compute-sanitizer, beside moye's own report.

    python benchmarks/sanitizer.py [processes [known.json]]         # needs a GPU, CuPy and compute-sanitizer

Every kernel, and its correct twin, runs on the GPU under memcheck, racecheck, initcheck and synccheck, a process for
each pair with a time limit.  Prints a table and writes sanitizer.json.  Classes that moye finds before anything runs
have nothing to run there ("not launched"); lints are no errors and are left out.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
BROKEN = ROOT / "examples" / "broken"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
LIMIT = 25
KINDS = (("is out of bounds", "out of bounds"), ("is misaligned", "misaligned"), ("Race reported", "race"),
         ("Uninitialized __", "uninitialised"), ("Barrier error", "barrier"), ("divergent thread", "barrier"))
FAULT = re.compile(r"^=+ (?:Invalid|Error:|Warning:|Fatal|Uninitialized|Barrier|Potential)", re.MULTILINE)


# --- under the sanitizer ---------------------------------------------------------------------------------------------


class OnGpu:
    """Stands in for ``mo.check(kernel)``: launches on copies of the arrays in the GPU's memory."""

    def __init__(self, kernel, **_):
        self.kernel = kernel

    def __getitem__(self, config):
        return lambda *args, **kwargs: self.launch(*args, grid=config[0], block=config[1], **kwargs)

    def launch(self, *args, grid, block, cluster=1, **kwargs):
        import cupy

        import moye as mo

        arrays = {}

        def moved(x):
            if isinstance(x, mo.TmaCopy):
                return mo.make_tma_copy(x.op, moved(x.array), x.smem_layout, x.tile, x.multicast)
            if isinstance(x, np.ndarray) and id(x) not in arrays:
                arrays[id(x)] = _moved(cupy, x)
            return arrays.get(id(x), x)

        named = {name: moved(x) for name, x in kwargs.items()}
        self.kernel.launch(*map(moved, args), grid=grid, block=block, cluster=cluster, **named)
        cupy.cuda.runtime.deviceSynchronize()
        print("LAUNCHED")
        sys.stdout.flush()
        os._exit(0)


def _moved(cupy, x):
    """The array with its strides, alone in an allocation of its own size."""
    reach = 1 + sum((extent - 1) * stride for extent, stride in zip(x.shape, x.strides, strict=True)) // x.itemsize
    flat = cupy.empty(reach, x.dtype)
    flat.set(np.lib.stride_tricks.as_strided(x, (reach,), (x.itemsize,)))
    return cupy.ndarray(x.shape, x.dtype, flat.data, x.strides)


def child(stem):
    import cupy

    import moye as mo

    cupy.cuda.set_allocator(None)                       # one cudaMalloc per array: no slack beyond its end
    mo.check = OnGpu
    spec = importlib.util.spec_from_file_location(stem, BROKEN / f"{stem}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        module.main()
    except mo.errors.MoyeError as error:
        print(f"REFUSED {type(error).__name__}")


# --- the table -------------------------------------------------------------------------------------------------------


def judge(item):
    """What one tool says of one kernel."""
    stem, tool = item
    command = ["compute-sanitizer", "--tool", tool, *(["--report-api-errors", "no"] if tool == "memcheck" else []),
               sys.executable, __file__, "--child", stem]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return "hangs"
    text = done.stdout + done.stderr
    if "REFUSED" in text:
        return "not launched"
    if "ERROR SUMMARY" not in text and "RACECHECK SUMMARY" not in text:
        return "failed"
    kinds = sorted({kind for pattern, kind in KINDS if pattern in text})
    return ", ".join(kinds) or ("another error" if FAULT.search(text) else "nothing")


def main(processes=12, known="sanitizer.json"):
    """Kernels that the file has already are left as they are."""
    before = json.loads(Path(known).read_text()) if Path(known).exists() else {}
    stems = sorted(p.stem for p in BROKEN.glob("*.py") if not p.stem.endswith("_fixed"))
    stems = [stem for stem in stems if not stem.startswith("p") and stem not in before]
    items = [(stem + end, tool) for stem in stems for end in ("", "_fixed") for tool in TOOLS]
    with ThreadPoolExecutor(processes) as pool:
        said = dict(zip(items, pool.map(judge, items), strict=True))
    table = before | {stem: {tool: [said[stem, tool], said[f"{stem}_fixed", tool]] for tool in TOOLS} for stem in stems}
    Path("sanitizer.json").write_text(json.dumps(table, indent=1) + "\n")
    print(f"{'kernel':32} " + " ".join(f"{tool:>16}" for tool in TOOLS) + "   of the correct twin")
    for stem, row in table.items():
        twin = {tool: said for tool, (_, said) in row.items() if said not in ("nothing", "not launched")}
        print(f"{stem:32} " + " ".join(f"{row[tool][0]:>16}" for tool in TOOLS) + f"   {twin or ''}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        main(*map(int, sys.argv[1:2]), *sys.argv[2:3])
