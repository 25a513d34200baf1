"""Kernels of ``moye.kernels`` with one synchronisation left out or made weaker, run in the checking simulator.

    python tests/mutants/library.py reach OUT.json [--draws 6]          # what each job's trace executes, in seconds
    python tests/mutants/library.py reach OUT.json --tests tests/kernels/test_scans.py      # tests are jobs, too
    python tests/mutants/library.py run OUT.json [-k rows] [--tries 3]  # every mutant, by jobs that reach its line

Jobs are the cases of tests/emulator/library.py and calls that its families draw.  A mutant is found by a violation, by
an error, or by a wrong result; one that is not is printed, for a person to say why it computes the same, or to mend
the checker.  Each mutant runs in a process of its own, with its file in place of moye's.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import itertools
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "cases"), str(ROOT / "src")]

import pytest  # noqa: E402

from mutate import Mutant, _Source  # noqa: E402

FOLDERS = ("kernels", "pipelines", "schedulers")
LIMIT = {"reached_by_tests": 600}
"""Seconds for what runs in a process of its own, where they are not 90."""
LEFT_OUT = frozenset({
    "sync_threads", "sync_warp", "cluster_sync", "cluster_arrive", "cluster_wait", "grid_sync", "cp_async_wait",
    "cp_async_commit", "fence", "fence_proxy_async", "fence_mbarrier_init", "barrier_sync", "barrier_arrive",
    "mbarrier_init", "mbarrier_wait", "mbarrier_arrive", "mbarrier_arrive_expect_tx", "mbarrier_expect_tx",
    "cp_async_mbarrier_arrive", "warpgroup_arrive", "warpgroup_wait", "warpgroup_commit_batch", "tma_store_arrive",
    "tma_store_wait", "griddepcontrol_wait", "acquire_tensormap",
    "release_tensormap", "producer_acquire", "producer_commit", "producer_tail", "consumer_wait", "consumer_release",
    "release", "arrived", "wait", "arrive", "commit", "init", "free", "turn", "begin", "refill", "emit"})
"""Statements that synchronise, by the last name of what is called."""
QUIET = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--no-header", "--no-summary")
WHO = ("tid", "thread_idx", "lane_idx", "elect", "warp_idx", "cluster_rank")
"""What a condition names that chooses who does something."""


def files() -> list[Path]:
    return sorted(p for folder in FOLDERS for p in (ROOT / "src" / "moye" / folder).rglob("*.py"))


# --- mutants ---------------------------------------------------------------------------------------------------------


def mutants_of(path: Path) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines."""
    source = _Source(path.read_text())
    tree = ast.parse(source.text)
    found: dict[str, Mutant] = {}
    for node in ast.walk(tree):
        for line, what, text in _changes(source, node):
            found.setdefault(text, Mutant("sync", line, what, text, path.stem))
    return sorted(found.values(), key=lambda mutant: mutant.line)


def _changes(source: _Source, node: ast.AST) -> Iterator[tuple[int, str, str]]:
    """(line, what is done, the whole text) of each change at a node."""
    left_out = LEFT_OUT if isinstance(node, ast.Expr) else {"next"}
    if isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call) and _called(node.value) in left_out:
        yield node.lineno, f"no {source.of(node)}", source.replaced(node, "pass")
    elif isinstance(node, ast.If) and any(word in source.of(node.test) for word in WHO):
        yield node.lineno, f"if {source.of(node.test)}: always", source.replaced(node.test, "True")
    elif isinstance(node, ast.Call):
        for old, new in _weaker(source, node):
            yield node.lineno, f"{source.of(node)}: {source.of(old)} -> {new}", source.replaced(old, new)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _weaker(source: _Source, call: ast.Call) -> Iterator[tuple[ast.AST, str]]:
    """What to put in place of which part of a call."""
    name, arguments = _called(call), call.args
    if name in ("warpgroup_wait", "cp_async_wait", "tma_store_wait") and arguments:
        yield arguments[0], f"{source.of(arguments[0])} + 1"
    if name == "sync_threads":
        yield call.func, source.of(call.func).replace("sync_threads", "sync_warp")
    if name == "cluster_sync":
        yield call.func, source.of(call.func).replace("cluster_sync", "sync_threads")
    if name in ("mbarrier_init", "mbarrier_arrive_expect_tx") and len(arguments) == 3:
        step = 1 if name == "mbarrier_init" else 16
        yield arguments[2], f"{source.of(arguments[2])} + {step}"
        yield arguments[2], f"{source.of(arguments[2])} - {step}"
    if name == "mbarrier_wait" and len(arguments) == 3:
        yield arguments[2], f"({source.of(arguments[2])}) ^ 1"
    if name in ("barrier_sync", "barrier_arrive") and len(arguments) == 2:
        yield arguments[0], f"{source.of(arguments[0])} + 4"
    for keyword in call.keywords:
        if keyword.arg == "order" and isinstance(keyword.value, ast.Constant) and keyword.value.value != "relaxed":
            yield keyword.value, '"relaxed"'
        if keyword.arg == "read" and name == "tma_store_wait":
            yield keyword.value, f"not {source.of(keyword.value)}"


