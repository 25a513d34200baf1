"""All mutants of the correct kernels and their verdicts: what the simulator says, and what a GPU makes of them.

    python tests/mutants/survey.py simulator [-k SUBJECT] [--kinds sync,stage]      # writes verdicts.json
    python tests/mutants/survey.py gpu                                              # adds the GPU's results
    python tests/mutants/survey.py table

Every mutant runs in a process of its own with a time limit.  A mutant that would hang a GPU (the simulator reports a
deadlock) is not run there.  On the GPU a mutant changes results if an output differs in one bit from the correct
kernel's in any of 20 launches, or if it is wrong by float64.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from child import send
from mutate import Mutant, mutants
from subjects import SUBJECTS

HERE = Path(__file__).parent
KEPT = HERE / "verdicts.json"
LIMIT = {"simulator": 60, "gpu": 30}
HANGS = ("F4", "G4", "C4", "C5", "timeout")
Record = dict[str, Any]
PROCESSES = multiprocessing.get_context("forkserver")
PRELOADED = ["numpy", "ml_dtypes", "moye.sim.machine.machine", "moye.cuda.printing.printer",
             "moye.cuda.compiler.nvrtc", "child"]
"""Nothing that is mutated, and nothing that imports what is."""


def all_mutants(pattern: str = "", kinds: tuple[str, ...] = ()) -> list[tuple[str, Mutant]]:
    """(subject, mutant) of every subject whose name contains the pattern."""
    found = []
    for name, subject in SUBJECTS.items():
        if pattern in name:
            text = subject.path.read_text()
            found += [(name, m) for m in mutants(text, subject.functions) if not kinds or m.kind in kinds]
    return found


def prepare(where: str) -> None:
    """The server that processes are forked from: what they need is imported once, and each computes on one core."""
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    PROCESSES.set_forkserver_preload([*PRELOADED, *(["torch"] if where == "gpu" else [])])


def run(where: str, subject: str, mutant: str) -> Record:
    """The verdict of one mutant, from its own process."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=send, args=(theirs, where, subject, mutant))
    process.start()
    theirs.close()
    try:
        if not ours.poll(LIMIT[where]):
            return {"verdict": "timeout", "code": "timeout"}
        record: Record = ours.recv()
        return record
    except EOFError:
        return {"verdict": "crash", "code": "crash"}
    finally:
        process.kill()
        process.join()


def simulate(chosen: list[tuple[str, Mutant]], jobs: int) -> dict[str, dict[str, Record]]:
    with ThreadPoolExecutor(jobs) as pool:
        verdicts = pool.map(lambda item: run("simulator", item[0], item[1].name), chosen)
        table: dict[str, dict[str, Record]] = {}
        for (subject, mutant), verdict in zip(chosen, verdicts, strict=True):
            table.setdefault(subject, {})[mutant.name] = {"simulator": verdict}
    return table


def on_gpu(table: dict[str, dict[str, Record]], jobs: int, pattern: str, seconds: float, missing: bool) -> int:
    """Add what the GPU does with every mutant that can be launched there; how many were left out for lack of time."""
    chosen = [(subject, name, record) for subject, records in table.items() if pattern in subject
              for name, record in records.items()
              if _launchable(record["simulator"]) and not (missing and "gpu" in record)]
    chosen.sort(key=lambda item: not item[1].startswith("sync"))
    subjects, end = sorted({subject for subject, _, _ in chosen}), time.monotonic() + seconds
    with ThreadPoolExecutor(jobs) as pool:
        correct = dict(zip(subjects, pool.map(lambda s: run("gpu", s, ""), subjects), strict=True))
        results = pool.map(lambda i: run("gpu", i[0], i[1]) if time.monotonic() < end else None, chosen)
        left = 0
        for (subject, _, record), result in zip(chosen, results, strict=True):
            if result is None:
                left += 1
            else:
                record["gpu"] = _compared(result, correct[subject])
    return left


def _known(record: Record | None) -> bool:
    """Whether the simulator has judged a mutant."""
    return record is not None and record["simulator"]["verdict"] not in ("crash", "timeout")


def _launchable(verdict: Record) -> bool:
    return verdict["verdict"] != "rejected" and verdict.get("code") not in HANGS


def _compared(result: Record, correct: Record) -> Record:
    if correct["verdict"] != "right":
        raise SystemExit(f"the correct kernel is {correct}")
    if result["verdict"] != "right":
        return {"changed": True, "how": result["verdict"]}
    changed = result["digests"] != correct["digests"]
    return {"changed": changed, "how": "other bits" if changed else "the same bits"}


def summary(table: dict[str, dict[str, Record]]) -> str:
    """Counts per kind, then every mutant that the simulator calls right although the GPU's results changed."""
    lines, missed = [], []
    for kind in ("sync", "predicate", "stage", "layout"):
        rows = [(s, n, r) for s, records in table.items() for n, r in records.items() if n.startswith(kind)]
        verdicts = Counter(r["simulator"]["verdict"] for _, _, r in rows)
        changed = [row for row in rows if row[2].get("gpu", {}).get("changed")]
        silent = [row for row in changed if row[2]["simulator"]["verdict"] == "right"]
        lines.append(f"{kind:10} {len(rows):4} mutants: " + ", ".join(f"{n} {v}" for v, n in sorted(verdicts.items()))
                     + f"; {len(changed)} change results on the GPU, {len(silent)} of them called clean and right")
        missed += silent
    lines += (f"MISSED {subject} {name}: {record['gpu']['how']}" for subject, name, record in missed)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("what", choices=("simulator", "gpu", "table"))
    parser.add_argument("-k", default="", help="subjects whose name contains this")
    parser.add_argument("-j", type=int, default=2, help="processes at a time")
    parser.add_argument("--kinds", default="", help="sync,predicate,stage,layout; all by default")
    parser.add_argument("--seconds", type=float, default=600, help="start nothing on the GPU after so long")
    parser.add_argument("--missing", action="store_true", help="only what has no result yet")
    parser.add_argument("-o", type=Path, default=KEPT)
    options = parser.parse_args()
    prepare(options.what)
    table = json.loads(options.o.read_text()) if options.o.exists() else {}
    if options.what == "simulator":
        kinds = tuple(filter(None, options.kinds.split(",")))
        chosen = [(subject, mutant) for subject, mutant in all_mutants(options.k, kinds)
                  if not (options.missing and _known(table.get(subject, {}).get(mutant.name)))]
        for subject, records in simulate(chosen, options.j).items():
            for name, record in records.items():
                table.setdefault(subject, {}).setdefault(name, {}).update(record)
        table = {subject: {m.name: table[subject][m.name] for s, m in all_mutants(subject)
                           if s == subject and m.name in table[subject]} for subject in table}
    elif options.what == "gpu":
        left = on_gpu(table, options.j, options.k, options.seconds, options.missing)
        print(f"{left} mutants not run on the GPU for lack of time")
    options.o.write_text(json.dumps(table, indent=1) + "\n")
    print(summary(table))


if __name__ == "__main__":
    main()
