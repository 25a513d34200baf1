"""A zoo for the judge: kernels that are right, wrong, right by luck, and that cheat, each with its verdict."""

from __future__ import annotations

import time

import numpy as np
import pytest

from moye.testing import Goals, Judge, Limits, cases, ragged_sizes

HEAD = "import moye as mo\nimport numpy as np\n"
DOUBLE = """
@mo.kernel
def double(out, x):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    if i < mo.size(x):
        out[i] = 2 * x[i]

def solve(out, x):
    double[mo.ceil_div(x.shape[0], 128), 128](out, x)
"""


def doubled(x):
    return 2 * x


def vectors(rng, n):
    return {"out": np.empty(n, np.float32), "x": rng.standard_normal(n, np.float32)}


VECTORS = cases(vectors, [(500,), *ragged_sizes(128)[:4]], strided=("x",), aliased=[("out", "x")], special=True,
                goals=Goals(degree=1, sectors=1.0))
BODY = "        out[i] = 2 * x[i]"


def double(body=BODY, head="", tail="", **changes):
    text = HEAD + head + DOUBLE.replace(BODY, body) + tail
    for old, new in changes.values():
        assert old in text, old
        text = text.replace(old, new)
    return text


def blocked(body, block=64):
    """A kernel of whole blocks on vectors: ``body`` has tid, i, staged."""
    return HEAD + f"""
@mo.kernel
def double(out, x):
    tid = mo.thread_idx().x
    i = mo.block_idx().x * {block} + tid
    staged = mo.shared_array(mo.float32, {block})
{body}

def solve(out, x):
    double[x.shape[0] // {block}, {block}](out, x)
"""


WHOLE = cases(vectors, [(512,), (64,)], goals=Goals(degree=1))
REVERSED = """
    staged[tid] = 2 * x[i]
    mo.sync_threads()
    back = staged[63 - tid]
    mo.sync_threads()
    staged[63 - tid] = back
    mo.sync_threads()
    out[i] = staged[tid]"""

