"""autotune: pruning, parallel compilation, the choice, the disk; the device's clock is a stub."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest

import moye as mo
from moye import env
from moye.cuda.device import driver, events
from moye.errors import ArgumentError, CompileError, LaunchError
from moye.kernels import TileConfig
from moye.runtime import arguments as classifying
from moye.runtime import arrays
from moye.runtime.cache import DiskCache
from moye.runtime.prepare import compile_only
from moye.runtime.tuning import precompile as parallel
from moye.runtime.tuning import tune
from moye.runtime.tuning.fingerprint import fingerprint
from moye.runtime.tuning.tune import Config, autotune


@mo.kernel
def scale(x, y, n: mo.Constexpr):
    tile = mo.make_layout(n)
    gx, gy = mo.tile(x, (n,), (mo.block_idx().x,)), mo.tile(y, (n,), (mo.block_idx().x,))
    for i in mo.static_range(mo.size(tile) // 32):
        gy[mo.thread_idx().x + 32 * i] = gx[mo.thread_idx().x + 32 * i] * 2.0


def launch(x, y, *, n, threads=32):
    scale[mo.ceil_div(x.shape[0], n), threads](x, y, n)


CONFIGS = [Config(n=96), Config(n=64), Config(n=128)]


class OnDevice(mo.TensorLike):
    """A specification that says it is on device 0."""

    def info(self):
        return super().info()._replace(device=0)


@pytest.fixture
def device(monkeypatch, tmp_path):
    """Device 0, on which a launch of tile n takes 1/n ms; compiling is real."""
    monkeypatch.setenv("MOYE_CACHE_DIR", str(tmp_path))
    limits = driver.DeviceLimits("Stub 1000", "sm_90a", 1024, 232448, 233472, 2048, 132)
    monkeypatch.setattr(driver, "device_limits", lambda ordinal: limits)
    monkeypatch.setattr(driver, "current_stream", lambda ordinal, kind="": 0)
    monkeypatch.setattr(events, "capturing", lambda stream, ordinal: False)
    timed, real = [], arrays.describe
    for module in (arrays, classifying):
        monkeypatch.setattr(module, "describe", lambda v: v.info() if isinstance(v, OnDevice) else real(v))

    def times(candidates, problem, *, restore):
        timed.append([c.config for c in candidates])
        return {c.config: 1 / c.config["n"] for c in candidates}
    monkeypatch.setattr(tune, "timed", times)
    return timed


def like(n):
    return OnDevice(mo.float32, (n,))


# --- configurations --------------------------------------------------------------------------------------------------


def test_config():
    assert Config(BM=128, stages=3) == Config({"stages": 3, "BM": 128})
    assert len({Config(BM=1), Config({"BM": 1}), Config(BM=2)}) == 2
    assert Config(BM=128, stages=3).kwargs == {"BM": 128, "stages": 3}
    assert str(Config(BM=128, stages=3)) == "BM=128, stages=3"
    assert str(Config(tile=TileConfig(128, 64, 16, 3, 8, 8, 2, 2, 4))) == \
        "tile=TileConfig(bM=128, bN=64, bK=16, stages=3, tM=8, tN=8, wM=2, wN=2, blocks=4)"
    assert str(Config(tile=TileConfig(1, 1, 1, 1, 1, 1, 1, 1, 1, lM=16))).endswith("blocks=1, lM=16)")


def test_declarations_are_checked():
    with pytest.raises(ArgumentError, match="at least one configuration"):
        autotune([])
    with pytest.raises(ArgumentError, match="name different arguments"):
        autotune([Config(a=1), Config(b=1)])
    with pytest.raises(ArgumentError, match="has no argument q"):
        autotune(CONFIGS, key=["q"])(launch)
    with pytest.raises(ArgumentError, match=r"each a mo\.Config"):
        autotune([{"n": 64}])
    with pytest.raises(ArgumentError, match="key='xy' is no list of the names of arguments"):
        autotune(CONFIGS, key="xy")
    with pytest.raises(ArgumentError, match=r"autotune decorates a function of the host, and <mo\.kernel scale"):
        autotune([Config(n=32)])(scale)
    with pytest.raises(ArgumentError, match="autotune decorates functions, not 3"):
        autotune(CONFIGS)(3)
    with pytest.raises(ArgumentError, match=r"^Config: n is a list, which has no hash"):
        Config(n=[64])


# --- host arrays -----------------------------------------------------------------------------------------------------


def test_host_arrays_take_the_first_legal_configuration_and_say_so_once(capsys):
    tuned = autotune(CONFIGS)(launch)
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    tuned(x, y)                                         # 96 does not divide 256
    assert np.array_equal(y, 2 * x)
    assert tuned.best(x, y) == Config(n=64)
    tuned(x[:128], y[128:])
    said = capsys.readouterr().err
    assert said.count("first legal configuration is taken (n=64)") == 1


def test_given_arguments_are_not_tuned():
    tuned = autotune(CONFIGS)(launch)
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    tuned(x, y, n=128)
    assert np.array_equal(y, 2 * x)
    assert tuned.report() == "launch"


def test_given_by_position_they_are_not_tuned_either():
    def by_position(n, *arrays):
        launch(*arrays, n=n)

    tuned = autotune(CONFIGS)(by_position)
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    tuned(128, x, y)
    assert np.array_equal(y, 2 * x)
    assert tuned.report() == "by_position"


def test_no_legal_configuration():
    tuned = autotune([Config(n=96), Config(n=192)])(launch)
    x = np.zeros(256, np.float32)
    with pytest.raises(LaunchError, match=r"none of the 2 configurations of launch is legal(.|\n)*n=96: Precond"):
        tuned(x, x.copy())


# --- tensor maps -----------------------------------------------------------------------------------------------------


@mo.kernel
def fetch(copy, y, n: mo.Constexpr):
    sx, full = mo.shared_array(copy.dtype, copy.smem_layout), mo.mbarrier_array(1)
    if mo.thread_idx().x == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, copy.bytes)
        mo.copyto(copy, sx, mo.tile(copy.tensor, copy.tile, (0, 0)), barrier=(full, 0))
    mo.sync_threads()
    mo.mbarrier_wait(full, 0, 0)
    y[mo.thread_idx().x] = sx[0, mo.thread_idx().x] * n


def tile_of(x, layout=((16, 64), (64, 1))):
    return mo.make_tma_copy(mo.TmaLoad(), x, mo.make_layout(*layout))


def fetched(pair, *, n):
    copy, y = pair
    fetch[1, 32](copy, y, n)


@pytest.mark.slow
def test_tma_copies_count_by_value(device):
    tuned = autotune(CONFIGS, progress=False)(fetched)
    x, y = OnDevice(mo.float32, (32, 128), (128, 1)), like(64)
    assert tuned.best((tile_of(x), y)) == tuned.best((tile_of(x), y)) == Config(n=128)
    assert len(device) == 1
    assert f"pair: tuple(0: tma({mo.TmaLoad()!r}, (16,64):(64,1), None, 1) of float32 (32, 128):(4n, 1) align 16" in \
        tuned.report()
    autotune(CONFIGS, progress=False)(fetched).best((tile_of(x), y))
    assert len(device) == 1                             # from the disk
    tuned.best((tile_of(x, ((8, 64), (64, 1))), y))
    tuned.best((tile_of(OnDevice(mo.float32, (64, 128), (128, 1))), y))
    assert len(device) == 3


# --- devices ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_fastest_legal_configuration_wins(device):
    tuned = autotune(CONFIGS, key=["x"], progress=False)(launch)
    assert tuned.best(like(256), like(256)) == Config(n=128)
    assert device == [[Config(n=64), Config(n=128)]]
    report = tuned.report()
    assert "x: float32 (256):(1) align 16 on Stub 1000" in report
    assert "n=128      0.0078 ms   1.00x" in report and "PreconditionError" in report
    assert tuned.best(like(256), like(256)) == Config(n=128)
    assert len(device) == 1
    tuned.best(like(384), like(384))                    # another key
    assert device[1] == CONFIGS


def test_what_the_simulator_takes_is_no_choice_for_a_device(device, capsys):
    """Where the key names no array either."""
    tuned = autotune(CONFIGS, key=["threads"], progress=False)(launch)
    host = np.zeros(256, np.float32)
    assert tuned.best(host, host.copy()) == Config(n=64)
    assert tuned.best(like(256), like(256)) == Config(n=128)


@pytest.mark.slow
def test_a_key_may_be_asked_of_the_arguments(device):
    def many(*, threads, **_):
        return threads > 64

    tuned = autotune(CONFIGS, key=["x", many], progress=False)(launch)
    for threads, searches in ((32, 1), (64, 1), (128, 2), (96, 2)):
        tuned.best(like(256), like(256), threads=threads)
        assert len(device) == searches
    assert "align 16, many: True on Stub" in tuned.report()


def test_a_report_counts_what_was_dropped_for_one_reason(device):
    tuned = autotune([*CONFIGS, Config(n=32)], progress=False,
                     prune=lambda config, x, y, threads: "no multiple of 64" if config["n"] % 64 else False)(launch)
    tuned.best(like(256), like(256))
    assert tuned.report().splitlines()[3:] == ["  n=128                 0.0078 ms   1.00x",
                                               "  n=64                  0.0156 ms   2.00x",
                                               "  2 configurations  - no multiple of 64"]


def test_compiled_programs_come_from_worker_processes(device, monkeypatch, tmp_path):
    tuned = autotune(CONFIGS, progress=False)(launch)
    used = []
    real = parallel.Worker.compile
    monkeypatch.setattr(parallel.Worker, "compile", lambda self, request: used.append(real(self, request)) or used[-1])
    tuned.best(like(256), like(256))
    assert used == [True, True]
    kinds = sorted(DiskCache(tmp_path).get_entry(entry.key)[1]["kernel"] for entry in DiskCache(tmp_path).entries())
    assert kinds == ["autotune launch", "scale", "scale"]


def test_a_result_is_found_on_disk_until_the_source_changes(device, tmp_path):
    autotune(CONFIGS, progress=False)(launch).best(like(256), like(256))
    again = autotune(CONFIGS, progress=False)(launch)
    assert again.best(like(256), like(256)) == Config(n=128)
    assert len(device) == 1
    assert "from the disk cache" in again.report()
    autotune(CONFIGS[1:], progress=False)(launch).best(like(256), like(256))
    assert len(device) == 1                             # all of these are known

    def other(x, y, *, n):
        scale[mo.ceil_div(x.shape[0], n), 32](x, y, n)
    other.__name__ = "launch"
    autotune(CONFIGS, progress=False)(other).best(like(256), like(256))
    assert len(device) == 2


@pytest.mark.slow
def test_a_new_configuration_is_tried_beside_the_best_of_those_before(device):
    autotune(CONFIGS, progress=False)(launch).best(like(512), like(512))
    more = autotune([*CONFIGS, Config(n=256)], progress=False)(launch)
    assert more.best(like(512), like(512)) == Config(n=256)
    assert device[1:] == [[Config(n=128), Config(n=256)]]
    assert "n=96" in more.report() and "from the disk cache" not in more.report()
    autotune([Config(n=256), *CONFIGS], progress=False)(launch).best(like(512), like(512))
    assert len(device) == 2


def test_prune(device):
    seen = []

    def prune(config, x, y, threads):
        seen.append((x.shape, threads))
        return "too large" if config["n"] > 64 else False
    tuned = autotune(CONFIGS, prune=prune, progress=False)(launch)
    assert tuned.best(like(192), like(192)) == Config(n=64)
    assert seen == [((192,), 32)] * 3
    assert "too large" in tuned.report()


def test_a_configuration_that_does_not_compile_drops_out(device, monkeypatch):
    real = parallel.Job.compile

    def compile_(job):
        if "64" in str(job.call.specs["n"].value):
            raise CompileError("NVRTC rejected it")
        return real(job)
    monkeypatch.setattr(parallel.Job, "compile", compile_)
    tuned = autotune(CONFIGS, progress=False)(launch)
    assert tuned.best(like(256), like(256)) == Config(n=128)
    assert "CompileError: NVRTC rejected it" in tuned.report()


@mo.kernel
def kept(x, y, n: mo.Constexpr):
    s = mo.shared_array(mo.float32, mo.make_layout(n))
    s[mo.thread_idx().x] = x[mo.thread_idx().x]
    mo.sync_threads()
    y[mo.thread_idx().x] = s[31 - mo.thread_idx().x]


def test_what_the_device_has_no_room_for_is_not_compiled(device, monkeypatch):
    small = replace(driver.device_limits(0), max_smem=320)
    monkeypatch.setattr(driver, "device_limits", lambda ordinal: small)
    compiled, real = [], parallel._Crew.compile
    monkeypatch.setattr(parallel._Crew, "compile", lambda self, job: (compiled.append(job), real(self, job)))
    tuned = autotune([Config(n=n) for n in (64, 80, 96)], progress=False)(lambda x, y, *, n: kept[1, 32](x, y, n))
    assert tuned.best(like(64), like(64)) == Config(n=80)
    assert len(compiled) == 2
    assert "n=96  - shared memory takes 384 bytes of a block, and the device has 320" in tuned.report()


def test_a_configuration_that_the_function_refuses_drops_out(device):
    def picky(x, y, *, n):
        if n == 128:
            raise ArgumentError(f"no tile of {n}")
        launch(x, y, n=n)
    tuned = autotune(CONFIGS, progress=False)(picky)
    assert tuned.best(like(256), like(256)) == Config(n=64)
    assert "ArgumentError: no tile of 128" in tuned.report()


def test_an_error_of_every_configuration_is_the_callers(device):
    def strict(x, y, *, n):
        raise ArgumentError(f"x has {x.shape[0]} elements")
    with pytest.raises(ArgumentError, match=r"^x has 256 elements$"):
        autotune(CONFIGS, progress=False)(strict)(like(256), like(256))
    with pytest.raises(ArgumentError, match=r"^x has 256 elements$"):
        autotune(CONFIGS, prune=lambda config, x, y: config["n"] == 96, progress=False)(strict)(like(256), like(256))
    with pytest.raises(LaunchError, match=r"is legal:\n  2 configurations: pruned\n  n=128: ArgumentError: x has 256"):
        autotune(CONFIGS, prune=lambda config, x, y: config["n"] < 128, progress=False)(strict)(like(256), like(256))


def test_configurations_are_compiled_while_others_are_traced(device, monkeypatch):
    begun, real = threading.Event(), parallel._Crew.compile
    monkeypatch.setattr(parallel._Crew, "compile", lambda self, job: (begun.set(), real(self, job)))

    def waiting(x, y, *, n):
        assert n == 64 or begun.wait(60), "tracing ended before compiling began"
        launch(x, y, n=n)
    assert autotune(CONFIGS[1:], progress=False)(waiting).best(like(256), like(256)) == Config(n=128)


def test_two_configurations_are_compiled_at_once(device, monkeypatch):
    monkeypatch.setattr(parallel, "_cores", lambda: 2)
    both, real = threading.Barrier(2), parallel.Worker.compile

    def compile_(worker, request):
        both.wait(60)                                   # raises unless both are here
        return real(worker, request)
    monkeypatch.setattr(parallel.Worker, "compile", compile_)
    tuned = autotune(CONFIGS[1:], progress=False)(launch)
    assert tuned.best(like(256), like(256)) == Config(n=128)
    assert not both.broken


def test_threads_compile_where_there_is_no_disk_cache(device, monkeypatch):
    monkeypatch.setenv("MOYE_DISK_CACHE", "0")
    monkeypatch.setattr(parallel, "Worker", None)
    assert autotune(CONFIGS, progress=False)(launch).best(like(256), like(256)) == Config(n=128)


def test_no_tuning_within_a_capture(device, monkeypatch):
    monkeypatch.setattr(events, "capturing", lambda stream, ordinal: True)
    with pytest.raises(LaunchError, match="while its stream is captured"):
        autotune(CONFIGS)(launch)(like(256), like(256))


def test_under_compile_only_nothing_is_timed(device):
    with compile_only("sm_80") as gathered:
        (tuned := autotune(CONFIGS, progress=False)(launch))(like(256), like(256))
    assert device == [] and len(gathered.programs) == 1
    assert tuned.best(like(256), like(256)) == Config(n=128)        # the first legal one is not remembered


def test_one_line_without_a_terminal(device, capsys):
    autotune(CONFIGS)(launch).best(like(256), like(256))
    assert capsys.readouterr().err == "moye: tuned launch over 3 configurations\n"


SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import moye as mo
from moye import env
from moye.runtime.tuning.precompile import precompile
from moye.runtime.prepare import compile_only

@mo.kernel
def fill(x, v: mo.Constexpr):
    x[mo.thread_idx().x] = v

print("top level")
with compile_only("sm_90a", trace_only=True) as gathered:
    for v in range(3):
        fill[1, 32](mo.TensorLike(mo.float32, (32,)), v)
print(precompile(gathered.jobs, lambda done: None, workers=2), len(gathered.jobs))
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_not_run_again(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.format(here=str(tmp_path)))
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=120,
                          check=True)
    assert done.stdout == "top level\n{} 3\n"


@pytest.mark.slow
def test_fingerprints():
    def make(constant):
        def f(x):
            return x * constant
        return f
    assert fingerprint(make(1)) == fingerprint(make(1)) != fingerprint(make(2))
    assert fingerprint(launch) != fingerprint(scale)
    with warnings.catch_warnings():
        warnings.simplefilter("error")                  # NumPy warns of names that it will have, or had
        assert fingerprint(lambda x: np.zeros(x.bytes)) != fingerprint(lambda x: np.ones(x.bytes))
    code = ("import importlib.util as u; s = u.spec_from_file_location('t', %r); m = u.module_from_spec(s); "
            "s.loader.exec_module(m); from moye.runtime.tuning.fingerprint import fingerprint; "
            "print(fingerprint(m.launch))")
    done = subprocess.run([sys.executable, "-c", code % __file__], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fingerprint(launch)
    assert env.disk_cache()


INDIRECT = """
import functools
@functools.lru_cache
def cached(n): return n * {cached}
class Sizes:
    @property
    def rows(self): return {rows}
    @staticmethod
    def columns(): return {columns}
