"""The ``moye`` command, called as a user calls it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

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


def test_cache_is_listed_and_cleared(moye, cache):
    assert moye("cache", "ls") == f"{cache.root}: 0 kernels, 0.0 KiB\n"
    cache.put("ab" * 32, b"x" * 2000, {"kernel": "matmul", "arch": "sm_90a"})
    cache.put("cd" * 32, b"x" * 20)
    hours_ago = time.time() - 3 * 3600 - 5
    os.utime(cache.root / "ab" / f"{'ab' * 32}.bin", (hours_ago, hours_ago))
    for _ in range(2):                                  # listing an entry is no use of it
        header, newest, oldest, total = moye("cache", "ls").splitlines()
        assert header.split() == ["key", "kernel", "arch", "bytes", "age"]
        assert newest.split() == ["cdcdcdcdcdcd", "?", "?", str(cache.entries()[0].size), "0", "s"]
        assert oldest.split() == ["abababababab", "matmul", "sm_90a", str(cache.entries()[1].size), "3", "h"]
        assert total == f"{cache.root}: 2 kernels, {cache.size() / 1024:.1f} KiB"
    assert moye("cache", "clear") == f"{cache.root}: removed 2 kernels\n"
    assert cache.entries() == []


def test_a_damaged_entry_is_listed_as_unknown(moye, cache):
    cache.put("ab" * 32, b"x" * 2000, {"kernel": "matmul", "arch": "sm_90a"})
    (cache.root / "ab" / f"{'ab' * 32}.bin").write_bytes(b"nonsense")
    assert moye("cache", "ls").splitlines()[1].split()[:4] == ["abababababab", "?", "?", "8"]


@pytest.mark.parametrize(("seconds", "told"), [(-3, "0 s"), (59, "59 s"), (61, "1 min"), (7300, "2 h"), (9e5, "10 d")])
def test_ages(seconds, told):
    assert cli._age(seconds) == told


def test_an_unknown_command_is_refused():
    done = subprocess.run([sys.executable, "-m", "moye.cli", "frobnicate"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such command 'frobnicate'" in done.stderr


SCRIPT = '''
import sys
import numpy as np
import moye as mo

@mo.kernel
def fill(x, value):
    x[mo.thread_idx().x] = value

assert __name__ == "__main__"
x = np.zeros(32, np.float32)
for value in map(float, sys.argv[1:]):
    fill[1, 32](x, value)
    assert (x == value).all()
'''


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_timeline_draws_a_launch_of_a_script(moye, script, tmp_path):
    told = moye("timeline", str(script), "1", "2.5", "-o", "out.json")
    assert "fill[(1, 1, 1), (32, 1, 1)], block 0: 1 events of 1 warps" in told
    assert told.endswith("out.json: launch 1 of 2 launches\n")
    assert '"ph": "X"' in (tmp_path / "out.json").read_text()
    moye("timeline", str(script), "1")
    assert (tmp_path / "timeline.svg").read_text().startswith("<svg")
    moye("timeline", str(script), "1", "2", "--launch", "0", "--output", "out.txt")
    assert "x[mo.thread_idx().x] = value" in (tmp_path / "out.txt").read_text()


@pytest.mark.parametrize(("arguments", "message"), [
    (["nowhere.py"], "there is no script nowhere.py"),
    (["script.py"], "script.py launched nothing in the simulator"),
    (["script.py", "1", "--launch", "3"], "there is no launch 3: script.py made 1 launch in the simulator"),
    (["script.py", "-o", "out.png"], "a timeline is written as .svg, .json or .txt, not '.png'"),
])
def test_timelines_that_cannot_be(script, arguments, message):
    with pytest.raises(SystemExit) as left:
        cli.main(["timeline", *arguments])
    assert message in str(left.value.code)
