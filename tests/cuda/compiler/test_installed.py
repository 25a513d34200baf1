"""installed.py: what lies in the current directory is neither run nor imported; origin.py: where moye came from."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moye import origin
from moye.cuda.compiler import installed

SASS = """
import os, sys
from moye.cuda.compiler import nvrtc
print(nvrtc._disassembler())
cubin = nvrtc.compile_cubin('extern "C" __global__ void k(int* a) { a[0] = 1; }', "k", "sm_80").cubin
print("STG" in nvrtc.sass(cubin))
"""
WORKER = """
import os, sys
from moye.runtime.tuning.worker import Worker
with Worker() as worker:
    print(worker.compile({"source": 'extern "C" __global__ void k(int* a) { a[0] = 1; }', "name": "k",
                          "arch": "sm_80", "flags": [], "no_cache": False, "key": "0123456789", "root": sys.argv[1]}))
"""


def trap(path: Path, marker: Path) -> None:
    """A program that tells that it ran."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch {marker}\n")
    path.chmod(0o755)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current directory full of traps."""
    folder, marker = tmp_path / "here", tmp_path / "ran"
    for tool in ("nvdisasm", "cuobjdump", "ptxas"):
        for place in ("nvidia/cu13/bin", "nvidia/cu99/bin", "triton/backends/nvidia/bin", "bin", "."):
            trap(folder / place / tool, marker)
    for module in ("json", "subprocess", "numpy", "moye", "typer", "ml_dtypes", "sitecustomize"):
        (folder / f"{module}.py").write_text(f"open({str(marker)!r}, 'w')\nraise ImportError('a trap')\n")
    monkeypatch.chdir(folder)
    return folder, marker


def run(code, *args, entry="", **variables):
    """A program whose script lies elsewhere, and whose ``sys.path`` begins with ``entry``."""
    script = Path(os.environ["PYTEST_SCRIPT"])
    script.write_text(f"import sys\nimport json, subprocess, numpy\nfrom moye.cuda.compiler import installed\n"
                      f"sys.path.insert(0, {entry!r})\n{code}")
    return subprocess.run([sys.executable, script, *map(str, args)], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(Path(installed.__file__).parents[3]),
                               **variables}).stdout.split()


@pytest.fixture(autouse=True)
def _script(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_SCRIPT", str(tmp_path / "script.py"))


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["", ".", "HERE", "nvidia/.."])
def test_no_disassembler_of_the_current_directory_is_run(here, entry):
    folder, marker = here
    if installed.program("nvdisasm", "nvidia/cu*/bin") is None:
        pytest.skip("no disassembler is installed")
    path = os.pathsep.join(["", ".", str(folder), os.environ["PATH"]])
    tool, stored = run(SASS, entry=str(folder) if entry == "HERE" else entry, PATH=path, CUDA_HOME=".")
    assert not marker.exists() and stored == "True" and not tool.startswith(str(folder)) and Path(tool).is_absolute()


def test_workers_import_nothing_of_the_current_directory(here, tmp_path):
    assert run(WORKER, tmp_path / "cache") == ["True"]
    assert not here[1].exists()


def test_folders_and_programs(here, monkeypatch, tmp_path):
    folder, _ = here
    package = tmp_path / "site-packages"
    trap(package / "nvidia/cu12/bin/nvdisasm", tmp_path / "ran")
    monkeypatch.setattr(sys, "path", ["", ".", "relative", str(folder), str(tmp_path / "here" / ".." / "here"),
                                      str(package)])
    assert installed.folders() == [str(package)] and str(Path(installed.__file__).parents[3]) in \
        installed.folders(moye=True)
    assert installed.program("nvdisasm", "nvidia/cu*/bin") == package / "nvidia/cu12/bin/nvdisasm"
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", str(folder), "bin", str(folder / "bin")]))
    assert installed.on_path("ptxas") == folder / "bin" / "ptxas"       # which PATH names by a place of its own
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", str(folder), "bin"]))
    assert installed.on_path("ptxas") is None
    monkeypatch.setattr(installed.site, "getsitepackages", lambda: [str(folder)])
    assert str(folder) in installed.folders()           # it is where packages are installed


def test_a_current_directory_that_is_gone(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert all(os.path.isabs(path) for path in installed.folders())
    installed.program("nvdisasm", "nvidia/cu*/bin")


# --- where moye came from --------------------------------------------------------------------------------------------


class Installed:
    def __init__(self, told):
        self.told = told

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.told if self.told is None or isinstance(self.told, str) else json.dumps(self.told)


@pytest.mark.parametrize(("told", "command"), [
    (None, "pip install 'moye[cuda]'"),
    ("junk", "pip install 'moye[cuda]'"),
    ([], "pip install 'moye[cuda]'"),
    ({"url": "file:///home/me/my%20moye", "dir_info": {}}, "pip install '/home/me/my moye[cuda]'"),
    ({"url": "https://x.org/moye.git", "vcs_info": {"vcs": "git"}},
     "pip install 'moye[cuda] @ git+https://x.org/moye.git'"),
])
def test_commands_name_where_moye_came_from(told, command, monkeypatch, tmp_path):
    monkeypatch.setattr(origin, "__file__", str(tmp_path / "site-packages" / "moye" / "origin.py"))
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(told))
    origin.pip_install.cache_clear()
    try:
        assert origin.pip_install("cuda") == command
    finally:
        origin.pip_install.cache_clear()


def test_a_checkout_is_installed_where_it_lies():
    root = Path(origin.__file__).resolve().parents[2]
    assert origin.pip_install("sass") == f"pip install -e '{root}[sass]'"