def helper(x): return x + {helper}
TABLE = {{"a": [helper]}}
def made(n): return lambda x: x * n
one, two = made(1), made({two})
def half(x, y): return x * {half}
twice = functools.partial(half, {twice})
def default(x): return x + {default}
def function(A, h=default): return cached(1), Sizes().rows, TABLE["a"][0](2), one(1), two(2), twice(3), h(4)
"""
NUMBERS = {"cached": 2, "rows": 3, "columns": 4, "helper": 5, "two": 6, "half": 7, "twice": 8, "default": 9}


def test_fingerprints_follow_what_functions_are_kept_in():
    def of(**changed):
        namespace = {"__name__": "somewhere"}
        exec(INDIRECT.format(**(NUMBERS | changed)), namespace)
        return fingerprint(namespace["function"])

    assert of() == of()
    assert len({of(), *(of(**{name: 99}) for name in NUMBERS)}) == 1 + len(NUMBERS)


def test_the_kernels_that_are_tuned_are_followed_through_their_caches(monkeypatch):
    before = fingerprint(mo.kernels.gemm_sm90)
    plan = inspect.unwrap(importlib.import_module("moye.kernels.gemm.sm90.plan").make_plan)
    monkeypatch.setattr(plan, "__code__", plan.__code__.replace(co_consts=(*plan.__code__.co_consts, 12345)))
    assert fingerprint(mo.kernels.gemm_sm90) != before


@pytest.mark.slow
@pytest.mark.parametrize("imports", ["", "import xml.dom.minidom, decimal; "])
def test_fingerprints_do_not_depend_on_what_else_a_process_imports(imports):
    """Or a result would be looked up under another key once torch is there."""
    code = imports + ("import moye; from moye.runtime.tuning.fingerprint import fingerprint; "
                      "print(fingerprint(moye.kernels.tuned_gemm_sm90))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fingerprint(mo.kernels.tuned_gemm_sm90)


def test_fingerprints_stop_at_the_standard_library(monkeypatch):
    before = fingerprint(mo.kernels.gemm_sm90)
    monkeypatch.setattr(inspect.signature, "__defaults__", (1,))
    assert fingerprint(mo.kernels.gemm_sm90) == before
