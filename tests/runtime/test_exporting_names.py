"""Names that C, C++, headers, macros or the exported source itself have: arguments are renamed, functions refused."""

from __future__ import annotations

import subprocess

import pytest

import exported_c
import moye as mo

KEYWORDS = ("register restrict auto volatile union template typename operator requires concept co_await bool wchar_t "
            "decltype nullptr static_assert thread_local and_ xor compl typeof complex _Complex _Generic inline asm")
HEADERS = ("NULL errno INT32_MAX INT64_C linux unix EOF stdin RTLD_NOW dlopen memcpy size_t int64_t offsetof environ "
           "i386 EXIT_SUCCESS PTHREAD_MUTEX_INITIALIZER")
OWN = ("arrays code met index it p0 p1 told failed found grid bad stream taken taken_cases taken_0_fits taken_load "
       "moye_array MOYE_OK x x_shape x_strides grid_x")
OTHERS = "größe _under A I M"


def kernel_of(names, folder):
    """A kernel of one array for each name, in a file of its own."""
    body = "\n".join(f"    if i < mo.size({name}):\n        {name}[i] = 1" for name in names)
    text = f"import moye as mo\n\n@mo.kernel\ndef taken({', '.join(names)}):\n    i = mo.thread_idx().x\n{body}\n"
    (folder / "named.py").write_text(text, encoding="utf-8")
    namespace = {}
    exec(compile(text, folder / "named.py", "exec"), namespace)
    return namespace["taken"]


def test_arguments_of_any_name(tmp_path):
    exported_c.require_compiler()
    names = [name for name in f"{KEYWORDS} {HEADERS} {OWN} {OTHERS}".split() if name != "and"]
    one = mo.TensorLike(mo.float32, (128,))
    kernel = kernel_of(names, tmp_path)
    exported = kernel.export(tmp_path / "1 köln.c", mo.Specialisation(*[one] * len(names), block=32), arch="sm_90a",
                             grid=1)
    for flags in (("gcc", "-std=c99", "-pedantic"), ("gcc", "-std=gnu17"), ("g++", "-x", "c++", "-std=gnu++20")):
        subprocess.run([*flags, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", exported.source], check=True)


@mo.kernel
def plain(x):
    if mo.thread_idx().x < mo.size(x):
        x[mo.thread_idx().x] = 1


def refused(tmp_path, names, message, path=""):
    one = mo.Specialisation(mo.TensorLike(mo.float32, (128,)), block=32)
    with pytest.raises(mo.ArgumentError, match=message):
        mo.export(tmp_path / path, *(mo.Export(plain, [one], name=name, arch="sm_90a") for name in names))


@pytest.mark.parametrize("name", ["int", "restrict", "moye_launch", "moye", "INT32_MAX", "size_t", "errno"])
def test_functions_of_such_a_name(tmp_path, name):
    refused(tmp_path, [name], f"'{name}' cannot be the name of a C function")


@pytest.mark.parametrize("name", ["malloc", "dlopen", "cuLaunchKernel", "cudaMalloc"])
def test_functions_that_would_take_the_place_of_others(tmp_path, name):
    refused(tmp_path, [name], f"the C library or CUDA has a {name}")


@pytest.mark.parametrize("name", ["load", "error_string", "cases", "0_fits", "0_codes", "1_sm_90a"])
def test_functions_that_take_each_others_names(tmp_path, name):
    refused(tmp_path, [f"one_{name}", "one"], f"beside one there is a one_{name} already")


@pytest.mark.parametrize("path", ['a"b.c', "a\nb.c", "a\\b.h", "a??=b.c"])
def test_files_that_no_include_names(tmp_path, path):
    refused(tmp_path, ["one"], "cannot stand in an #include", path)


@pytest.mark.parametrize(("rule", "message"), [
    (lambda x: x.shape[0] / 32, "divides by /"), (lambda x: 1.5, "computes 1.5, which is no integer"),
    (-1, "has -1 blocks along x, and a launch has 0 to 2147483647"), ((1, 65536), "has 65536 blocks along y"),
    (lambda x: x.shape[1], "grid= raises IndexError: tuple index out of range"),
    (lambda x: 1 // 0, "grid= raises ZeroDivisionError: "),
    (True, "has True blocks along x"), (lambda x: x.size, "no rule that C can follow: an array has no attribute"),
    (lambda x: x.shape[0] ** 2, "no rule that C can follow: unsupported .* an extent and 'int'")])
def test_rules_of_the_grid_that_are_no_integers(tmp_path, rule, message):
    with pytest.raises(mo.ArgumentError, match=message):
        plain.export(tmp_path, mo.Specialisation(mo.TensorLike(mo.float32, (128,)), block=32), arch="sm_90a", grid=rule)


@pytest.mark.parametrize(("arch", "message"), [
    (90, "arch=90 is neither an architecture nor a list of them"), (b"sm_90a", "arch=b'sm_90a' is neither"),
    ((90,), "arch= has 90, and architectures are words"), (("sm_90a", None), "arch= has None, and")])
def test_architectures_that_are_none(tmp_path, arch, message):
    with pytest.raises(mo.ArgumentError, match=message):
        plain.export(tmp_path, mo.Specialisation(mo.TensorLike(mo.float32, (128,)), block=32), arch=arch)
