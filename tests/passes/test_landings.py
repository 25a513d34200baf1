"""What was loaded from shared memory has come before the memory is handed back to asynchronous units."""

import random
import re

import numpy as np
import pytest

import moye as mo

WIDTH, STAGES = 1024, 4
X = np.random.default_rng(0).standard_normal(16 * WIDTH).astype(np.float32)


def ring(consume, *, arrivals=4):
    """A kernel whose fifth warp fills stages, which the others ``consume``: (pipe, state, stage, out, turn)."""
    @mo.kernel
    def stream(out, x):
        mo.assume(mo.size(x, 0) % WIDTH == 0)
        stages = mo.shared_array(mo.float32, (WIDTH, STAGES))
        pipe = mo.PipelineTma(STAGES, 4 * WIDTH, consumers=arrivals)
        pipe.init()
        mo.sync_threads()
        if mo.warp_idx() == 4:
            if mo.lane_idx() == 0:
                state = pipe.producer_start()
                for i in range(mo.size(x) // WIDTH):
                    pipe.producer_acquire(state)
                    mo.copyto(mo.BulkCopy(), stages[:, state.stage], mo.tile(x, (WIDTH,), (i,)),
                              barrier=pipe.barrier(state))
                    state = state.next()
        else:
            state = pipe.consumer_start()
            for i in range(mo.size(x) // WIDTH):
                pipe.consumer_wait(state)
                consume(pipe, state, stages[:, state.stage], out, i)
                state = state.next()
    return stream


@mo.jit
def mine(out, i):
    return mo.tile(out, (8,), (i * 128 + mo.thread_idx().x,), ragged=True)


@mo.jit
def released(pipe, state):
    mo.sync_warp()
    if mo.lane_idx() == 0:
        pipe.consumer_release(state)


@mo.jit
def used_behind(pipe, state, stage, out, i):
    held = mo.fragment((8,), mo.float32)
    mo.copyto(held, mo.tile(stage, (8,), (mo.thread_idx().x,)))
    released(pipe, state)
    held[...] = held * 2.0
    mo.copyto(mine(out, i), held)


@mo.jit
def used_before(pipe, state, stage, out, i):
    """In the source: ptxas does it behind the arrival all the same."""
    held = mo.fragment((8,), mo.float32)
    mo.copyto(held, mo.tile(stage, (8,), (mo.thread_idx().x,)))
    held[...] = held * 2.0
    released(pipe, state)
    mo.copyto(mine(out, i), held)


@mo.jit
def one_by_one(pipe, state, stage, out, i):
    held = [stage[mo.thread_idx().x * 8 + j] for j in range(8)]
    released(pipe, state)
    for j in mo.static_range(8):
        mine(out, i)[j] = held[j] * 2.0


@mo.jit
def behind_a_barrier(pipe, state, stage, out, i):
    """One thread arrives for all who have met."""
    held = mo.fragment((8,), mo.float32)
    mo.copyto(held, mo.tile(stage, (8,), (mo.thread_idx().x,)))
    mo.barrier_sync(1, 128)
    if mo.thread_idx().x == 0:
        pipe.consumer_release(state)
    held[...] = held * 2.0
    mo.copyto(mine(out, i), held)


@mo.jit
def stored(pipe, state, stage, out, i):
    held = mo.fragment((8,), mo.float32)
    mo.copyto(held, mo.tile(stage, (8,), (mo.thread_idx().x,)))
    held[...] = held * 2.0
    mo.copyto(mine(out, i), held)
    released(pipe, state)


def landed(kernel, **options):
    """(lines of the source that wait for loads, the program)"""
    program = kernel.compile(mo.TensorLike(mo.float32, X.shape, (1,)), mo.TensorLike(mo.float32, X.shape, (1,)),
                             block=160, arch="sm_90a", **options)
    return [line.strip() for line in program.source.splitlines() if line.strip().startswith("landed(")], program


@pytest.mark.parametrize("consume", [used_behind, used_before, one_by_one, stored])
def test_results(consume):
    out = np.full_like(X, np.nan)
    ring(consume)[1, 160](out, X)
    assert np.array_equal(out, X * 2)


def test_results_behind_a_barrier():
    out = np.full_like(X, np.nan)
    ring(behind_a_barrier, arrivals=1)[1, 160](out, X)
    assert np.array_equal(out, X * 2)


@pytest.mark.parametrize(("consume", "arrivals"), [(used_behind, 4), (used_before, 4), (behind_a_barrier, 1)])
def test_loads_have_come_before_the_arrival(consume, arrivals):
    lines, program = landed(ring(consume, arrivals=arrivals))
    assert lines == ["landed(__float_as_uint(held[0]) | __float_as_uint(held[4]));"]
    mnemonics = re.findall(r"\b(LDS|PMTRIG|SYNCS\.ARRIVE\S*A1T0|BAR\.SYNC)", program.sass)
    at = mnemonics.index("LDS")
    assert mnemonics[at:at + 3] == ["LDS", "LDS", "PMTRIG"], "nothing tells between the loads and the wait for them"


def test_single_elements_have_come():
    lines, _ = landed(ring(one_by_one))
    assert len(lines) == 1 and lines[0].count("__float_as_uint") == 8


def test_what_was_stored_has_come():
    assert landed(ring(stored))[0] == []


def test_what_may_not_be_stored_has_not_come():
    @mo.jit
    def some(pipe, state, stage, out, i):
        held = mo.fragment((8,), mo.float32)
        mo.copyto(held, mo.tile(stage, (8,), (mo.thread_idx().x,)))
        mo.copyto(mine(out, i), held, pred=i < 3)
        released(pipe, state)
    assert len(landed(ring(some))[0]) == 1


@pytest.mark.parametrize("computed", [True, False])
def test_what_was_computed_and_pinned_has_come(computed):
    """A pin of what was loaded itself asks for no register."""
    @mo.jit
    def pinned(pipe, state, stage, out, i):
        held, twice = mo.fragment((8,), mo.float32), mo.fragment((8,), mo.float32)
        mo.copyto(held, mo.tile(stage, (8,), (mo.thread_idx().x,)))
        twice[...] = held * 2.0
        mo.pin(twice if computed else held)
        released(pipe, state)
        mo.copyto(mine(out, i), twice)
    lines, program = landed(ring(pinned))
    assert len(lines) == (0 if computed else 1)
    assert re.findall(r"\b(LDS|FADD|PMTRIG|SYNCS\.ARRIVE\S*A1T0)", program.sass)[:2] == ["LDS", "LDS"]
    if computed:
        order = re.findall(r"\b(FADD|FMUL|PMTRIG|SYNCS\.ARRIVE\S*A1T0)", program.sass)
        assert order[:9] == [*[order[0]] * 8, "PMTRIG"]


def test_whoever_fills_again_has_read():
    """One warp by itself: its own copy would overtake its load."""
    @mo.kernel
    def alone(out, x):
        mo.assume(mo.size(x, 0) % WIDTH == 0)
        stage, full = mo.shared_array(mo.float32, WIDTH), mo.mbarrier_array(1)
        if mo.thread_idx().x == 0:
            mo.mbarrier_init(full, 0, 1)
            mo.fence_mbarrier_init()
        mo.sync_warp()
        held = mo.fragment((8,), mo.float32)
        for i in range(16):
            if mo.thread_idx().x == 0:
                mo.mbarrier_arrive_expect_tx(full, 0, 4 * WIDTH)
                mo.copyto(mo.BulkCopy(), stage, mo.tile(x, (WIDTH,), (i,)), barrier=(full, 0))
            if i > 0:
                mo.copyto(mo.tile(out, (8,), ((i - 1) * 32 + mo.thread_idx().x,), ragged=True), held)
            mo.mbarrier_wait(full, 0, i % 2)
            mo.copyto(held, mo.tile(stage, (8,), (mo.thread_idx().x,)))
            mo.sync_warp()
    program = alone.compile(mo.TensorLike(mo.float32, (X.size,), (1,)), mo.TensorLike(mo.float32, (X.size,), (1,)),
                            block=32, arch="sm_90a")
    assert re.search(r"landed\(.*held.*\n\s*mbarrier_arrive_expect_tx", program.source), "also the turn before's"


def test_kernels_without_asynchronous_units_are_as_before():
    @mo.kernel
    def turned(out, x):
        stage = mo.shared_array(mo.float32, 128)
        stage[mo.thread_idx().x] = x[mo.thread_idx().x]
        mo.sync_threads()
        y = stage[127 - mo.thread_idx().x]
        mo.sync_threads()
        out[mo.thread_idx().x] = y
    array = mo.TensorLike(mo.float32, (128,), (1,))
    program = turned.compile(array, array, block=128, arch="sm_90a")
    assert "landed" not in program.source


# --- drawn programs --------------------------------------------------------------------------------------------------


def loads_that_are_overtaken(sass):
    """Loads from shared memory whose registers no instruction asks for before the next arrival of a reader."""
    waiting, found = {}, []
    for line in sass.splitlines():
        text = re.sub(r"/\*.*?\*/", "", line).split(";")[0]
        registers = [int(r) for r in re.findall(r"\bR(\d+)", text)]
        if load := re.search(r"\bLDS(\.\w+)* R(\d+), \[", text):
            first, words = int(load[2]), {".64": 2, ".128": 4}.get(load[1], 1)
            waiting = {at: own for at, own in waiting.items() if not own & set(registers[1:])}
            waiting[line] = set(range(first, first + words))
        elif "SYNCS.ARRIVE" in text and "A1T0" in text:
            found += waiting
            waiting = {}
        else:                                           # who writes a register waits for it, too
            waiting = {at: own for at, own in waiting.items() if not own & set(registers)}
    return found


def drawn(seed):
    """What a reader does with a stage: loads of several widths, sums before and behind the arrival, stores, pins."""
    rng = random.Random(seed)
    width, single, copies = rng.choice([1, 2, 4, 8]), rng.random() < 0.5, rng.randint(1, 3)
    before, pinned, kept, nested = (rng.random() < 0.4 for _ in range(4))
    style = rng.choice(["warp", "barrier"])

    @mo.jit
    def consume(pipe, state, stage, out, i):
        tid, total = mo.thread_idx().x, mo.float32(0)
        held = [mo.fragment((width,), mo.float32) for _ in range(copies)]
        for j in mo.static_range(copies):
            mo.copyto(held[j], mo.tile(stage, (width,), ((tid + 5 * j) % 128,)))
        y = stage[tid * 8] if single else mo.float32(0)
        if nested and i % 2 == 0:
            total += stage[tid + 512]
        if before:
            for j in mo.static_range(copies):
                held[j][...] = held[j] * 2.0
        if pinned:
            mo.pin(held[0])
        if kept:
            out[i * 1024 + tid] = held[0][0]
        if style == "warp":
            released(pipe, state)
        else:
            mo.barrier_sync(1, 128)
            if tid == 0:
                pipe.consumer_release(state)
        for x in held:
            total += (x * 3.0).reduce("add")
        out[i * 1024 + 128 + tid] = total + y

    def expected(x):
        stages = x.reshape(-1, WIDTH).astype(np.float64)
        tid, factor = np.arange(128), 2.0 if before else 1.0
        loaded = [stages[:, (tid[:, None] + 5 * j) % 128 * width + np.arange(width)] for j in range(copies)]
        total = sum(part.sum(2) for part in loaded) * 3 * factor + (stages[:, tid * 8] if single else 0)
        if nested:
            total[::2] += stages[::2, 512:640]
        first = loaded[0][:, :, 0] * factor if kept else np.full_like(total, np.nan)
        return np.stack([first, total], 1)
    return ring(consume, arrivals=4 if style == "warp" else 1), expected


@pytest.mark.parametrize("seed", range(24))
def test_drawn(seed):
    """Right in the simulator, and in machine code no arrival is in front of a load that nobody has waited for."""
    kernel, expected = drawn(seed)
    out = np.full_like(X, np.nan)
    kernel[1, 160](out, X)
    found = out.reshape(-1, WIDTH)[:, :256].reshape(-1, 2, 128)
    np.testing.assert_allclose(found, expected(X), rtol=1e-5, atol=1e-4)
    assert loads_that_are_overtaken(landed(kernel)[1].sass) == []