# name: (source, verdict); cases are VECTORS.
RAGGED = {
    "right": (double(), "passed"),
    "right, and it prints much": (double(tail="\nprint('x' * 1_000_000)"), "passed"),
    "right, with a grid of one block": (double(grid=("mo.ceil_div(x.shape[0], 128), 128", "1, 128"), body="""\
        for j in range(i, mo.size(x), 128):
            out[j] = 2 * x[j]"""), "passed"),
    "wrong factor": (double("        out[i] = 3 * x[i]"), "wrong"),
    "beyond the end": (double(guard=("if i < mo.size(x):", "if i <= mo.size(x):")), "out of bounds"),
    "lucky size: the tail is left out": (double(grid=("mo.ceil_div(x.shape[0], 128)", "x.shape[0] // 128")), "wrong"),
    "lucky size: made for 500 elements": (double(guard=("if i < mo.size(x):", "if i < 500:")), "out of bounds"),
    "lucky zeros: adds to what is there": (double("        out[i] += 2 * x[i]"), "uninitialised"),
    "lucky values: no NaN": (double("        out[i] = mo.max(2 * x[i], -1e30)"), "wrong"),
    "lucky strides: it takes x for contiguous": (
        double("        out[i] = 2 * x.with_layout(mo.make_layout(500))[i]"), ("wrong", "refused")),
    "lucky aliases: it reads x after it has written": (double("""\
        out[i] = x[i]
        out[i] = out[i] + x[i] + 0 * x[(i + 1) % mo.size(x)]"""), "race"),
    "lucky seed: what the answer was": (
        double("        out[i] = 2 * x[i] if i > 0 else mo.float32(-1.25)"), "wrong"),
    "writes an input": (double("        out[i] = 2 * x[i]\n        x[i] = 0"), "wrong"),
    "no such function": (double(tail="\ndel solve"), "error"),
    "no launch": (double(tail="\ndef solve(out, x): pass"), "wrong"),
    "a hole": (double("        out[i] = ..."), "holes"),
    "no Python": ("def solve(out, x) return", "error"),
    "raises": (double(tail="\nraise ValueError('no')"), "error"),
    "exits": (double(tail="\nexit(0)"), "error"),
    "no end of calls": (double(tail="\ndef solve(out, x): solve(out, x)"), "error"),
    "untraceable": (double("        out[i] = np.sin(x[i])"), "refused"),
    "a snippet of PTX": (double("        out[i] = mo.inline_ptx('add.f32 %0, %1, %1;', x[i], results=mo.float32)"),
                         "unjudged"),
    "an assertion": (double("        assert x[i] < 0.5\n        out[i] = 2 * x[i]"), "assertion"),
    "uncoalesced": (double(body="""\
        n = mo.size(x)
        m = mo.ceil_div(n, 64)
        j = (i % m) * 64 + i // m
        if j < n:
            out[j] = 2 * x[j]""", grid=("mo.ceil_div(x.shape[0], 128)", "mo.ceil_div(x.shape[0], 128) + 1"),
                           guard=("if i < mo.size(x):", "if i < mo.ceil_div(mo.size(x), 64) * 64:")), "uncoalesced"),
}
# cases are WHOLE.
BLOCKED = {
    "right, through shared memory": (blocked(REVERSED), "passed"),
    "lucky order: no barrier": (blocked(REVERSED.replace("    mo.sync_threads()\n    back", "    back")), "race"),
    "lucky warp: right without a barrier in one warp": (blocked("""
    staged[tid] = 2 * x[i]
    out[i] = 0.5 * (staged[tid ^ 1] + 2 * x[i]) + 0.5 * (2 * x[i] - staged[tid ^ 1])""", 32), "race"),
    "never written": (blocked("    out[i] = 2 * x[i] + 0 * staged[tid]"), "uninitialised"),
    "a register that is not set": (blocked("""
    sums = mo.fragment((1,), mo.float32)
    sums[0] += 2 * x[i]
    out[i] = sums[0]"""), "uninitialised"),
    "not waited for": (blocked("""
    mo.copyto(mo.CpAsync(mo.float32, cache="always"), mo.tile(staged, (1,), (tid,)), mo.tile(x, (1,), (i,)))
    out[i] = 2 * staged[tid]"""), "copies"),
    "a barrier in a condition": (blocked("""
    staged[tid] = 2 * x[i]
    if tid < 32:
        mo.sync_threads()
    out[i] = staged[tid]"""), "barriers"),
    "waits for nobody": (blocked("""
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 2)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive(bars, 0)
    mo.mbarrier_wait(bars, 0, 0)
    out[i] = 2 * x[i]"""), ("deadlock", "copies", "barriers")),
    "misaligned": (blocked("""
    held = mo.fragment((4,), mo.float32)
    if tid < 15:
        y = mo.tile(x.with_layout(mo.make_layout((512,))), (64,), (mo.block_idx().x,))
        mo.copyto(mo.UniversalCopy(mo.uint128), held, mo.tile(y[1:61], (4,), (tid,)))
    out[i] = 2 * x[i]"""), ("misaligned", "refused")),
    "bank conflicts": (HEAD + """
@mo.kernel
def double(out, x):
    tid = mo.thread_idx().x
    i = mo.block_idx().x * 64 + tid
    staged = mo.shared_array(mo.float32, (32, 64))
    staged[0, tid] = 2 * x[i]
    out[i] = staged[0, tid]

def solve(out, x):
    double[x.shape[0] // 64, 64](out, x)
""", "bank conflicts"),
}
PEEK = """
KEPT = []

def peek():
    for out, x in KEPT:
        if not (x == 0).all():
            out[:] = 2 * x

def solve(out, x):
    KEPT.append((out, x))
    double[mo.ceil_div(x.shape[0], 128), 128](out, x)
"""
IDLE = "        for _ in range(20):\n            if x[i] > 1e30:\n                out[i] = x[i]"
"""A kernel that stores nothing, so that what is written beside it stays."""
TIMER = """
import ctypes, signal
signal.signal(signal.SIGUSR1, lambda *a: peek())
event = (ctypes.c_int * 16)()
event[2] = int(signal.SIGUSR1)
timer, often = ctypes.c_void_p(), (ctypes.c_long * 4)(0, 1000000, 0, 1000000)
libc = ctypes.CDLL(None)
assert libc.timer_create(1, event, ctypes.byref(timer)) == 0
libc.timer_settime(timer, 0, often, None)
"""
ENDED = """
def solve(out, x):
    from moye.testing.submission import Ended
    raise Ended({})
"""
# These cheat, or spoil the process; cases are VECTORS.
CHEATS = {
    "computes with NumPy": (double("        out[i] = out[i]", call=("    double[", "    out[:] = 2 * x\n    double[")),
                            "host"),
    "passes the answer as an argument": (HEAD + """
@mo.kernel
def copied(out, y):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    if i < mo.size(y):
        out[i] = y[i]

def solve(out, x):
    copied[mo.ceil_div(x.shape[0], 128), 128](out, 2 * x)
""", "wrong"),
    "computes while it is traced": (HEAD + """
KEPT = []

def peek(v):
    out, x = KEPT
    out[:] = 2 * x
    return v

@mo.kernel
def nothing(out, function: mo.Constexpr):
    if mo.size(out) > 1 << 30:
        out[0] = function(0.0)

def solve(out, x):
    KEPT[:] = out, x
    nothing[1, 32](out, peek)
""", ("host", "refused")),
    "replaces the simulator": (double(tail="\nimport moye.runtime.simulate as s\ns.run = lambda *a, **k: None"),
                               "tampering"),
    "replaces a method": (double(tail="\nfrom moye.runtime.check.report import Report\n"
                                      "Report.ok = property(lambda s: True)"), "tampering"),
    "replaces code": (double(tail="\nimport moye.runtime.check.checking as c\ndef f(*a, **k): return None\n"
                                  "c.judged.__code__ = f.__code__"), "tampering"),
    "replaces NumPy's comparison": (double("        out[i] = 3 * x[i]", tail="\nnp.allclose = lambda *a, **k: True"),
                                    "tampering"),
    "replaces an entry of a table": (double(tail="\nfrom moye.sim.generate.writer import EMITTERS\n"
                                                 "EMITTERS[next(iter(EMITTERS))] = print"), "tampering"),
    "asks for an audit hook": (double("        out[i] = x[i]", tail="\nimport sys\nsys.addaudithook(print)"),
                               "tampering"),
    "hears of progress": (double(IDLE, tail=PEEK + "\nimport moye.runtime.simulate as s\n"
                                 "s.set_progress(lambda done, blocks: peek())"), "wrong"),
    "is asked to print": (double("        print(i)\n" + IDLE, tail=PEEK + "\nimport sys\n"
                                 "class Out:\n    def write(self, text): peek()\n    def flush(self): pass\n"
                                 "sys.stdout = Out()"), "wrong"),
    "traces the simulator": (double(IDLE, tail=PEEK + "\nimport sys\n"
                                    "sys.setprofile(lambda *a: peek())"), "wrong"),
    "computes in a snippet's place": (double("        out[i] = mo.inline_ptx('nonsense %0, %1;', x[i], "
                                             "results=mo.float32, simulate=lambda a: 2 * a)"), "unjudged"),
    "looks from a snippet": (double("        mo.inline_ptx('bar.warp.sync %0;', mo.uint32(i), memory=True, "
                                    "simulate=lambda a: peek())\n" + IDLE, tail=PEEK), "unjudged"),
    "is called by a timer": (double(IDLE, tail=PEEK + TIMER), ("crash", "wrong")),
    "replaces how warnings are shown": (double(tail="\nimport warnings\nwarnings.showwarning = print"),
                                        "tampering"),
    "notes a launch of its own": (double(IDLE, tail="""
class Call:
    def __init__(self, call, out, x):
        self.call, self.out, self.x = call, out, x
    def __getattr__(self, name):
        self.out[:] = 2 * self.x
        return getattr(self.call, name)

def solve(out, x):
    from moye.runtime import sessions
    double[mo.ceil_div(x.shape[0], 128), 128](out, x)
    name, grid, block, prepared, dependent = (noted := sessions.current.get().launches)[0]
    def of_its_own():
        call, spec = prepared()
        return Call(call, out, x), spec
    noted[0] = name, grid, block, of_its_own, dependent
"""), "tampering"),
    "says that it has passed": (double(tail=ENDED.format("'passed', 'great'")), "tampering"),
    "tells of findings that are none": (double(tail=ENDED.format("'finding', 'x', [{}]")), "tampering"),
    "raises what has no text": (double(tail="""
class Worse(mo.MoyeError):
    def __str__(self): raise ValueError

def solve(out, x): raise Worse("no")
"""), "refused"),
    "raises what is very long": (double(tail="\ndef solve(out, x): raise ValueError('x' * 100_000_000)"), "error"),
    "raises what cannot be printed": (double(tail="\ndef solve(out, x): raise ValueError('\\ud800')"), "error"),
    "is no text": ("x = '\ud800'", "error"),
    "leaves a process that nobody waits for": (double(tail="""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
"""), "tampering"),
    "leaves a thread": (double(tail="\nimport threading, time\n"
                                    "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"),
                        "tampering"),
    "leaves a process": (double(tail="\nimport subprocess\nsubprocess.Popen(['sleep', '60'])"), "tampering"),
    "looks for the expected result": (double("        out[i] = x[i]", tail="""
def solve(out, x):
    import gc
    for found in gc.get_objects():
        if isinstance(found, np.ndarray) and found.shape == x.shape and np.ptp(found):
            raise ValueError("found it")
    double[mo.ceil_div(x.shape[0], 128), 128](out, x)
"""), "wrong"),
    "answers in the judge's place": (double("        out[i] = x[i]", tail="""
import socket, os
from moye.testing.wire import send
for name in os.listdir('/proc/self/fd'):
    try:
        end = socket.socket(fileno=os.dup(int(name)))
        send(end, {"done": {"reports": []}, "token": ""})
    except OSError:
        pass
"""), "tampering"),
    "ends the judge": (double(tail="\nimport os, signal\nos.kill(os.getppid(), signal.SIGKILL)"), "tampering"),
    "loops": (double(tail="\nwhile True: pass"), "timeout"),
    "sleeps": (double(tail="\nimport time; time.sleep(100)"), "timeout"),
    "endless kernel": (double("        while x[i] == x[i]:\n            out[i] = 2 * x[i]"), ("deadlock", "timeout")),
    "takes all memory": (double(tail="\nkept = bytearray(1 << 42)"), "memory"),
    "crashes": (double(tail="\nimport ctypes; ctypes.string_at(0)"), "crash"),
    "ends at once": (double(tail="\nimport os; os._exit(0)"), "crash"),
}


@pytest.fixture(scope="module")
def judge():
    with Judge() as one:
        yield one


def expect(verdict, wanted):
    assert verdict.status in ((wanted,) if isinstance(wanted, str) else wanted), str(verdict)


@pytest.mark.parametrize("name", RAGGED)
def test_vectors_of_any_length(judge, name):
    source, wanted = RAGGED[name]
    verdict = judge(source, doubled, VECTORS)
    expect(verdict, wanted)
    assert len(verdict.output) <= 1 << 16


@pytest.mark.parametrize("name", BLOCKED)
def test_whole_blocks(judge, name):
    expect(judge(BLOCKED[name][0], doubled, WHOLE), BLOCKED[name][1])


@pytest.mark.parametrize("name", CHEATS)
def test_cheats(judge, name):
    start = time.monotonic()
    endless = name in ("loops", "sleeps", "endless kernel")
    limits = Limits(seconds=2, cpu=1) if endless else Limits()          # a busy machine is no cheat
    expect(judge(CHEATS[name][0], doubled, VECTORS[:3], limits=limits), CHEATS[name][1])
    assert not endless or time.monotonic() - start < 20, "the limits hold"


def test_after_all_cheats_the_judge_judges(judge):
    assert judge(double(), doubled, VECTORS).ok
