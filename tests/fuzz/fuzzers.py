"""What judges a mutant, in its own process: each fuzzer gives the ways in which it fails, "" after a step that did not.

In: what was known before the change.  Out: one text a step.

>>> next(FUZZERS["facts"](known, everything=False))

Right answers, drawn programs and the text that is printed today are computed once, by ``learn``.
"""

from __future__ import annotations

import inspect
import itertools
import os
import pickle
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.generator import draw
from fuzz.programs import Program

FIRST = 23_000
BATCHES = (2, 4, 8, 16)
DEEP = 100_000      # the IR refers to its own ops, many deep


@dataclass
class Known:
    """A program, what the interpreter says of it, the CUDA that is printed today, and the pickled IR of that."""

    program: Program
    codes: set[str]
    memories: list[Any]
    printed: str
    traced: bytes = b""


@dataclass
class Corpus:
    """Random kernels, and the printed text of the programs that are drawn as IR."""

    kernels: list[Known] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    tiles: list[str] = field(default_factory=list)


Fuzzer = Callable[[Corpus, bool], Iterator[str]]


# --- what is known before --------------------------------------------------------------------------------------------


def drawn(count: int) -> list[Program]:
    """Right programs; of every eight one with an access beside a tensor and two where an integer may overflow."""
    kinds = [("bounds", 0.0) if i % 8 == 5 else ("", 0.1) if i % 4 == 3 else ("", 0.01) for i in range(count)]
    return [draw(FIRST + i, fault, risk) for i, (fault, risk) in enumerate(kinds)]


def learn(count: int, folder: Path, texts: int = 1200, tiles: int = 300) -> Corpus:
    """The programs that moye as it is judges rightly."""
    from cuda.printing.test_printer_fuzz import printed
    from fuzz import interpreter, irs
    from fuzz.answers import against
    from fuzz.host import with_host
    from fuzz.programs import arguments

    known, verdicts = [], []
    for program in drawn(count):
        items = arguments(program)
        try:
            codes, memories = interpreter.run(program.source, program.name, items, program.grid, program.block)
        except Exception:       # unclear, or no program at all
            continue
        verdict = against(program, items, codes, memories)
        known.append(Known(program, codes, memories, getattr(verdict.printed, "source", "")))
        verdicts.append((program, verdict))
    final, _ = with_host(verdicts, folder)
    kept = [k for k, v in zip(known, final, strict=True) if not v.failed]
    for one in kept:
        one.traced = _traced(one.program)
    return Corpus(kept, [text.source for _, text in printed(texts)],
                  [irs.printed(irs.draw(seed)).source for seed in range(tiles)])


def _traced(program: Program) -> bytes:
    """Nothing of what tracing refuses."""
    from fuzz.answers import for_moye, kernel_of
    from fuzz.programs import arguments
    from moye.errors import MoyeError

    sys.setrecursionlimit(DEEP)
    try:
        return pickle.dumps(kernel_of(program).trace(*for_moye(arguments(program)), block=program.block))
    except MoyeError:
        return b""


# --- kernels ---------------------------------------------------------------------------------------------------------


def kernels(corpus: Corpus, everything: bool) -> Iterator[str]:
    """Random kernels: simulated (``everything``: also where the CUDA is what it was), and run on the host where not."""
    from fuzz.answers import against, for_moye, kernel_of, printed_of
    from fuzz.programs import arguments

    waiting: list[tuple[Program, Any]] = []
    sizes = itertools.chain(BATCHES, itertools.repeat(BATCHES[-1]))
    size = next(sizes)
    with tempfile.TemporaryDirectory() as name:
        for one in corpus.kernels:
            program, items = one.program, arguments(one.program)
            if not everything and not one.codes:
                text = printed_of(kernel_of(program), for_moye(items), program)
                if getattr(text, "source", "") == one.printed:
                    yield ""
                    continue
            verdict = against(program, items, one.codes, one.memories)
            if verdict.failed or isinstance(verdict.printed, Exception):
                yield f"{program.seed} {verdict.kind if verdict.failed else 'crash'}"
            if verdict.kind == "clean" and verdict.printed.source != one.printed:
                waiting.append((program, verdict))
            if len(waiting) == size:
                yield _hosted(waiting, Path(name))
                waiting, size = [], next(sizes)
            yield ""
        yield _hosted(waiting, Path(name))


