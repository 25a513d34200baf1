"""The ``moye`` command, called as a user calls it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moye import cli, env
from moye.runtime.cache import DiskCache


@pytest.fixture
def moye(capsys):
    """Run a command line; its output."""
    def run(*args):
        with pytest.raises(SystemExit) as left:
            cli.main(args)
        assert left.value.code == 0, capsys.readouterr()
        return capsys.readouterr().out
    return run


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MOYE_CACHE_DIR", str(tmp_path / "cache"))
    return DiskCache(tmp_path / "cache")


def test_version_names_moye_and_what_it_uses(moye):
    told = moye("version")
    assert told.startswith("moye 0.")
    for package in cli.PACKAGES:
        assert package in told


def test_env_lists_the_whole_table_and_marks_what_is_set(moye, monkeypatch):
    monkeypatch.setenv("MOYE_SHOW", "ir")
    told = moye("env")
    for variable in env.TABLE:
        assert variable.name in told
        assert variable.help in told
    assert "MOYE_SHOW=ir  <- set" in told
    assert told.count("<- set") == 2, "MOYE_SHOW, and the MOYE_CACHE_DIR of all tests"


def test_cache_is_counted_and_cleared(moye, cache):
    assert moye("cache") == f"{cache.root}: 0 kernels, 0.0 KiB\n"
    cache.put("ab" * 32, b"x" * 2000)
    assert moye("cache", "--size").startswith(f"{cache.root}: 1 kernels, 2.0 KiB")
    assert moye("cache", "--clear") == f"{cache.root}: removed 1 kernels\n"
    assert cache.entries() == []


def test_an_unknown_command_is_refused():
    done = subprocess.run([sys.executable, "-m", "moye.cli", "frobnicate"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such command 'frobnicate'" in done.stderr
