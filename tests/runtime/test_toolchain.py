"""toolchain.py: a disk hit loads no NVRTC, and what is compiled is kept under the version that compiled it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import moye as mo
from moye import env
from moye.cuda.compiler import nvrtc
from moye.runtime import toolchain

COMPILE = """
import sys, moye as mo
from moye.runtime import cache
sys.path.insert(0, {folder!r})
from kernel_on_disk import scale
scale.compile(mo.TensorLike(mo.float32, (64,)), block=32, arch="sm_90a").cubin
maps = open("/proc/self/maps").read()
print("libnvrtc" in maps, "cuda.bindings.nvrtc" in sys.modules)
"""
KERNEL = """
import moye as mo

@mo.kernel
def scale(x):
    x[mo.thread_idx().x] = x[mo.thread_idx().x] * 3
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("MOYE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A file that takes the place of libnvrtc."""
    path = tmp_path / "libnvrtc-of-a-test.so"
    path.write_bytes(b"one")
    monkeypatch.setattr(nvrtc, "library_path", lambda: str(path))
    return path


@pytest.mark.slow
def test_a_disk_hit_loads_no_nvrtc(root, tmp_path):
    (tmp_path / "kernel_on_disk.py").write_text(KERNEL)

    def go():
        done = subprocess.run([sys.executable, "-c", COMPILE.format(folder=str(tmp_path))], check=True,
                              capture_output=True, text=True, env={**os.environ, "MOYE_CACHE_DIR": str(root)})
        return done.stdout.split()
    assert go() == ["True", "True"]
    assert go() == ["False", "False"]


def test_remembers_while_nothing_changes(root, library, monkeypatch):
    assert toolchain.remembered(root) is None
    toolchain.remember(root, "nvrtc-1.0+3")
    assert toolchain.remembered(root) == "nvrtc-1.0+3"
    assert next(toolchain.versions(root)) == "nvrtc-1.0+3"
    monkeypatch.setenv("LD_LIBRARY_PATH", "/another")
    assert toolchain.remembered(root) is None


@pytest.mark.parametrize("change", [
    lambda path: path.write_bytes(b"longer"), lambda path: os.utime(path, (1, 1)), lambda path: path.unlink()])
def test_another_library_is_not_the_one_remembered(root, library, change):
    toolchain.remember(root, "nvrtc-1.0+3")
    change(library)
    assert toolchain.remembered(root) is None


def test_a_package_installed_since_is_noticed(root, library, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    toolchain.remember(root, "nvrtc-1.0+3")
    (tmp_path / "nvidia" / "cu14").mkdir(parents=True)
    assert toolchain.remembered(root) is None


def test_a_loaded_library_is_asked(root):
    version = nvrtc.compiler_version()
    toolchain.remember(root, "nvrtc-1.0+3")
    assert toolchain.remembered(root) is None
    assert list(toolchain.versions(root)) == [version]


def test_an_unknown_library_is_not_remembered(root, monkeypatch):
    monkeypatch.setattr(nvrtc, "library_path", str)
    toolchain.remember(root, "nvrtc-1.0+0")
    assert toolchain.remembered(root) is None
    assert not root.exists()


def test_a_stale_note_is_corrected(root, library):
    """Nothing under the noted version: the kernel is kept under the real one, which is noted from then on."""
    @mo.kernel
    def fill(x):
        x[mo.thread_idx().x] = 11

    toolchain.remember(root, "nvrtc-1.0+3")
    program = fill.compile(mo.TensorLike(mo.float32, (64,)), block=32, arch="sm_80")
    assert toolchain.remembered(root) == nvrtc.compiler_version()
    from moye.runtime.cache import DiskCache, cache_key
    entry = DiskCache(env.cache_dir()).get(cache_key(program.source, ("sm_80",), nvrtc.compiler_version()))
    assert entry == program.cubin
