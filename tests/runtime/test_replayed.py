"""``mo.replayed``: repeated calls give what the function gives, whatever changed since; plans; what is refused.

The host functions here let their decisions be seen in their results: a call that is taken for another one shows.
"""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import moye as mo
from moye.errors import ArgumentError, SimulationError, TraceError

BODIES: list[str] = []
OFFSET = 7.0


@mo.kernel
def combine(out, x, y, factor, aligned: mo.Constexpr, way: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(out):
        out[i] = x[i] * factor + y[i] + (100.0 if aligned else 0.0) + (1000.0 if way == "more" else 0.0)


@mo.kernel
def move(out, x):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(out):
        out[i] = x[i]


@mo.kernel
def add_offset(x):
    x[mo.thread_idx().x] = x[mo.thread_idx().x] + OFFSET


@mo.scratch
def room(like, count, value):
    return np.full(count, value, like.dtype)


@mo.replayed
def combined(out, x, y, *, factor=1.0, way="plain"):
    """out = factor * x + y, and 100 if all lie at multiples of 16 bytes, and 1000 for way="more"; 5 if they share."""
    BODIES.append("combined")
    aligned = all(mo.describe(a).ptr % 16 == 0 for a in (out, x, y))
    grid, target = -(-len(out) // 32), out
    if np.shares_memory(out, x) or np.shares_memory(out, y):
        five = room(out, len(out), 5)
        middle = room(out, len(out), 0)
        combine[grid, 32](middle, x, y, factor, aligned, way)
        combine[grid, 32](target, middle, five, 1.0, False, "plain")
        return out
    combine[grid, 32](target, x, y, factor, aligned, way)
    return out


def expected(out, x, y, factor=1.0, way="plain"):
    aligned = all(a.ctypes.data % 16 == 0 for a in (out, x, y))
    shared = np.shares_memory(out, x) or np.shares_memory(out, y)
    return x * factor + y + 100 * aligned + 1000 * (way == "more") + 5 * shared


def aligned_memory(count, dtype=np.float32):
    """An array whose first element lies at a multiple of 16 bytes."""
    memory = np.zeros(count + 16, dtype)
    first = -memory.ctypes.data % 16 // memory.itemsize
    return memory[first:first + count]


def arrays(n=40, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    made = [aligned_memory(n, dtype) for _ in range(3)]
    for x in made[1:]:
        x[:] = rng.integers(-9, 9, n)
    return made


def bodies(work):
    """How often the body of a host function ran."""
    BODIES.clear()
    work()
    return len(BODIES)


# --- calls -----------------------------------------------------------------------------------------------------------


def test_the_third_call_does_not_decide_anew():
    out, x, y = arrays(seed=1)
    counts = []
    for _ in range(4):
        out[:] = 0
        counts.append(bodies(lambda: combined(out, x, y, factor=3.0)))
        assert np.array_equal(out, expected(out, x, y, 3.0))
    assert counts == [1, 1, 0, 0]
    others = arrays(seed=2)
    assert bodies(lambda: combined(*others, factor=3.0)) == 0
    assert np.array_equal(others[0], expected(*others, 3.0))


def place(rng):
    return int(rng.choice([0, 1, 4, 64, 65, 128])), int(rng.choice([1, 1, 1, 2]))


@pytest.mark.parametrize("seed", range(6))
def test_drawn_sequences(seed):
    """Few places in one piece of memory, so that calls are often like earlier ones, and often only nearly."""
    rng = np.random.default_rng(seed)
    pools = {dtype: aligned_memory(256, dtype) for dtype in (np.float32, np.float64)}
    for dtype in pools:
        pools[dtype][:] = rng.integers(-9, 9, 256)
    repeated, earlier = 0, []
    for _ in range(120):
        if earlier and rng.random() < 0.8:              # one of those, with one thing changed in half of the cases
            dtype, n, places, options = earlier[rng.integers(len(earlier))]
            places, options = list(places), dict(options)
            if rng.random() < 0.5:
                places[rng.integers(3)] = place(rng)
        else:
            dtype, n, places, options = rng.choice([np.float32, np.float64]), int(rng.choice([20, 21])), [], {}
            places = [place(rng) for _ in range(3)]
            if rng.random() < 0.5:
                options["factor"] = float(rng.choice([1.0, 2.0, -1.0]))
            if rng.random() < 0.3:
                options["way"] = str(rng.choice(["plain", "more"]))
        if len(earlier) < 10:
            earlier.append((dtype, n, tuple(places), options))
        pool = pools[dtype]
        made = [pool[first:first + step * n:step] for first, step in places]
        wanted = expected(*made, **options).astype(pool.dtype)
        before = len(BODIES)
        try:
            assert combined(*made, **options) is made[0]
        except SimulationError as error:                # two-step strides may let blocks race: then both ways say so
            assert "race" in str(error) or "shares" in str(error)
            continue
        repeated += len(BODIES) == before
        assert np.array_equal(made[0], wanted), (options, [x.ctypes.data - pool.ctypes.data for x in made])
        pool[:] = rng.integers(-9, 9, 256)
    assert repeated > 20


def test_a_changed_name_counts(monkeypatch):
    @mo.replayed
    def shift(x):
        BODIES.append("shift")
        add_offset[1, 16](x)
    x = aligned_memory(16)
    for _ in range(4):
        shift(x)
    assert (x == 28).all()
    monkeypatch.setitem(globals(), "OFFSET", 0.5)
    for _ in range(4):
        shift(x)
    assert (x == 30).all()
    assert bodies(lambda: shift(x)) == 0


def test_settings_count(monkeypatch):
    @mo.kernel
    def past_the_end(x):
        x[mo.thread_idx().x + 8] = 1.0

    @mo.replayed
    def fault(x):
        past_the_end[1, 16](x)
    x = aligned_memory(40)[:16]
    for check, raises in (("0", False), ("0", False), ("0", False), ("1", True), ("0", False)):
        monkeypatch.setenv("MOYE_CHECK", check)
        if raises:
            with pytest.raises(SimulationError):
                fault(x)
        else:
            fault(x)


def test_settings_count_in_decisions(monkeypatch):
    """Of a host function that asks for what the setting decides."""
    @mo.kernel
    def fill(x, value):
        x[mo.thread_idx().x] = value

    @mo.replayed
    def multiprocessors(x):
        fill[1, 16](x, mo.multiprocessors(x))
    x = aligned_memory(16)
    for arch, count in (("sm_80", 108), ("sm_80", 108), ("sm_80", 108), ("sm_90a", 132), ("sm_80", 108)):
        monkeypatch.setenv("MOYE_ARCH", arch)
        multiprocessors(x)
        assert (x == count).all()


def test_checks_and_compilations_see_every_launch():
    out, x, y = arrays(33)
    for _ in range(4):
        combined(out, x, y)
    plan = combined.plan(out, x, y)
    for call in (lambda: combined(out, x, y), plan):
        with mo.checking() as reports:
            call()
        assert [report.ok for report in reports] == [True]
        with mo.compile_only("sm_80", trace_only=True) as compiled:
            call()
        assert len(compiled.jobs) == 1


def test_errors_are_those_of_the_function():
    @mo.replayed
    def only_even(x):
        if len(x) % 2:
            raise ArgumentError(f"only_even: {len(x)} elements")
        add_offset[1, 16](x)
    for _ in range(4):
        with pytest.raises(ArgumentError, match="17 elements"):
            only_even(aligned_memory(17))
        only_even(aligned_memory(16))
        with pytest.raises(TypeError, match="positional"):
            only_even()


def test_a_read_only_array_is_refused_each_time():
    out, x, y = arrays(24)
    locked = out.copy()
    locked.flags.writeable = False
    for _ in range(4):
        combined(out, x, y)
        with pytest.raises(ArgumentError, match="read-only"):
            combined(locked, x, y)


# --- what cannot be repeated -----------------------------------------------------------------------------------------


@mo.kernel
def take(out, x, factor):
    out[mo.thread_idx().x] = x[mo.thread_idx().x] * factor


def cases_that_read_more():
    """Host functions whose launches depend on more than descriptions: each is called anew, as moye can see."""
    @mo.replayed
    def number_in_an_array(out, x, factor):
        take[1, 16](out, x, float(factor.reshape(-1)[0]))

    @mo.replayed
    def hidden_array(out, x, more):
        take[1, 16](out, more[0], 1.0)

    @mo.replayed
    def memory_of_its_own(out, x):
        take[1, 16](out, x * 2, 1.0)

    @mo.replayed
    def no_launch(out, x):
        out[:] = 2 * x

    yield number_in_an_array, lambda k: (np.full(1, k, np.float32),), lambda x, k: x * k
    yield number_in_an_array, lambda k: (np.full(3, k, np.float32),), lambda x, k: x * k
    yield number_in_an_array, lambda k: (np.float32(k),), lambda x, k: x * k
    yield hidden_array, lambda k: ([np.full(16, k, np.float32)],), lambda x, k: np.full(16, k)
    yield memory_of_its_own, lambda k: (), lambda x, k: x * 2
    yield no_launch, lambda k: (), lambda x, k: x * 2


@pytest.mark.parametrize("case", list(cases_that_read_more()), ids=lambda case: case[0].__name__)
def test_what_reads_more_is_called_anew(case):
    function, more, wanted = case
    for k in range(6):
        out, x = aligned_memory(16), aligned_memory(16)
        x[:] = np.arange(16) + k
        function(out, x, *more(k))
        assert np.array_equal(out, wanted(x, k))


def test_one_element_that_a_kernel_takes():
    """A sum is an array as others are; a number that the host reads from one is read each time."""
    @mo.kernel
    def first_times(total, x, factor):
        total[0] = x[0] * factor

    @mo.replayed
    def scaled(total, x, number=None):
        BODIES.append("scaled")
        first_times[1, 1](total, x, 1.0 if number is None else float(number[0]))
    BODIES.clear()
    for k in range(5):
        total, x = aligned_memory(1), aligned_memory(16)
        x[:] = k + 2
        scaled(total, x)
        assert total[0] == k + 2
    assert len(BODIES) == 2
    for k in range(5):
        total, x = aligned_memory(1), aligned_memory(16)
        x[:] = k + 2
        scaled(total, x, x[3:4])                        # of memory that the kernel takes, but not the number itself
        assert total[0] == (k + 2) ** 2
    assert len(BODIES) == 7


def test_functions_count_by_what_they_do():
    @mo.kernel
    def mapped(x, function: mo.Constexpr):
        x[mo.thread_idx().x] = function(x[mo.thread_idx().x])

    @mo.replayed
    def through(x, function):
        mapped[1, 16](x, function)
    for k in range(5):
        def plus(v):
            return v + amount                           # noqa: B023  the loop's variable, on purpose
        amount = float(k % 2)
        for _ in range(3):
            x = aligned_memory(16)
            through(x, plus)
            assert (x == amount).all()
        amount = 9.0
        x = aligned_memory(16)
        through(x, plus)
        assert (x == 9).all()


def test_no_plan_of_what_cannot_be_repeated():
    out, x = aligned_memory(16), aligned_memory(16)
    functions = {function.__name__: function for function, _, _ in cases_that_read_more()}
    with pytest.raises(ArgumentError, match="array of one mode or more"):
        functions["number_in_an_array"].plan(out, x, np.ones((), np.float32))
    for count in (1, 3):
        with pytest.raises(ArgumentError, match="arrays that no kernel takes"):
            functions["number_in_an_array"].plan(out, x, np.ones(count, np.float32))
    with pytest.raises(ArgumentError, match="none of the arguments"):
        functions["memory_of_its_own"].plan(out, x)
    with pytest.raises(ArgumentError, match="launches nothing"):
        functions["no_launch"].plan(out, x)

    @mo.replayed
    def of_a_stream(x):
        add_offset.launch(x, grid=1, block=16, stream=0)
    with pytest.raises(ArgumentError, match="stream of its own"):
        of_a_stream.plan(x)
    prepared = add_offset.prepare(x, grid=1, block=16)

    @mo.replayed
    def of_a_prepared_one(x):
        prepared()
    with pytest.raises(ArgumentError, match="as it was prepared"):
        of_a_prepared_one.plan(x)


def test_only_functions_are_decorated():
    with pytest.raises(TraceError, match="decorates Python functions"):
        mo.replayed(combine)


# --- plans -----------------------------------------------------------------------------------------------------------


def test_a_plan_launches_again():
    out, x, y = arrays(seed=3)
    plan = combined.plan(out, x, y, factor=2.0)
    assert not out.any()                                # nothing has run
    assert plan() is out
    assert np.array_equal(out, expected(out, x, y, 2.0))
    other, z, w = arrays(seed=4)
    assert bodies(lambda: plan(other, z, w)) == 0
    assert np.array_equal(other, expected(other, z, w, 2.0))
    assert plan(other) is other
    assert np.array_equal(other, expected(other, x, y, 2.0))


def test_a_plan_takes_names():
    out, x, y = arrays(seed=5)
    plan = combined.plan(out, x, y=y, way="more")
    z = arrays(seed=6)[1]
    plan(y=z)
    assert np.array_equal(out, expected(out, x, z, way="more"))
    plan(out, x)
    assert np.array_equal(out, expected(out, x, y, way="more"))
    plan(out, x, z)
    assert np.array_equal(out, expected(out, x, z, way="more"))
    with pytest.raises(ArgumentError, match="takes 3 arrays, not 4"):
        plan(out, x, y, z)
    with pytest.raises(ArgumentError, match="no array 'z'; by name it takes y"):
        plan(z=z)


def test_a_plan_refuses_other_arrays():
    out, x, y = arrays(seed=7)
    plan = combined.plan(out, x, y=y)
    for args, named, told in (((out, x[:30]), {}, r"array 2 has shape \(30,\), and the plan is for \(40,\)"),
                              ((out, x.astype(np.float64)), {}, "array 2 has dtype float64, and the plan is for"),
                              ((), {"y": aligned_memory(80)[::2]}, r"argument 'y' has strides \(2,\)"),
                              ((), {"y": aligned_memory(41)[1:]}, "argument 'y' has address modulo 16 4, and"),
                              ((out, out), {}, "share memory otherwise"),
                              ((out, "x"), {}, "array 2 is a str, and the plan is for an array")):
        with pytest.raises(ArgumentError, match=told):
            plan(*args, **named)


def test_a_plan_with_scratch_and_shared_memory():
    pool = aligned_memory(64)
    pool[:] = np.arange(64)
    plan = combined.plan(pool[4:24], pool[0:20], pool[40:60])
    wanted = expected(pool[4:24], pool[0:20], pool[40:60])
    plan()
    assert np.array_equal(pool[4:24], wanted)
    with pytest.raises(ArgumentError, match="share memory otherwise"):
        plan(pool[8:28])


def test_a_plan_stays_here():
    out, x, y = arrays()
    plan = combined.plan(out, x, y)
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ArgumentError, match="belongs to its process"):
            way(plan)
    assert repr(plan) == "<a plan of <mo.replayed combined>>"


def test_a_replayed_function_is_copied_as_itself():
    for way in (lambda f: pickle.loads(pickle.dumps(f)), copy.copy, copy.deepcopy):
        assert way(combined) is combined
    assert combined.__doc__.startswith("out = factor * x + y")


def test_threads_call_at_once():
    """While one thread records, the others' calls are still right."""
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(12):
            n = int(rng.choice([16, 17, 18]))
            out, x, y = arrays(n, seed=seed)
            combined(out, x, y, factor=4.0)
            if not np.array_equal(out, expected(out, x, y, 4.0)):
                wrong.append((seed, n))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- what else is remembered -----------------------------------------------------------------------------------------


@mo.replayed
def weighted(out, x, y, *, factors=(1.0, 0.0), way="plain"):
    """out = x * factors[0] + y, whose options are a tuple."""
    BODIES.append("weighted")
    combine[-(-len(out) // 32), 32](out, x, y, factors[0] + (1.0 if factors[1] is True else 0.0), False, way)


def test_tuples_of_plain_values_are_options():
    """Equal numbers of other types, and zeros of other signs, are other options."""
    out, x, y = arrays(seed=5)
    options = ((2.0, 0.0), (2, 1), (2, True), (0.0, 0), (-0.0, 0), (3.0, (1, None)), (3.0, "text"))
    for turn in range(4):
        for factors in options:
            count = bodies(lambda factors=factors: weighted(out, x, y, factors=factors))
            assert np.array_equal(out, x * (factors[0] + (factors[1] is True)) + y)
            assert count == (turn < 2), (turn, factors)


def test_tuples_with_functions_are_none():
    """What a function means may change: the call is made anew each time."""
    out, x, y = arrays(seed=6)
    for _ in range(4):
        assert bodies(lambda: weighted(out, x, y, factors=(2.0, len))) == 1


def test_what_cannot_be_repeated_is_recorded_once(monkeypatch):
    """To record it each time would send its launches the long way."""
    from moye.runtime import replayed

    recordings = []
    recorded = replayed.recorded
    monkeypatch.setattr(replayed, "recorded", lambda *args, **named: recordings.append(1) or recorded(*args, **named))

    @mo.replayed
    def hidden(out, x):
        move[-(-len(out) // 32), 32](out, x.copy())     # an array that is none of the arguments
    out, x, _ = arrays(seed=7)
    for _ in range(5):
        out[:] = 0
        hidden(out, x)
        assert np.array_equal(out, x)
    assert len(recordings) == 1
