"""Random kernels by the thousand: ``python tests/fuzz/campaign.py SEED COUNT [--fault bounds] [--risk 0.2]``.

In: the first seed and how many programs.  Out: one line for each way to fail, and the exit status 1 if there is one.

>>> python tests/fuzz/campaign.py 1000 5000 --seconds 3600

Programs are judged by the simulator, the interpreter of ``interpreter.py`` and, where g++ is there, the printed CUDA
on the host.  The first program of each way to fail is reduced and written to ``found/``, which a test replays.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cases"), str(HERE.parents[1] / "src")]

from fuzz.answers import Verdict, judge  # noqa: E402
from fuzz.generator import draw  # noqa: E402
from fuzz.host import compiler, with_host  # noqa: E402
from fuzz.programs import Program  # noqa: E402
from fuzz.reduction import reduced, signature  # noqa: E402

FOUND = HERE / "found"
BATCH = 40


def judged(programs: list[Program], folder: Path) -> tuple[list[Verdict], int]:
    """Three answers, and how many programs had the third."""
    return with_host([(p, judge(p)) for p in programs], folder)


def failure(program: Program, folder: Path, host: bool) -> str:
    """How one program fails."""
    verdict = judge(program)
    return signature(with_host([(program, verdict)], folder)[0][0] if host else verdict)


def kept(program: Program, verdict: Verdict) -> str:
    """The text of a file in ``found/``."""
    told = " ".join(verdict.text.split())[:200]
    return f"# seed={program.seed} grid={program.grid} block={program.block}\n# {verdict.kind}: {told}\n" \
           f"{program.source}"


def replayed(path: Path) -> Program:
    """The program that a file in ``found/`` holds."""
    head, _, rest = path.read_text().partition("\n")
    numbers = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", head)}
    source = "".join(line for line in rest.splitlines(keepends=True) if not line.startswith("#"))
    return Program(source, numbers["seed"], numbers["grid"], numbers["block"])


def keep(program: Program, verdict: Verdict, folder: Path, into: Path, seconds: float) -> Path:
    """Reduce a failing program and write it."""
    host = verdict.kind in ("cuda", "compiler") or verdict.text.startswith("print ")
    small = reduced(program, lambda p: failure(p, folder, host), seconds)
    path = into / f"{verdict.kind}_{program.seed}.py"
    path.write_text(kept(small, verdict))
    return path


def campaign(options: argparse.Namespace) -> int:
    start, kinds, features = time.monotonic(), Counter[str](), Counter[str]()
    ways: dict[str, int] = {}
    done = compiled = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for first in range(options.seed, options.seed + options.count, BATCH):
            if options.seconds and time.monotonic() - start > options.seconds:
                break
            programs = [draw(s, options.fault, options.risk)
                        for s in range(first, min(first + BATCH, options.seed + options.count))]
            verdicts, hosted = judged(programs, folder)
            done, compiled = done + len(programs), compiled + hosted
            for program, verdict in zip(programs, verdicts, strict=True):
                kinds[verdict.kind] += 1
                features.update(program.features)
                way = signature(verdict)
                if way and way not in ways:
                    ways[way] = program.seed
                    path = keep(program, verdict, folder, options.into, options.reduce) if options.reduce else ""
                    print(f"{program.seed}: {verdict.kind}: {verdict.text[:160]}  {path}", flush=True)
            for file in folder.iterdir():
                file.unlink()
    took = time.monotonic() - start
    print(f"{done} programs in {took:.0f} s ({done / max(took, 1e-9):.1f} a second), {compiled} on the host"
          f"{'' if compiler() else ' (no g++)'}: {dict(kinds.most_common())}")
    print(f"statements drawn: {dict(features.most_common())}")
    return 1 if ways else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--fault", default="", choices=["", "bounds"], help="put one fault into each program")
    parser.add_argument("--risk", type=float, default=0.01, help="how often an integer may overflow")
    parser.add_argument("--seconds", type=float, default=0, help="stop after this time")
    parser.add_argument("--reduce", type=float, default=60, help="seconds to reduce one program; 0: do not")
    parser.add_argument("--into", type=Path, default=FOUND)
    return campaign(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
