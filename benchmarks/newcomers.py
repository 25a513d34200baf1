"""Kernels as newcomers write them from the documentation, beside hand-written CUDA of the same designs.

The pairs are in benchmarks/newcomers: a module with a kernel, its arguments and the exact result, and a twin in
CUDA of the same name.  Without a GPU there is a table of the machine code of both for sm_90a: instructions, those in
loops, registers, accesses of local memory, integer arithmetic of 64 bits, widths of loads and stores, barriers.  With
one, results of both are compared with float64 on poisoned outputs, and both run in turns, L2 flushed, medians.

    python benchmarks/newcomers.py [--only NAME] [--csv FILE]             # machine code
    python benchmarks/newcomers.py --gpu [--only NAME] [--csv FILE] [--rounds N]
    python benchmarks/newcomers.py --show NAME                            # moye's CUDA, and the machine code of both
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from moye.cuda.compiler import nvrtc
from moye.cuda.compiler.sass import parse_sass
from moye.runtime.kernel import Kernel

HERE = Path(__file__).parent / "newcomers"
NAMES = sorted(path.stem for path in HERE.glob("*.py"))
THREADS = 8                                             # that compile and compute results
_SIGNED = {"uint16": np.int16, "uint32": np.int32, "uint64": np.int64, "bfloat16": np.int16}
_LETTERS = {float: "f", int: "i", np.int64: "q"}


@dataclass(frozen=True)
class Case:
    """One launch: the arguments of moye's kernel and of its twin, which of them are written, and what they are then.

    ``expected()`` may give the first elements of each output alone.
    """

    name: str
    kernel: Kernel
    arguments: tuple[Any, ...]
    outputs: tuple[int, ...]
    twin: tuple[Any, ...]
    grid: Any
    block: Any
    expected: Callable[[], tuple[Any, ...]]
    tolerance: float = 2e-5                             # of the error relative to the norm
    restart: tuple[int, ...] = ()                       # what is 0 before each run
    seen: Callable[[Any], Any] = tuple                  # what of the outputs is compared

    def errors(self, got, expected) -> list[float]:
        """Of each output, relative to the norm; NaN where something was not written."""
        found = []
        for mine, exact in zip(self.seen(got), expected, strict=True):
            flat, wanted = np.asarray(mine).ravel().astype(float), np.asarray(exact).ravel().astype(float)
            if len(flat) < len(wanted) or not np.isfinite(flat).all():
                found.append(float("nan"))
            else:
                norm = float(np.linalg.norm(wanted)) or 1.0
                found.append(float(np.linalg.norm(flat[:len(wanted)] - wanted)) / norm)
        return found

    def right(self, got, expected) -> bool:
        return all(error <= self.tolerance for error in self.errors(got, expected))

    def compile(self, arch="sm_90a"):
        """moye's program for these arguments."""
        return self.kernel.compile(*self.arguments, block=self.block, arch=arch)

    def compile_twin(self, arch="sm_90a"):
        return nvrtc.compile_cubin((HERE / f"{self.name}.cu").read_text(), self.name, arch)


