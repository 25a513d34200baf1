"""autotune: keys, pruning, parallel compilation, the choice, the disk; the device's clock is a stub."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import moye as mo
from moye import env
from moye.cuda import driver, events
from moye.errors import ArgumentError, CompileError, LaunchError
from moye.runtime import precompile as parallel
from moye.runtime import tune
from moye.runtime.cache import DiskCache
from moye.runtime.fingerprint import fingerprint
from moye.runtime.prepare import compile_only
from moye.runtime.tune import Config, autotune


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
    monkeypatch.setattr(tune, "describe", lambda v: v.info() if isinstance(v, mo.TensorLike) else None)
    timed = []

    def times(candidates, call, infos, ordinal, kind):
        timed.append([c.config for c in candidates])
        return {c.config: 1 / c.config["n"] for c in candidates}
    monkeypatch.setattr(tune, "_timed", times)
    return timed


def like(n):
    return OnDevice(mo.float32, (n,))


# --- configurations --------------------------------------------------------------------------------------------------


def test_config():
    assert Config(BM=128, stages=3) == Config({"stages": 3, "BM": 128})
    assert len({Config(BM=1), Config({"BM": 1}), Config(BM=2)}) == 2
    assert Config(BM=128, stages=3).kwargs == {"BM": 128, "stages": 3}
    assert str(Config(BM=128, stages=3)) == "BM=128, stages=3"


def test_declarations_are_checked():
    with pytest.raises(ArgumentError, match="at least one configuration"):
        autotune([])
    with pytest.raises(ArgumentError, match="name different arguments"):
        autotune([Config(a=1), Config(b=1)])
    with pytest.raises(ArgumentError, match="has no argument q"):
        autotune(CONFIGS, key=["q"])(launch)


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


def test_no_legal_configuration():
    tuned = autotune([Config(n=96), Config(n=192)])(launch)
    x = np.zeros(256, np.float32)
    with pytest.raises(LaunchError, match=r"none of the 2 configurations of launch is legal(.|\n)*n=96: Precond"):
        tuned(x, x.copy())


# --- devices ---------------------------------------------------------------------------------------------------------


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
    assert len(device) == 2

    def other(x, y, *, n):
        scale[mo.ceil_div(x.shape[0], n), 32](x, y, n)
    other.__name__ = "launch"
    autotune(CONFIGS, progress=False)(other).best(like(256), like(256))
    assert len(device) == 3


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
        autotune(CONFIGS)(launch)(like(256), like(256))
    assert device == [] and len(gathered.programs) == 1


def test_one_line_without_a_terminal(device, capsys):
    autotune(CONFIGS)(launch).best(like(256), like(256))
    assert capsys.readouterr().err == "moye: tuned launch over 3 configurations\n"


SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import moye as mo
from moye import env
from moye.runtime.precompile import precompile
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


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.format(here=str(tmp_path)))
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=120,
                          check=True)
    assert done.stdout == "top level\n{} 3\n"


def test_fingerprints():
    def make(constant):
        def f(x):
            return x * constant
        return f
    assert fingerprint(make(1)) == fingerprint(make(1)) != fingerprint(make(2))
    assert fingerprint(launch) != fingerprint(scale)
    code = ("import importlib.util as u; s = u.spec_from_file_location('t', %r); m = u.module_from_spec(s); "
            "s.loader.exec_module(m); from moye.runtime.fingerprint import fingerprint; print(fingerprint(m.launch))")
    done = subprocess.run([sys.executable, "-c", code % __file__], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fingerprint(launch)
    assert env.disk_cache()
