"""Programs of the fuzzer in the emulator, against the interpreter: what NVRTC makes of the printed CUDA, bit for bit.

    python tests/emulator/programs.py 1 200             # first seed, programs; --seconds 300 stops earlier

A program counts where the simulator finds nothing in it and the interpreter knows every bit.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tests" / "cases")]

from emulator.emulated import emulated  # noqa: E402
from fuzz.answers import differences, for_moye, judge, kernel_of  # noqa: E402
from fuzz.generator import draw  # noqa: E402
from fuzz.programs import Program, arguments  # noqa: E402


def told(program: Program, seed: int = 0) -> str | None:
    """What differs, empty if nothing does; None for a program that does not count."""
    verdict = judge(program)
    if verdict.kind != "clean" or verdict.memories is None:
        return None
    items = arguments(program)
    given = for_moye(items)
    with emulated(seed):
        try:
            kernel_of(program)[program.grid, program.block](*given)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "\n".join(differences(items, verdict.memories, given, program.parameters)[:5])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first", type=int)
    parser.add_argument("programs", type=int)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    start, ran, wrong = time.perf_counter(), 0, 0
    for seed in range(options.first, options.first + options.programs):
        if time.perf_counter() - start > options.seconds:
            break
        found = told(draw(seed), seed)
        ran += found is not None
        if found:
            wrong += 1
            print(f"program {seed}: {found}", flush=True)
    print(f"{ran} programs ran, {wrong} differ, {time.perf_counter() - start:.0f} s")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