def load(name: str, small: bool) -> Case:
    """The case of one pair; small ones are for the simulator."""
    spec = importlib.util.spec_from_file_location(f"newcomers_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None, f"benchmarks/newcomers/{name}.py cannot be imported"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Case(name, module.kernel, **module.case(small))


# --- machine code ----------------------------------------------------------------------------------------------------

_WORK = re.compile(r"LDG|STG|LDS|STS|LDSM|LDGSTS|ATOM|RED|FFMA|FADD|FMUL|MUFU|HMMA|SHFL|FMNMX|IMNMX|FSETP")
_WIDE_INTEGER = re.compile(r"IMAD\.WIDE|IMAD\.HI|IADD3\.X|IMAD\.X|LEA\.HI|SHF\.|USHF|UIMAD\.WIDE|UIADD3\.X|ULEA\.HI|"
                           r"\.64\.EX|ISETP\.\w+(\.U32)?\.AND\.EX")
_MEMORY = ("LDG", "STG", "LDS", "STS", "LDL", "STL")
_BITS = re.compile(r"\.(128|64|U8|S8|U16|S16)\b")


def _work(instructions) -> int:
    """Accesses and arithmetic of floats: what a loop is there for."""
    return sum(bool(_WORK.match(i.name)) for i in instructions)


@dataclass(frozen=True)
class Code:
    """What the table counts of one program."""

    registers: int
    local: int                                          # accesses of local memory
    counts: dict[str, int]

    @classmethod
    def of(cls, program) -> Code:
        every = parse_sass(program.sass)
        spans = [(i.target, at) for at, i in enumerate(every)
                 if i.role == "branch" and i.target is not None and i.target < at]
        instructions = [i for i in every if i.name != "NOP"]
        inside = [i for at, i in enumerate(every) if any(first <= at <= last for first, last in spans)]
        inner = [(a, b) for a, b in spans if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)]
        busiest = max((every[a:b + 1] for a, b in inner), key=_work, default=[])
        counts = Counter({"all": len(instructions), "in loops": len(inside), "hot": len(busiest)})
        counts["work"] = _work(busiest)
        counts["wide"] = sum(bool(_WIDE_INTEGER.match(i.name)) for i in instructions)
        counts["wide in loops"] = sum(bool(_WIDE_INTEGER.match(i.name)) for i in inside)
        counts["barriers"] = sum(i.name.startswith("BAR") for i in instructions)
        counts["branches"] = sum(i.name.startswith("BRA") for i in instructions)
        for kind in _MEMORY:
            for i in instructions:
                if i.name.split(".")[0] == kind:
                    bits = _BITS.search(i.name)
                    counts[f"{kind}.{bits[1] if bits else 32}"] += 1
        counts["constant loads"] = sum(".CONSTANT" in i.name for i in instructions)
        return cls(program.registers, counts["LDL.32"] + counts["STL.32"] + counts["LDL.64"] + counts["LDL.128"]
                   + counts["STL.64"] + counts["STL.128"], counts)

    @property
    def memory(self) -> str:
        kinds = sorted(name for name in self.counts if name[:3] in _MEMORY)
        return " ".join(f"{name}:{self.counts[name]}" for name in kinds)


@dataclass(frozen=True)
class Row:
    """Both programs of a pair."""

    name: str
    moye: Code
    hand: Code

    def overhead(self) -> float:
        """The ratio of instructions in the busiest inner loop, each to the accesses and arithmetic that it has."""
        each = [code.counts["hot"] / max(code.counts["work"], 1) for code in (self.moye, self.hand)]
        return each[0] / each[1] if all(each) else 1.0

    def ratio(self, what: str) -> float:
        """moye's count to the twin's; of what neither has, 1."""
        mine, other = self.moye.counts[what], self.hand.counts[what]
        return mine / other if other else 1.0 if not mine else float("inf")

    def __str__(self):
        parts = [f"{self.name:15}"]
        for what, width in (("all", 5), ("in loops", 5), ("hot", 4)):
            parts.append(f"{self.moye.counts[what]:{width}}{self.hand.counts[what]:{width}}{self.ratio(what):6.2f}")
        parts.append(f"{self.overhead():5.2f}")
        for what in ("wide", "wide in loops", "branches", "barriers"):
            parts.append(f"{self.moye.counts[what]:3} {self.hand.counts[what]:3}")
        parts.append(f"{self.moye.registers:3} {self.hand.registers:3}")
        parts.append(f"{self.moye.local:3} {self.hand.local:3}")
        if self.moye.memory != self.hand.memory:
            parts.append(f"{self.moye.memory} | {self.hand.memory}")
        return "  ".join(parts)


