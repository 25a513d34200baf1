"""Do the fuzzers see faults in moye itself?  ``python tests/fuzz/mutants.py [--programs 120] [--seconds 20]``.

In: ``mutant_list.py``.  Out: a table of who was killed by which fuzzer and how, and who lives; 1 if fewer than 95 %.

>>> python tests/fuzz/mutants.py --only fold.py

Each mutant is a copy of src/ with one text changed, judged in a process of its own by the fuzzers that suit its file,
until one of them fails.  What does not depend on the change is computed once.  First all fuzzers judge moye as it is.
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
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cases"), *([] if "--judge" in sys.argv else [str(SRC)])]

from fuzz import fuzzers  # noqa: E402
from fuzz.mutant_list import MUTANTS  # noqa: E402

Mutant = tuple[str, str, str]
WANTED, PROGRAMS, SECONDS = 0.95, 160, 16.0


def processor_time() -> float:
    """Seconds of the processor that this process and those that it waited for took."""
    took = os.times()
    return took.user + took.system + took.children_user + took.children_system


def mutated(file: str, old: str, new: str, folder: Path) -> Path:
    """A source tree with the change: links to all other files."""
    tree = folder / "src"
    shutil.copytree(SRC, tree, copy_function=os.link)
    if file:
        path = tree / "moye" / file
        text = path.read_text()
        if text.count(old) != 1:
            raise ValueError(f"{file} has {text.count(old)} times {old!r}")
        path.unlink()
        path.write_text(text.replace(old, new))
    return tree


def verdict_of(mutant: Mutant, known: Path, seconds: float, names: tuple[str, ...] = ()) -> tuple[str, float]:
    """How the mutant fails, if it does, and what of the processor's time that took."""
    chosen = names or fuzzers.suited(mutant[0])
    with tempfile.TemporaryDirectory(dir=known.parent) as name:
        tree = mutated(*mutant, Path(name))
        command = [sys.executable, str(HERE / "mutants.py"), "--judge", str(known), "--seconds", str(seconds),
                   "--fuzzers", ",".join(chosen), "--only", mutant[0]]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=10 * seconds + 60, cwd=name,
                                 env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"})
        except subprocess.TimeoutExpired:
            return "hang", 0.0
        if run.returncode < 0:  # a kernel that writes beside its arrays, on the host
            return "crash of the host's program", 0.0
        if run.returncode:      # before any fuzzer ran
            return f"broken: {(run.stderr.strip().splitlines() or [str(run.returncode)])[-1][:60]}", 0.0
        how, _, took = run.stdout.strip().rpartition("|")
        return how, float(took)


def line(how: str, took: float, file: str, old: str, new: str) -> str:
    old, new = (" ".join(text.split())[:44] for text in (old, new))
    return f"{how[:34] or 'LIVES':34} {took:5.1f} {file:22} {old:44} -> {new}"


def table(chosen: list[Mutant], programs: int, seconds: float, jobs: int, kept: Path | None) -> float:
    """Print one line a mutant; how many are killed, of one."""
    start, used = time.monotonic(), processor_time()
    killed, total = Counter[str](), Counter(file for file, _, _ in chosen)
    with tempfile.TemporaryDirectory() as name:
        known = Path(name) / "corpus.pickle"
        found = pickle.loads(kept.read_bytes()) if kept and kept.exists() else fuzzers.learn(programs, Path(name))
        known.write_bytes(pickle.dumps(found))
        if kept and not kept.exists():
            kept.write_bytes(known.read_bytes())
        print(f"{len(found.kernels)} kernels in {processor_time() - used:.0f} s of the processor", flush=True)
        names = tuple(dict.fromkeys(name for file, _, _ in chosen for name in fuzzers.suited(file)))
        with ThreadPoolExecutor(jobs) as pool:
            sound = pool.submit(verdict_of, ("", "", ""), known, 10 * seconds, names)
            results = pool.map(lambda m: verdict_of(m, known, seconds), chosen)
            for mutant, (how, took) in zip(chosen, results, strict=True):
                killed[mutant[0]] += bool(how)
                print(line(how, took, *mutant), flush=True)
            how, took = sound.result()
    print(line(how, took, "(as it is)", "", ""))
    if how:
        raise SystemExit(f"a fuzzer fails without any mutant: {how}")
    for file in total:
        print(f"{file:24} {killed[file]:3} of {total[file]:3}")
    rate = killed.total() / len(chosen)
    print(f"{killed.total()} of {len(chosen)} mutants killed ({100 * rate:.0f} %) in {time.monotonic() - start:.0f} s, "
          f"{processor_time() - used:.0f} s of the processor")
    return rate


def judge(path: Path, seconds: float, names: tuple[str, ...], everything: bool) -> str:
    """In a mutant's process: how it fails, and what time that took."""
    how = fuzzers.judge(pickle.loads(path.read_bytes()), names, everything, lambda: processor_time() > seconds)
    return f"{how}|{processor_time():.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=PROGRAMS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of one processor for one mutant, at most")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--corpus", type=Path, default=None, help="a file that keeps the programs for the next time")
    parser.add_argument("--only", default="", help="a part of the file's name or of the text")
    parser.add_argument("--judge", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--fuzzers", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge is not None:
        everything = not options.only.startswith(("cuda/", "passes/"))
        print(judge(options.judge, options.seconds, tuple(options.fuzzers.split(",")), everything))
        return 0
    chosen = [m for m in MUTANTS if options.only in m[0] or options.only in m[1]]
    return 0 if table(chosen, options.programs, options.seconds, options.jobs, options.corpus) >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
