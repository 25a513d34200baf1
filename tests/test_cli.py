"""The ``moye`` command, called as a user calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from moye import cli, env
from moye.runtime.cache import DiskCache
from moye.sim.findings.codes import CODES
from moye.sim.findings.groups import explanation


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


@pytest.mark.parametrize("code", ["D3", "d3"])
def test_a_code_is_explained(moye, code):
    told = moye("explain", code).splitlines()
    assert told[0] == "D3: waited for, but no block barrier before other threads read"
    assert told[1] == "found in the simulator"
    assert "hint: sync_threads() after cp_async_wait()" in told and "MOYE_CHECK=races,copies looks for it" in told
    assert told[-1].endswith("docs/checker.md, D3; in the site checker.html#d3")


def test_every_code_has_an_explanation_without_holes():
    for code in CODES:
        assert "{" not in explanation(code) and explanation(code).startswith(f"{code}: ")


def test_a_code_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit, match="there is no class 'Z9' of defects; the classes are A1, A2, "):
        cli.main(["explain", "Z9"])


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


@pytest.mark.slow
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
    (["script.py", "1", "-o", "script.py/out.svg"], "timeline: cannot write script.py/out.svg: Not a directory"),
    (["script.py", "-o", "out.png"], "a timeline is written as .svg, .json or .txt, not '.png'"),
])
def test_timelines_that_cannot_be(script, arguments, message):
    with pytest.raises(SystemExit) as left:
        cli.main(["timeline", *arguments])
    assert message in str(left.value.code)


# --- moye check ------------------------------------------------------------------------------------------------------

PROGRAM = '''
import sys
import numpy as np
import moye as mo

@mo.kernel
def double(x):
    x[mo.thread_idx().x + 32 * mo.block_idx().x] = 2.0

@mo.kernel
def races(x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 64)
    staged[tid] = x[tid]
    x[tid] = staged[63 - tid]

@mo.kernel
def refused(x):
    raise mo.TensorError("nonsense", code="A5")

x = np.zeros(128, np.float32)

def run(name, times=1):
    for _ in range(times):
        {"double": double, "races": races, "refused": refused}[name][1, 64](x)

def grid():
    double[4, 32](x)

def fails():
    raise ValueError("mine\\nand more")

def leaves(code):
    sys.exit(code)

if __name__ == "__main__":
    for name in sys.argv[1:]:
        if name == "--double":
            name = "double"
        run(name)
'''


@pytest.fixture
def check(script, capsys):
    """``moye check program.py...``: (status, stdout, stderr)."""
    (script.parent / "program.py").write_text(PROGRAM)

    def run(*args):
        with pytest.raises(SystemExit) as left:
            cli.main(["check", *args])
        out, err = capsys.readouterr()
        return left.value.code, out, err
    return run


def test_check_of_a_clean_program_folds_what_is_alike(check):
    status, out, err = check("program.py", "double", "double", "--double")
    assert (status, err) == (0, "")
    assert out == ("double[(1, 1, 1), (64, 1, 1)]: clean for this launch (3 times)\n"
                   "program.py: 3 launches of 1 kernel, no findings\n")


def test_check_shows_a_finding_once_and_exits_with_1(check):
    status, out, _ = check("program.py", "double", "races", "races", "double")
    lines = out.splitlines()
    assert status == 1
    assert lines[0] == "double[(1, 1, 1), (64, 1, 1)]: clean for this launch"
    assert lines[1] == "races[(1, 1, 1), (64, 1, 1)]: 1 finding" and lines[2].startswith("C1: staged(")
    assert out.count("C1: ") == 1 and "races[(1, 1, 1), (64, 1, 1)]: 1 finding, as above" in lines
    assert lines[-1] == "program.py: 4 launches of 2 kernels, 2 launches with findings"


def test_check_of_a_function_with_arguments(check):
    status, out, _ = check("program.py::run", "double", "2")
    assert status == 0 and "(2 times)" in out and out.endswith("program.py::run: 2 launches of 1 kernel, no findings\n")


def test_check_of_a_sample(check):
    status, out, _ = check("--blocks", "2", "program.py::grid")
    assert status == 0 and "double[(4, 1, 1), (32, 1, 1)]: clean for this launch, 2 of 4 blocks" in out


def test_a_refused_launch_that_ends_the_program_is_a_violation(check):
    status, out, err = check("program.py", "refused")
    assert status == 1 and "A5: nonsense" in out and "Traceback" not in err
    assert "1 launch with findings; the program failed: TensorError: A5: nonsense" in out


def test_a_program_that_fails_itself(check):
    status, out, err = check("program.py::fails")
    assert status == 2 and "ValueError: mine" in err
    assert out == "program.py::fails: 0 launches of 0 kernels, no findings; the program failed: ValueError: mine\n"
    assert check("program.py::leaves", "0")[0] == 0
    assert check("program.py::leaves", "3")[:2] == (
        2, "program.py::leaves: 0 launches of 0 kernels, no findings; the program failed: it exited with 3\n")
    assert check("program.py", "races", "nonsense")[0] == 1, "a violation comes first"


@pytest.mark.parametrize(("arguments", "message"), [
    (["nowhere.py"], "there is no script nowhere.py"),
    (["program.py::nothing"], "program.py has no function nothing"),
    (["--blocks", "0", "program.py"], "Invalid value for '--blocks'"),
    ([], "Missing argument"),
])
def test_programs_that_cannot_be_checked(check, arguments, message):
    status, out, err = check(*arguments)
    assert status == 2 and message in err and out == ""


def test_check_writes_json(check, tmp_path):
    status, _, _ = check("program.py", "races", "double", "--json", "found.json")
    data = json.loads((tmp_path / "found.json").read_text())
    assert status == 1 and (data["target"], data["status"], data["failure"]) == ("program.py", 1, None)
    assert [launch["ok"] for launch in data["launches"]] == [False, True]
    assert data["launches"][0]["findings"][0]["code"] == "C1"
    assert check("program.py", "--json", "no/such/folder.json")[0] == 2


def test_check_fails_on_what_is_not_judged_if_asked_to(check, tmp_path):
    (tmp_path / "chain.py").write_text(
        "import numpy as np\nimport moye as mo\n\n@mo.kernel\ndef chain(flags):\n    bx, _, _ = mo.block_idx()\n"
        "    if bx > 0:\n        while mo.load(flags, bx - 1) == 0:\n            pass\n    mo.store(flags, bx, 1)\n\n"
        "chain[8, 1](np.zeros(8, np.int32))\n")
    assert check("chain.py")[0] == 0
    status, out, _ = check("--blocks", "2", "chain.py")
    assert status == 0 and "unsupported: block" in out and "1 not judged completely" in out
    assert check("--blocks", "2", "--fail-on-unsupported", "chain.py")[0] == 1


def test_python_m_moye_is_the_command():
    done = subprocess.run([sys.executable, "-m", "moye", "explain", "C7"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("C7: a shuffle that reads an inactive lane")