_TITLES = (("moye, twin:", 15), ("instructions", -16), ("in loops", -16), ("busiest loop", -14), ("each", -5),
           ("64-bit", -7), ("in loop", -7), ("branch", -7), ("barrier", -7), ("regs", -7), ("local", -7),
           ("accesses that differ", 0))
HEADING = "  ".join(title.ljust(width) if width > 0 else title.rjust(-width) for title, width in _TITLES)


def compiled(name: str) -> Row:
    case = load(name, small=True)
    return Row(name, Code.of(case.compile()), Code.of(case.compile_twin()))


def machine_code(names: list[str], path: Path | None) -> None:
    """The table, and the same as CSV."""
    print(HEADING)
    rows = []
    for name in names:
        rows.append(compiled(name))
        print(rows[-1], flush=True)
    ratios = [row.ratio("all") for row in rows]
    print(f"{len(rows)} pairs: instructions {np.exp(np.mean(np.log(ratios))):.3f} of the twins' (geometric mean), "
          f"{min(ratios):.2f} to {max(ratios):.2f}")
    if path:
        columns = sorted({column for row in rows for code in (row.moye, row.hand) for column in code.counts})
        with path.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["pair", "program", "registers", "local", *columns])
            for row in rows:
                for who, code in (("moye", row.moye), ("twin", row.hand)):
                    out.writerow([row.name, who, code.registers, code.local, *(code.counts[c] for c in columns)])


# --- times -----------------------------------------------------------------------------------------------------------

def on_device(torch, values) -> list[Any]:
    """The arrays among some values as CUDA tensors with the same strides; one array is one tensor."""
    moved: dict[int, Any] = {}
    for value in values:
        if isinstance(value, np.ndarray) and id(value) not in moved:
            moved[id(value)] = _tensor(torch, value)
    return [moved.get(id(value), value) for value in values]