def traced(corpus: Corpus, everything: bool) -> Iterator[str]:
    """The same, where the text is another or a fault is to be found."""
    yield from kernels(corpus, False)


def printed_kernels(corpus: Corpus, everything: bool) -> Iterator[str]:
    """The same for faults of the printer alone: nothing is traced or simulated."""
    from fuzz.answers import Verdict
    from moye.cuda.printing.printer import print_kernel

    sys.setrecursionlimit(DEEP)
    waiting: list[tuple[Program, Any]] = []
    sizes = itertools.chain(BATCHES, itertools.repeat(BATCHES[-1]))
    size = next(sizes)
    with tempfile.TemporaryDirectory() as name:
        for one in corpus.kernels:
            if one.codes or not one.traced:
                continue
            text = print_kernel(pickle.loads(one.traced))
            if text.source != one.printed:
                waiting.append((one.program, Verdict("clean", "", text, one.memories)))
            if len(waiting) == size:
                yield _hosted(waiting, Path(name))
                waiting, size = [], next(sizes)
            yield ""
        yield _hosted(waiting, Path(name))


def simulated(corpus: Corpus, everything: bool) -> Iterator[str]:
    """The same for faults of the simulator alone: nothing is traced or printed."""
    from fuzz.answers import against
    from fuzz.programs import arguments

    sys.setrecursionlimit(DEEP)
    for one in corpus.kernels:
        if one.traced:
            verdict = against(one.program, arguments(one.program), one.codes, one.memories, one.traced)
            yield f"{one.program.seed} {verdict.kind}" if verdict.failed else ""


def _hosted(waiting: list[tuple[Program, Any]], folder: Path) -> str:
    from fuzz.host import with_host

    verdicts, _ = with_host(waiting, folder)
    return next((f"{p.seed} {v.kind}" for (p, _), v in zip(waiting, verdicts, strict=True) if v.failed), "")


# --- the others ------------------------------------------------------------------------------------------------------


