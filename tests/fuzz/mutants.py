"""Do the fuzzers see faults in moye itself?  ``python tests/fuzz/mutants.py [--programs 120] [--seconds 20]``.

In: ``mutant_list.py``.  Out: a table of who was killed by which program and how, and who lives; 1 if fewer than 95 %.

>>> python tests/fuzz/mutants.py --only fold.py

Each mutant is a copy of src/ with one text changed, judged in a process of its own by programs whose right answers
were computed once.  CUDA is compiled for the host only where a mutant prints something else.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), *([] if "--judge" in sys.argv else [str(SRC)])]

from fuzz.generator import draw  # noqa: E402
from fuzz.mutant_list import MUTANTS  # noqa: E402
from fuzz.programs import Program  # noqa: E402

FIRST, BATCH, WANTED = 20_000, 6, 0.95


@dataclass
class Known:
    """A program, what the interpreter says of it, and the CUDA that is printed today."""

    program: Program
    codes: set[str]
    memories: list
    printed: str


def drawn(count: int) -> list[Program]:
    """Right programs; of every eight one with an access beside a tensor and two where an integer may overflow."""
    kinds = [("bounds", 0.0) if i % 8 == 5 else ("", 0.1) if i % 4 == 3 else ("", 0.01) for i in range(count)]
    return [draw(FIRST + i, fault, risk) for i, (fault, risk) in enumerate(kinds)]


def corpus(count: int, folder: Path) -> list[Known]:
    """The programs that moye as it is judges rightly."""
    from fuzz import interpreter
    from fuzz.answers import against
    from fuzz.host import with_host
    from fuzz.programs import arguments
    from fuzz.scalars import Unclear

    known, verdicts = [], []
    for program in drawn(count):
        items = arguments(program)
        try:
            codes, memories = interpreter.run(program.source, program.name, items, program.grid, program.block)
        except (Unclear, RecursionError, ZeroDivisionError):
            continue
        verdict = against(program, items, codes, memories)
        known.append(Known(program, codes, memories, getattr(verdict.printed, "source", "")))
        verdicts.append((program, verdict))
    final, _ = with_host(verdicts, folder)
    return [k for k, v in zip(known, final, strict=True) if not v.failed]


def judge(path: Path, seconds: float, all_run: bool) -> str:
    """In a mutant's process: how the first program fails that does, or nothing.

    A right program whose CUDA is what it was is simulated only where the simulator may be another (``all_run``).
    """
    from fuzz.answers import against, for_moye, kernel_of, printed_of
    from fuzz.programs import arguments

    end, waiting = time.process_time() + seconds, []
    with tempfile.TemporaryDirectory() as name:
        for one in pickle.loads(path.read_bytes()):
            if time.process_time() > end:
                break
            program, items = one.program, arguments(one.program)
            if not all_run and not one.codes:
                printed = printed_of(kernel_of(program), for_moye(items), program)
                if getattr(printed, "source", "") == one.printed:
                    continue
            verdict = against(program, items, one.codes, one.memories)
            if verdict.failed:
                return f"{program.seed} {verdict.kind}"
            if isinstance(verdict.printed, Exception):
                return f"{program.seed} crash"
            if verdict.kind == "clean" and verdict.printed.source != one.printed:
                waiting.append((program, verdict))
            if len(waiting) == BATCH and (found := _hosted(waiting, Path(name))):
                return found
            waiting = waiting if len(waiting) < BATCH else []
        return _hosted(waiting, Path(name))


def _hosted(waiting: list, folder: Path) -> str:
    from fuzz.host import with_host

    verdicts, _ = with_host(waiting, folder)
    return next((f"{p.seed} {v.kind}" for (p, _), v in zip(waiting, verdicts, strict=True) if v.failed), "")


def mutated(file: str, old: str, new: str, folder: Path) -> Path:
    """A source tree with the change: links to all other files."""
    tree = folder / "src"
    shutil.copytree(SRC, tree, copy_function=os.link)
    path = tree / "moye" / file
    text = path.read_text()
    if text.count(old) != 1:
        raise ValueError(f"{file} has {text.count(old)} times {old!r}")
    path.unlink()
    path.write_text(text.replace(old, new))
    return tree


def verdict_of(mutant: tuple[str, str, str], known: Path, seconds: float) -> str:
    with tempfile.TemporaryDirectory(dir=known.parent) as name:
        tree = mutated(*mutant, Path(name))
        try:
            run = subprocess.run([sys.executable, str(HERE / "mutants.py"), "--judge", str(known), "--seconds",
                                  str(seconds), "--only", mutant[0]], capture_output=True, text=True,
                                 timeout=20 * seconds + 60,
                                 env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"})
        except subprocess.TimeoutExpired:
            return "hang"
        return run.stdout.strip() if not run.returncode else f"broken: {run.stderr.strip().splitlines()[-1][:80]}"


def table(chosen: list[tuple[str, str, str]], programs: int, seconds: float, jobs: int, kept: Path | None) -> float:
    """Print one line a mutant; how many are killed, of one."""
    start, killed = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as name:
        known = Path(name) / "corpus.pickle"
        found = pickle.loads(kept.read_bytes()) if kept and kept.exists() else corpus(programs, Path(name))
        known.write_bytes(pickle.dumps(found))
        if kept and not kept.exists():
            kept.write_bytes(known.read_bytes())
        print(f"{len(found)} programs in {time.monotonic() - start:.0f} s", flush=True)
        with ThreadPoolExecutor(jobs) as pool:
            results = pool.map(lambda m: verdict_of(m, known, seconds), chosen)
            for (file, old, new), how in zip(chosen, results, strict=True):
                killed += bool(how)
                print(f"{how or 'LIVES':18} {file:22} {' '.join(old.split())[:50]:50} -> "
                      f"{' '.join(new.split())[:50]}", flush=True)
    print(f"{killed} of {len(chosen)} mutants killed in {time.monotonic() - start:.0f} s")
    return killed / len(chosen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=120)
    parser.add_argument("--seconds", type=float, default=12, help="of one processor for one mutant")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--corpus", type=Path, default=None, help="a file that keeps the programs for the next time")
    parser.add_argument("--only", default="", help="a part of the file's name or of the text")
    parser.add_argument("--judge", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge is not None:
        print(judge(options.judge, options.seconds, options.only.startswith("sim/")))
        return 0
    chosen = [m for m in MUTANTS if options.only in m[0] or options.only in m[1]]
    return 0 if table(chosen, options.programs, options.seconds, options.jobs, options.corpus) >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