def _tensor(torch, array):
    base = array if array.base is None else array.base          # a part of an array keeps its strides
    while isinstance(base.base, np.ndarray):
        base = base.base
    if base.size > array.size and not array.flags.c_contiguous:
        whole = torch.from_numpy(base).cuda()
        offset = (array.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // array.itemsize
        return whole.as_strided(array.shape, [s // array.itemsize for s in array.strides], offset)
    signed = np.ascontiguousarray(array).view(_SIGNED.get(array.dtype.name, array.dtype))
    tensor = torch.from_numpy(signed).cuda()
    return tensor.view(getattr(torch, array.dtype.name)) if array.dtype.name in _SIGNED else tensor


def _plain(torch, tensor):
    """The same memory with a dtype for which torch has every operation."""
    signed = _SIGNED.get(str(tensor.dtype).removeprefix("torch."))
    return tensor if signed is None else tensor.view(getattr(torch, np.dtype(signed).name))


def _host(torch, tensor, dtype):
    return _plain(torch, tensor).cpu().numpy().view(dtype)


def formats(case: Case) -> tuple[str, ...]:
    return tuple("P" if isinstance(v, np.ndarray) else _LETTERS[type(v)] for v in case.twin)


def contest(torch, driver, interleave, case: Case, expected, loaded, rounds: int) -> dict[str, Any]:
    """Whether both are right, and their medians in microseconds."""
    values = on_device(torch, (*case.arguments, *case.twin))
    arguments, twin = values[:len(case.arguments)], values[len(case.arguments):]
    launch = case.kernel[case.grid, case.block]
    grid, block = (n + (1,) * (3 - len(n)) if isinstance(n, tuple) else (n, 1, 1) for n in (case.grid, case.block))
    params = tuple(v.data_ptr() if isinstance(v, torch.Tensor) else v for v in twin)
    def by_hand():
        loaded.launch(grid, block, None, 0, driver.current_stream(0), params)

    ways = {"moye": lambda: launch(*arguments), "hand": by_hand}
    results: dict[str, Any] = {"pair": case.name}
    first = {at: _plain(torch, arguments[at]).clone() for at in case.outputs}
    for who, run in ways.items():
        for at, poisoned in first.items():
            _plain(torch, arguments[at]).copy_(poisoned)
        run()
        torch.cuda.synchronize()
        got = [_host(torch, arguments[at], case.arguments[at].dtype) for at in case.outputs]
        results[f"{who} error"] = max(case.errors(got, expected), key=lambda e: float("inf") if e != e else e)
        results[f"{who} right"] = case.right(got, expected)
    if case.restart:
        def again(run):
            for at in case.restart:
                _plain(torch, arguments[at]).zero_()
            run()
        ways = {who: partial(again, run) for who, run in ways.items()}
    ms = interleave(ways, rounds)
    results |= {"moye us": 1e3 * ms["moye"], "hand us": 1e3 * ms["hand"], "ratio": ms["moye"] / ms["hand"]}
    return results


def times(names: list[str], path: Path | None, rounds: int) -> int:
    """The table of times and a CSV; how many results are wrong."""
    try:
        import torch
    except ImportError:
        sys.exit("this benchmark needs torch")
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs an NVIDIA GPU")
    from moye.cuda.device import driver
    from moye.testing import interleave

    arch = driver.device_arch(0)

    def prepared(name):
        case = load(name, small=False)
        program, twin = case.compile(arch), case.compile_twin(arch)
        return case, program, twin, case.expected()

    print(f"{torch.cuda.get_device_name()}; microseconds, L2 flushed, medians of {rounds}; ratio: moye's to the twin's")
    print(f"{'pair':15} {'moye':>9} {'hand':>9} {'ratio':>6}  {'registers':>9}  errors")
    rows, wrong = [], 0
    with ThreadPoolExecutor(THREADS) as pool:
        for case, program, twin, expected in pool.map(prepared, names):
            loaded = driver.load(twin.cubin, case.name, 0, formats(case))
            row = contest(torch, driver, interleave, case, expected, loaded, rounds)
            row |= {"moye registers": program.registers, "hand registers": twin.registers}
            rows.append(row)
            bad = [who for who in ("moye", "hand") if not row[f"{who} right"]]
            wrong += len(bad)
            print(f"{case.name:15} {row['moye us']:9.2f} {row['hand us']:9.2f} {row['ratio']:6.3f}  "
                  f"{program.registers:4} {twin.registers:4}  {row['moye error']:.0e}, {row['hand error']:.0e}"
                  f"{'  WRONG: ' + ', '.join(bad) if bad else ''}", flush=True)
            torch.cuda.empty_cache()
    ratios = [row["ratio"] for row in rows]
    print(f"{len(rows)} pairs: moye takes {np.exp(np.mean(np.log(ratios))):.3f} of the twins' time (geometric mean), "
          f"{min(ratios):.3f} to {max(ratios):.3f}; {sum(r > 1.05 for r in ratios)} above 1.05")
    if path:
        with path.open("w", newline="") as file:
            out = csv.DictWriter(file, list(rows[0]))
            out.writeheader()
            out.writerows(rows)
    return wrong


def show(name: str) -> None:
    case = load(name, small=True)
    program, twin = case.compile(), case.compile_twin()
    print(program.source)
    for who, one in (("moye", program), ("twin", twin)):
        print(f"--- {who}: {one.registers} registers")
        print("\n".join(f"{i:4} {line}" for i, line in enumerate(re.findall(r"/\*[0-9a-f]{4}\*/\s+(.*?;)", one.sass))))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", action="append", choices=NAMES, metavar="NAME")
    parser.add_argument("--csv", type=Path, metavar="FILE")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--show", choices=NAMES, metavar="NAME")
    asked = parser.parse_args(argv)
    names = asked.only or NAMES
    if asked.show:
        show(asked.show)
    elif not asked.gpu:
        machine_code(names, asked.csv)
    elif wrong := times(names, asked.csv, asked.rounds):
        sys.exit(f"{wrong} results are wrong")


if __name__ == "__main__":
    main()
