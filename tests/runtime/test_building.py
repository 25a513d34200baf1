"""``moye build``: what of a module it exports, how arguments are written, and what is refused."""

from __future__ import annotations

import pytest

import moye as mo
from moye import cli
from moye.runtime.building import argument, exports_of, listed, loaded

MODULE = '''
"""Kernels of a test."""
import moye as mo

@mo.kernel
def fill(y, value, count: mo.Constexpr = 4):
    for i in mo.static_range(count):
        y[i] = value

like = mo.TensorLike(mo.float32, (8,))
ONE = mo.Export(fill, [mo.Specialisation(like, 1.0, block=32)], name="fill_4", grid=1, arch="sm_90a")
TWO = [ONE, mo.Export(fill, [mo.Specialisation(like, 1.0, 2, block=32)], arch="sm_90a")]
'''


@pytest.fixture
def kernels(tmp_path):
    path = tmp_path / "some_kernels.py"
    path.write_text(MODULE)
    return str(path)


def moye(*args):
    with pytest.raises(SystemExit) as left:
        cli.main([str(x) for x in args])
    return left.value.code


def test_a_kernel_with_arguments(kernels, tmp_path, capsys):
    assert moye("build", f"{kernels}:fill", "float32[8]", "2.0", "count=2", "--block", "32,2", "--arch", "sm_80",
                "--arch", "sm_90a", "--name", "fill_2", "-o", tmp_path / "out") == 0
    assert capsys.readouterr().out == f"{tmp_path}/out/fill_2.h\n{tmp_path}/out/fill_2.c: fill_2\n"
    text = (tmp_path / "out/fill_2.h").read_text()
    assert "block (32, 2, 1)" in text and "sm_80" in text and "sm_90a" in text


def test_exports_of_a_module(kernels, tmp_path, capsys):
    assert [x.function for x in exports_of(kernels)] == ["fill_4", "fill"]
    assert [x.function for x in exports_of(f"{kernels}:TWO")] == ["fill_4", "fill"]
    one, = exports_of(f"{kernels}::ONE", arch=["sm_80"], name="f")
    assert (one.function, one.arch) == ("f", ("sm_80",))
    assert moye("build", "--list", kernels) == 0
    assert capsys.readouterr().out.splitlines() == [
        "fill: kernel fill(y, value, count: mo.Constexpr = 4)",
        "ONE: fill_4, 1 specialisation, its own grid",
        "TWO: fill_4, 1 specialisation, its own grid", "TWO: fill, 1 specialisation, the caller's grid"]
    (tmp_path / "empty.py").write_text("x = 1\n")
    assert list(listed(str(tmp_path / "empty.py"))) == []


@pytest.mark.parametrize("text, value", [
    ("float16[4, 8]", mo.TensorLike(mo.float16, (4, 8))),
    ("bfloat16[4,8:8,1]@4", mo.TensorLike(mo.bfloat16, (4, 8), (8, 1), 4)),
    ("int32[]", mo.TensorLike(mo.int32, ())), ("2.5", 2.5), ("-3", -3), ("True", True), ("(2, 4)", (2, 4)),
    ("'add'", "add"),
])
def test_arguments(text, value):
    assert argument(text) == value and type(argument(text)) is type(value)


@pytest.mark.parametrize("target, how, message", [
    (":fill", {}, r"the kernel fill needs --block, its threads"),
    (":nothing", {}, r"has no 'nothing'"),
    (":like", {}, r"is a TensorLike, and moye build takes kernels and mo.Export"),
    (":ONE", {"block": "32"}, r"is exported as it says itself: arguments, --block"),
    (":fill", {"block": "x"}, r"--block: 'x' is no list of integers, such as 32,8"),
    (":fill", {"block": "32", "arguments": ["float32[8"]}, r"'float32\[8' is neither an array such as"),
    (":fill", {"block": "32", "arguments": ["float32[8,2:1]"]}, r"has 2 extents and 1 strides"),
    (":fill", {"block": "32", "arguments": ["floot[8]"]}, r"floot"),
])
def test_what_is_refused(kernels, target, how, message):
    with pytest.raises(mo.MoyeError, match=message):
        exports_of(f"{kernels}{target}", **how)


def test_modules_that_are_not_there(tmp_path, monkeypatch):
    with pytest.raises(mo.MoyeError, match="there is no module 'no_such_module'"):
        loaded("no_such_module")
    with pytest.raises(mo.MoyeError, match=r"there is no file /no/such\.py"):
        loaded("/no/such.py")
    (tmp_path / "empty_module.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mo.ArgumentError, match=r"empty_module has no mo\.Export"):
        exports_of("empty_module")
    (tmp_path / "importing.py").write_text("import no_such_module_either\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_either"):
        loaded("importing")


def test_a_folder_that_cannot_be_written(kernels, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert "build: cannot write" in str(moye("build", f"{kernels}:ONE", "-o", tmp_path / "file" / "out"))


def test_a_file_that_the_module_itself_does_not_find_is_its_own_error(tmp_path):
    (tmp_path / "reads.py").write_text("open('no_such_file.csv')\n")
    with pytest.raises(FileNotFoundError, match=r"no_such_file\.csv"):
        moye("build", tmp_path / "reads.py")


@pytest.mark.parametrize("place", [".", "", "a-b", "a..b"])
def test_names_that_no_module_has(place):
    with pytest.raises(mo.MoyeError, match="is no name of a module"):
        loaded(place)