def probe_of(path: Path, line: int) -> str:
    """The file's text with an assertion that fails in place of the innermost statement at a line.

    A job that is right with it traces the statement, but no thread executes it.
    """
    source = _Source(path.read_text())
    here = [node for node in ast.walk(ast.parse(source.text)) if isinstance(node, ast.stmt)
            and node.lineno <= line <= (node.end_lineno or 0) and not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return source.replaced(max(here, key=lambda node: node.lineno), "assert mo.block_idx().x > 1000000")


# --- jobs ------------------------------------------------------------------------------------------------------------


def job_names(draws: int) -> list[str]:
    from emulator import library

    return [f"case {i}" for i in range(len(library.CASES))] + [
        f"draw {family} {seed}" for seed in range(draws) for family in library.FAMILIES]


class _Outcomes:
    """A plugin of pytest: what the first test that fails raises, and the lines of each test."""

    def __init__(self, traced: bool = False, seconds: float = float("inf")) -> None:
        self.traced, self.until, self.found = traced, time.monotonic() + seconds, dict[str, dict[str, Any]]()
        self.error: Exception | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        if time.monotonic() > self.until:
            pytest.skip("there is no time left")
        lines, start, verdict = _Lines(), time.perf_counter(), "right"
        if self.traced:
            sys.settrace(lines)
        try:
            return (yield)
        except Exception as error:
            self.error, verdict = self.error or error, "wrong"
            raise
        finally:
            sys.settrace(None)
            self.found[f"test {item.nodeid}"] = lines.record(verdict, time.perf_counter() - start)


def run_test(node: str) -> str:
    outcomes = _Outcomes()
    pytest.main([*QUIET, "-x", node], [outcomes])
    if outcomes.error is not None:
        raise outcomes.error
    return ""


def run_job(name: str) -> str:
    """Run a job in the simulator; what is wrong with its results, if something is."""
    import numpy as np

    import moye as mo
    from emulator import library
    from emulator.draw import Draw

    kind, *rest = name.split()
    if kind == "test":
        return run_test(rest[0])
    if kind == "case":
        for got, want, allowed in library.CASES[int(rest[0])].run(np.random.default_rng(0)):
            if not library.error_of(got, want) <= allowed:
                return "wrong"
        return ""
    draw = Draw(int(rest[1]), rest[0])
    blocks = draw.one(132, 132, 132, 5, 1)
    with mock.patch.object(mo, "multiprocessors", lambda array: blocks), np.errstate(all="ignore"):
        try:
            library.FAMILIES[rest[0]](draw)
            draw.intact()
        except AssertionError:
            return "wrong"
    return ""


def verdict_of(job: str, thorough: bool = False) -> str:
    """``right``, ``wrong``, or the code or the class of an error; ``thorough``: in all schedules."""
    import moye as mo

    reports: list[Any] = []
    try:
        with mo.checking(lints=False, each=reports.append) if thorough else nullcontext():
            verdict = run_job(job) or "right"
        found = [finding for report in reports for finding in report.findings]
        return f"{found[0].code}: {found[0].message}" if found else verdict
    except Exception as error:                          # whatever a wrong program may raise
        return f"{getattr(error, 'code', None) or type(error).__name__}: {str(error).splitlines()[0][:150]}"


class _Lines:
    """The lines that run in files of moye's kernels, as a tracer of ``sys.settrace``."""

    def __init__(self) -> None:
        self.found: dict[str, set[int]] = {}
        self.wanted = {str(path): str(path.relative_to(ROOT)) for path in files()}

    def __call__(self, frame: Any, event: str, _: object) -> Any:
        if (name := self.wanted.get(frame.f_code.co_filename)) is None:
            return None
        lines = self.found.setdefault(name, set())

        def line(frame: Any, event: str, _: object) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return line
        return line


    def record(self, verdict: str, seconds: float) -> dict[str, Any]:
        return {"verdict": verdict, "seconds": seconds,
                "lines": {name: sorted(found) for name, found in self.found.items()}}


def reached(job: str) -> dict[str, Any]:
    """A job as it is: its verdict, its seconds, and the lines that run while it is traced."""
    lines, start = _Lines(), time.perf_counter()
    sys.settrace(lines)
    try:
        verdict = verdict_of(job)
    finally:
        sys.settrace(None)
    return lines.record(verdict, time.perf_counter() - start)


def reached_by_tests(path: str, seconds: float) -> dict[str, Any]:
    """The same of each test of a file, as long as there is time."""
    outcomes = _Outcomes(True, seconds)
    pytest.main([*QUIET, path], [outcomes])
    return outcomes.found


class _Replaced:
    """An importer of one module from another file."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path

    def find_spec(self, name: str, *_: object) -> Any:
        return importlib.util.spec_from_file_location(name, self.path) if name == self.name else None


def mutated(path: Path, text: str, job: str, thorough: bool) -> str:
    """The verdict of a job with this text in place of a file; in a process that has not imported it."""
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    assert name not in sys.modules, f"{name} was imported before its mutant"
    with tempfile.TemporaryDirectory(prefix="moye-mutant-") as folder:
        other = Path(folder) / path.name
        other.write_text(text)
        sys.meta_path.insert(0, _Replaced(name, other))
        return verdict_of(job, thorough)


# --- processes -------------------------------------------------------------------------------------------------------


def _sent(pipe: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    if "test" not in function.__name__ and not any(str(x).startswith("test ") for x in arguments):
        os.environ["MOYE_ARCH"] = "sm_90a"              # tests choose themselves
    pipe.send(function(*arguments))


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a process forked from this one; a text where it does not."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_sent, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(LIMIT.get(function.__name__, 90)) else "timeout"
    except EOFError:
        return "crash"
    finally:
        process.kill()
        process.join()


def reach(options: argparse.Namespace) -> None:
    table = json.loads(options.table.read_text()) if options.table.exists() else {}
    for path in options.tests:
        table |= apart(reached_by_tests, path, options.seconds)
        options.table.write_text(json.dumps(table))
    for job in () if options.tests else job_names(options.draws):
        found = apart(reached, job)
        table[job] = found if isinstance(found, dict) else {"verdict": found, "seconds": 90, "lines": {}}
        print(f"{table[job]['seconds']:6.1f} {job}: {table[job]['verdict']}", flush=True)
        options.table.write_text(json.dumps(table))


def given(jobs: list[str]) -> dict[str, Any]:
    """A table of jobs that may reach every line, in this order."""
    class Every(list[int]):
        def __contains__(self, line: object) -> bool:
            return True

    everywhere = {str(path.relative_to(ROOT)): Every() for path in files()}
    return {job: {"verdict": "right", "seconds": i, "lines": everywhere} for i, job in enumerate(jobs)}


def by_speed(table: dict[str, Any], name: str, line: int) -> list[str]:
    """The right jobs that reach a line, the fastest ones of each family before others of it."""
    jobs = sorted((record["seconds"], job) for job, record in table.items()
                  if record["verdict"] == "right" and line in record["lines"].get(name, ()))
    seen = Counter[str]()
    ranked = []
    for seconds, job in jobs:
        seen[family := job.rpartition(" ")[0]] += 1
        ranked.append((seen[family] // 2, seconds, job))
    return [job for _, _, job in sorted(ranked)]


class Executing:
    """Of the jobs that reach a line, those in which threads execute it, one after the other as they are asked for."""

    def __init__(self, path: Path, line: int, candidates: list[str]) -> None:
        self.path, self.line, self.found, self.left = path, line, list[str](), list(candidates)

    def __iter__(self) -> Iterator[str]:
        yield from self.found
        while self.left:
            job = self.left.pop(0)
            if apart(mutated, self.path, probe_of(self.path, self.line), job, False) != "right":
                self.found.append(job)
                yield job


def judged(path: Path, mutant: Mutant, jobs: Iterable[str]) -> str:
    """The verdict of plain launches of three jobs, or else of all schedules of the last of them."""
    last = None
    for last in itertools.islice(jobs, 3):
        if (verdict := apart(mutated, path, mutant.text, last, False)) != "right":
            return str(verdict)
    if last is None:
        return "UNREACHED"
    verdict = apart(mutated, path, mutant.text, last, True)
    return "SURVIVES" if verdict == "right" else str(verdict)


def run(options: argparse.Namespace) -> None:
    import ml_dtypes  # noqa: F401

    import moye.sim.machine.machine  # noqa: F401       what no mutant changes, imported once

    table = given(options.jobs) if options.jobs else json.loads(options.table.read_text())
    start, counts = time.monotonic(), Counter[str]()
    for path in files():
        name, jobs = str(path.relative_to(ROOT)), dict[int, Executing]()
        if not any(word in name for word in options.k) or any(word in name for word in options.without):
            continue
        for mutant in mutants_of(path):
            if time.monotonic() - start > options.seconds:
                print("no time for the rest", dict(counts))
                return
            if mutant.line not in jobs:
                jobs[mutant.line] = Executing(path, mutant.line, by_speed(table, name, mutant.line)[:options.tries])
            verdict = judged(path, mutant, jobs[mutant.line])
            counts[verdict.split(":")[0]] += 1
            what = " ".join(mutant.what.split())[:120]
            print(f"{verdict[:70]} | {name}:{mutant.line} {what} | {', '.join(jobs[mutant.line].found)}", flush=True)
    print(dict(counts))


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("what", choices=("reach", "run"))
    parser.add_argument("table", type=Path)
    parser.add_argument("--draws", type=int, default=6, help="calls of each family")
    parser.add_argument("--tests", nargs="*", default=[], help="files of tests, instead of cases and draws")
    parser.add_argument("--jobs", nargs="*", default=[], help="jobs instead of those of the table")
    parser.add_argument("-k", nargs="*", default=[""], help="files whose names contain one of these")
    parser.add_argument("--without", nargs="*", default=[], help="files left out")
    parser.add_argument("--tries", type=int, default=4, help="jobs of which it is asked whether they execute a line")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    {"reach": reach, "run": run}[options.what](options)


if __name__ == "__main__":
    main()