def _cases(*functions: Callable[..., None]) -> Iterator[str]:
    """Tests of every parameter that their marks name, in an order of their own."""
    calls: list[tuple[Callable[..., None], dict[str, Any]]] = []
    for function in functions:
        marks = [m for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
        names = [(m.args[0],) if isinstance(m.args[0], str) else m.args[0] for m in marks]
        assert set(itertools.chain(*names)) == set(inspect.signature(function).parameters), function
        rows = [[row if len(each) > 1 else (row,) for row in m.args[1]] for each, m in zip(names, marks, strict=True)]
        calls += [(function, dict(zip(itertools.chain(*names), itertools.chain(*values), strict=True)))
                  for values in itertools.product(*rows)]
    random.Random(1).shuffle(calls)
    for function, arguments in calls:
        try:
            function(**arguments)
        except Exception as error:
            yield f"{' '.join(map(str, arguments.values()))} {type(error).__name__}"
        yield ""


def facts(corpus: Corpus, everything: bool) -> Iterator[str]:
    """Every fact and rule of folding, at the ends of every dtype."""
    from ir import test_facts as t

    yield from _cases(t.test_facts_of_one_operand, t.test_facts_of_conversions, t.test_folding_makes_no_overflow,
                      t.test_an_overflow_is_never_taken_for_impossible)
    yield from _cases(t.test_facts_and_folds_of_one_operation, t.test_facts_and_folds_of_chains)


def scalars(corpus: Corpus, everything: bool) -> Iterator[str]:
    """The simulator's arithmetic on drawn numbers, and its conversions of every pattern."""
    from sim.values import test_conversions as c
    from sim.values import test_overflow as o
    from sim.values import test_scalars as t

    os.environ["MOYE_CHECK"] = "0"
    try:
        yield from _cases(o.test_overflow_of_drawn_pairs, o.test_overflow_of_all_pairs_of_edges)
        yield from _cases(t.test_integer_arithmetic, t.test_comparisons, t.test_float_arithmetic, t.test_math,
                          t.test_float_to_integer_truncates_and_saturates, t.test_casts, t.test_bit_counts_and_signs,
                          t.test_min_and_max_prefer_numbers_to_nan, t.test_of_two_zeros_the_negative_one_is_less)
        yield from _cases(c.test_every_pattern_upward, c.test_rounded_once, c.test_every_tie,
                          c.test_floats_to_integers_saturate)
    finally:
        del os.environ["MOYE_CHECK"]


def operators(corpus: Corpus, everything: bool) -> Iterator[str]:
    """Python's operators on bools and on floats of 8 and 16 bits."""
    from fuzz import test_operators as t

    yield from _cases(t.test_operators_of_bools, t.test_operators_of_narrow_floats)


def integers(corpus: Corpus, everything: bool) -> Iterator[str]:
    """Printed integer arithmetic against C's rules."""
    from cuda.printing.test_printed_integers import test_printed_arithmetic

    yield from _cases(test_printed_arithmetic)


def programs(corpus: Corpus, everything: bool) -> Iterator[str]:
    """Random IR, printed, run on the host where the text is another, and compared with an interpreter of the IR."""
    from cuda.printing import test_printer_fuzz as t

    changed = []
    for at, ((func, text), before) in enumerate(zip(t.printed(len(corpus.texts)), corpus.texts, strict=True)):
        if text.source != before:
            changed.append((at, func, text))
        if len(changed) == 40 or (changed and at == 60):
            yield _native(changed)
            changed = []
        yield ""
    yield _native(changed)


def _native(changed: list[tuple[int, Any, Any]]) -> str:
    from cuda.printing import test_printer_fuzz as t

    if not changed:
        return ""
    with tempfile.TemporaryDirectory() as name:
        library = t.compiled([(func, text) for _, func, text in changed], Path(name))
        wrong = [at for i, (at, func, text) in enumerate(changed) for n in (0, 3, -5, 7)
                 if not t.agrees(library, i, func, text, n)]
    return f"{wrong[0]} differs" if wrong else ""


def tiles(corpus: Corpus, everything: bool) -> Iterator[str]:
    """Random IR of tiles and expressions of all dtypes, the same way."""
    from fuzz import irs

    changed: list[tuple[irs.Drawn, Any]] = []
    sizes = itertools.chain(BATCHES, itertools.repeat(BATCHES[-1]))
    size = next(sizes)
    with tempfile.TemporaryDirectory() as name:
        for seed, before in enumerate(corpus.tiles):
            drawn = irs.draw(seed)
            text = irs.printed(drawn)
            if text.source != before:
                changed.append((drawn, text))
            if len(changed) == size:
                yield "; ".join(irs.judged(changed, Path(name))[0][:1])
                changed, size = [], next(sizes)
            yield ""
        yield "; ".join(irs.judged(changed, Path(name))[0][:1])


def views(corpus: Corpus, everything: bool) -> Iterator[str]:
    """Layouts and chains of views against a model of coordinates."""
    from fuzz import test_views as t

    for seed in range(t.SEED, t.SEED + 40):
        yield _failed(seed, lambda seed=seed: t.fuzz(seed, 6)[0])
        if seed % 2:
            yield _failed(seed, lambda seed=seed: t.fuzz_ragged(seed, 2)[0])


def edges(corpus: Corpus, everything: bool) -> Iterator[str]:
    """Accesses at the edges of a mode, under conditions that say that they lie inside, or do not."""
    from fuzz import test_edges as t

    for seed in range(t.SEED, t.SEED + 100):
        yield _failed(seed, lambda seed=seed: t.fuzz(seed, 8)[0])


def _failed(seed: int, run: Callable[[], list[Any]]) -> str:
    try:
        return f"{seed} differs" if run() else ""
    except Exception as error:
        return f"{seed} {type(error).__name__}"


def layouts(corpus: Corpus, everything: bool) -> Iterator[str]:
    """The law of every layout verb on drawn layouts: on a few, then on more."""
    import layout_laws
    from layout import test_laws, test_laws_tiling

    laws = [f for module in (test_laws, test_laws_tiling) for name, f in vars(module).items()
            if name.startswith("test_") and callable(f) and not inspect.signature(f).parameters]
    for share in (0.1, 0.4, 1.0):
        layout_laws.SHARE[:] = [share]
        yield from _cases(*laws)


def pipes(corpus: Corpus, everything: bool) -> Iterator[str]:
    """Pipelines, right ones and each with one fault."""
    from fuzz import pipelines

    rng = random.Random(5)
    for number in range(60):
        case = pipelines.draw(rng)
        for fault in ["", *rng.sample(case.faults, min(3, len(case.faults)))]:
            try:
                wrong = pipelines.verdict(case, fault)
            except Exception as error:
                wrong = type(error).__name__
            yield f"{number} {fault or 'right'}: {wrong[:20]}" if wrong else ""


def polls(corpus: Corpus, everything: bool) -> Iterator[str]:
    """Loops that poll and end, or do not; numbers that are looked at twice; flags and counters of several threads."""
    from sim.checks import test_async_proxy_and_phases as a
    from sim.checks import test_older_values as o
    from sim.checks import test_versions as v
    from sim.holdout_order import late
    from sim.holdout_order.test_holdout_order import test_program
    from sim.machine import test_endless as e
    from sim.machine import test_schedules as s

    yield from _cases(e.test_what_decides_whether_something_is_set_decides_too, v.test_each_fence_is_needed,
                      e.test_the_clock_goes_on_while_nothing_else_changes, e.test_memory_that_changes_while_all_poll,
                      v.test_whole_warps_read, v.test_a_counter_of_others_is_no_data_of_the_number,
                      v.test_data_under_a_number_that_is_not_used_may_be_torn,
                      o.test_relaxed_words_are_old_too_where_nothing_is_ordered,
                      o.test_whichever_of_two_warps_was_found_the_other_may_be_late,
                      s.test_who_is_last_at_one_counter_need_not_be_at_another,
                      a.test_either_of_two_atomics_from_another_block_may_be_the_last)
    for case in late.TABLE:
        for fault in case.twins:
            try:
                test_program(case, fault)
            except Exception as error:
                yield f"{case.name} {fault} {type(error).__name__}"
            yield ""


def objects(corpus: Corpus, everything: bool) -> Iterator[str]:
    """Functions of objects that several names mean, and of variables that may have no value."""
    from fuzz import aliases, unset

    for seed in range(400):
        for drawn_by in (aliases, unset):
            try:
                wrong = drawn_by.verdict(drawn_by.draw(seed))[1]
            except Exception as error:
                wrong = type(error).__name__
            yield f"{seed} {wrong[:20]}" if wrong else ""


FUZZERS: dict[str, Fuzzer] = {
    "facts": facts, "scalars": scalars, "integers": integers, "programs": programs, "tiles": tiles, "kernels": kernels,
    "traced": traced, "printed": printed_kernels, "simulated": simulated, "views": views, "edges": edges,
    "operators": operators, "layouts": layouts, "pipelines": pipes, "polls": polls, "objects": objects,
}
SUITED = (
    ("ir/fold.py", ("facts", "traced", "views")),
    ("ir/", ("facts", "traced", "kernels", "pipelines")),
    ("cuda/printing/expressions.py", ("integers", "tiles", "printed", "programs")),
    ("cuda/printing/intrinsics.py", ("tiles", "printed", "programs")),
    *((f"cuda/printing/{name}.py", ("tiles", "printed")) for name in (
        "conversions", "masked", "narrow_elements", "pairs")),
    ("cuda/", ("programs", "tiles", "printed")),
    ("passes/", ("traced", "pipelines")),
    ("sim/values/scalars.py", ("scalars", "simulated")),
    ("sim/values/overflow.py", ("scalars", "simulated")),
    ("sim/generate/scalars.py", ("simulated", "scalars")),
    ("sim/operations/bounds.py", ("edges", "views", "simulated")),
    *((f"sim/{name}.py", ("polls",)) for name in (
        "checks/late_stores", "checks/shared_records", "checks/signal_memory", "checks/versions", "flow/double_looks",
        "flow/spins", "machine/standstill")),
    ("sim/", ("simulated", "views", "pipelines")),
    ("layout/", ("layouts", "views", "kernels")),
    *((f"lang/{name}.py", ("objects", "traced", "kernels")) for name in (
        "branches", "functions", "host_objects", "identity", "loops")),
    ("tensor/bounds.py", ("edges", "views")),
    ("tensor/expr.py", ("operators", "kernels")),
    ("tensor/", ("views", "kernels", "pipelines")),
    ("", ("traced", "kernels", "views", "pipelines")),
)


def suited(file: str) -> tuple[str, ...]:
    """The fuzzers of a file, the one that tells most a second first."""
    return next(names for prefix, names in SUITED if file.startswith(prefix))


def judge(corpus: Corpus, names: tuple[str, ...], everything: bool, over: Callable[[], bool]) -> str:
    """How the first step fails that does, or nothing; an exception is a failure, too."""
    for name in names:
        try:
            for told in FUZZERS[name](corpus, everything):
                if told:
                    return f"{name} {told}"
                if over():
                    return ""
        except Exception as error:
            return f"{name} {type(error).__name__}"
    return ""
