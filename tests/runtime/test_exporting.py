"""mo.export: what the C checks, chooses and passes, against a launch from Python; the driver takes notes."""

from __future__ import annotations

import itertools
import re
import struct
import subprocess

import numpy as np
import pytest

import exported_c
import moye as mo
from export_kernels import saxpy
from exported_c import array, f32, i64, stream

MOST = 2**31


def vector(n=1024, **how):
    return mo.TensorLike(mo.float32, (n,), **how)


def saxpy_call(y=0x10000, x=0x20000, n=1000, strides=(1,), handle=0):
    return ("saxpy", [array(y, (n,), strides), array(x, (n,), strides), f32(2.5), stream(handle)])


@pytest.fixture(scope="module")
def saxpy_built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saxpy")
    exported = saxpy.export(folder, mo.Specialisation(vector(), vector(), 2.0, block=256), arch=("sm_80", "sm_90a"),
                            grid=lambda x: mo.ceil_div(x.shape[0], 256))
    return exported_c.build(exported, folder)


def test_a_launch_passes_what_python_passes(saxpy_built):
    told, notes = saxpy_built.run([saxpy_call(handle=0x77)], SIZES="8,8,4,4")
    block = " ".join(struct.pack(form, value).hex() for form, value in (("Q", 0x10000), ("Q", 0x20000), ("i", 1000),
                                                                       ("f", 2.5)))
    assert told == [(0, "no error")]
    assert notes == ["load elf", f"launch saxpy 4,1,1 256,1,1 0 0x77 {block}"]


def test_code_is_loaded_once_and_chosen_by_the_device(saxpy_built):
    for arch, loads in ((80, True), (86, True), (90, True), (75, False), (100, False)):
        (first, second), notes = saxpy_built.run([saxpy_call(), saxpy_call()], ARCH=arch)
        assert first == second and (first[0] == 0) == loads and notes.count("load elf") == loads, arch
    assert second[1] == "no specialisation that fits has code for the device of the current context"


def test_an_empty_grid_launches_nothing(saxpy_built):
    told, notes = saxpy_built.run([saxpy_call(n=0)])
    assert told == [(0, "no error")] and not notes


@pytest.mark.parametrize("call, message", [
    (saxpy_call(y=0), "saxpy: y is a null pointer, or its shape or strides are"),
    (("saxpy", [array(0x1000, None, None), *saxpy_call()[1][1:]]), "saxpy: y is a null pointer"),
    (saxpy_call(n=-1), "saxpy: y has an extent or a stride below 0"),
    (saxpy_call(strides=(2,)), r"saxpy: y.strides\[0\] is not 1"),
    (saxpy_call(y=0x10004), "saxpy: y does not begin at a multiple of 16 bytes"),
    (saxpy_call(x=0x10010), "saxpy: y and x share memory, and y is written"),
    (saxpy_call(n=MOST, x=1 << 40), "saxpy: y has more elements than indices of 32 bits count"),
])
def test_a_precondition_that_fails_is_named(saxpy_built, call, message):
    (told,), notes = saxpy_built.run([call])
    assert told[0] >= 32 and re.match(message, told[1]) and not any(note.startswith("launch") for note in notes)


def test_failures_of_the_driver_are_codes_below_0(saxpy_built):
    (told,), _ = saxpy_built.run([saxpy_call()], FAIL="cuLaunchKernelEx:700")
    assert told == (-700, "an illegal memory access was encountered")
    (told,), _ = saxpy_built.run([saxpy_call()], FAIL="cuLibraryLoadData:209")
    assert told == (-209, "some error")
    (told,), _ = saxpy_built.run([saxpy_call()], context=False)
    assert told == (3, "no CUDA context is current in this thread: call cudaSetDevice or cuCtxSetCurrent first")
    (told,), _ = saxpy_built.run([saxpy_call()], THREADS=128)
    assert told[1] == "the block has more threads than the kernel's registers allow on this device"


def test_load_alone(saxpy_built):
    (told,), notes = saxpy_built.run([("saxpy_load", [])])
    assert told[0] == 0 and notes == ["load elf"]


def test_the_source_is_c_and_cpp(tmp_path):
    exported = saxpy.export(tmp_path / "one.c", mo.Specialisation(vector(), vector(), 2.0, block=256), arch="sm_90a")
    exported_c.require_compiler()
    assert exported.header.name == "one.h" and exported.functions == ("saxpy",)
    assert "int saxpy(int64_t grid_x, int64_t grid_y, int64_t grid_z, float *y," in exported.header.read_text()
    for compiler in (["gcc", "-std=c99", "-pedantic"], ["g++", "-x", "c++", "-std=c++17", "-pedantic"]):
        subprocess.run([*compiler, *exported_c.FLAGS, "-c", exported.source, "-o", tmp_path / "one.o"], check=True)


# --- several specialisations -----------------------------------------------------------------------------------------


@mo.kernel
def scale(dst, src, factor, width: mo.Constexpr):
    tid = mo.block_idx().x * 64 + mo.thread_idx().x
    mine = mo.tile(src, (width,), (tid,))
    out = mo.tile(dst, (width,), (tid,))
    for i in mo.static_range(width):
        out[i] = mine[i] * factor


def scale_call(n, width, at=0x10000, factor=3, grid=1):
    return ("scale", [i64(grid), i64(1), i64(1), array(at, (n,), (1,)), array(at + (1 << 20), (n,), (1,)),
                      ("c_int32", factor), i64(width), stream()])


@pytest.fixture(scope="module")
def scale_built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scale")
    odd = vector(align=4)
    exported = scale.export(folder, mo.Specialisation(vector(), vector(), 3, 4, block=64),
                            mo.Specialisation(odd, odd, 3, 4, block=64),
                            mo.Specialisation(odd, odd, 3, 1, block=64), arch="sm_90a")
    return exported_c.build(exported, folder)


def test_the_first_that_fits_is_taken(scale_built):
    told, notes = scale_built.run([scale_call(1024, 4), scale_call(1024, 4, 0x10004), scale_call(1000, 1),
                                   scale_call(1001, 4), scale_call(1024, 2)])
    assert [code for code, _ in told[:3]] == [0, 0, 0] and notes.count("load elf") == 3
    assert "its extent dst.shape[0] in mode 0 is no multiple of 4" in told[3][1] or "multiple of 4" in told[3][1]
    assert "width is not" in told[4][1]


def test_one_that_is_never_launched_is_refused(tmp_path):
    wide, odd = vector(), vector(align=4)
    with pytest.raises(mo.ArgumentError, match="specialisation 1 of scale is never launched, because specialisation 0"):
        scale.export(tmp_path, mo.Specialisation(odd, odd, 3, 4, block=64),
                     mo.Specialisation(wide, wide, 3, 4, block=64), arch="sm_90a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("asked, message", [
    (lambda: [], "has no specialisation"),
    (lambda: [mo.Specialisation(vector(), vector(), 3, 4, block=64),
              mo.Specialisation(vector(), vector(), 3.0, 4, block=64)], "factor of scale is a number of float32 and a"),
    (lambda: [mo.Specialisation(vector(), mo.TensorLike(mo.float32, (8, 8)), 3, 4, block=64),
              mo.Specialisation(vector(), vector(), 3, 4, block=64)], "src of scale is an array of float32 and rank 1"),
])
def test_what_cannot_be_one_function_is_refused(tmp_path, asked, message):
    with pytest.raises(mo.MoyeError, match=message):
        scale.export(tmp_path, *asked(), arch="sm_90a")


def test_names_and_paths_are_checked(tmp_path):
    one = mo.Specialisation(vector(), vector(), 2.0, block=256)
    with pytest.raises(mo.ArgumentError, match="'int' cannot be the name of a C function"):
        saxpy.export(tmp_path, one, name="int", arch="sm_90a")
    with pytest.raises(mo.ArgumentError, match=r"neither a folder nor a file that ends in \.c or \.h"):
        saxpy.export(tmp_path / "kernels.cpp", one, arch="sm_90a")
    with pytest.raises(mo.ArgumentError, match="functions of different names, not saxpy, saxpy"):
        mo.export(tmp_path, mo.Export(saxpy, [one]), mo.Export(saxpy, [one]))
    with pytest.raises(mo.ArgumentError, match="grid= compares extents"):
        saxpy.export(tmp_path, one, grid=lambda x: 1 if x.shape[0] < 4 else 2, arch="sm_90a")
    with pytest.raises(mo.ArgumentError, match="grid= asks for 'z', and has y, x to compute with"):
        saxpy.export(tmp_path, one, grid=lambda z: z, arch="sm_90a")


# --- the same answers as Python --------------------------------------------------------------------------------------


@mo.kernel
def touch(a, b):
    if mo.thread_idx().x == 0:
        a[0, 0] = b[0, 0]


def _drawn(count, seed=0):
    """Pairs of arrays of rank 2 that lie anywhere in a small memory."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        pair = []
        for _ in range(2):
            shape = tuple(int(n) for n in rng.choice([0, 1, 1, 2, 3, 5, 8], 2))
            strides = tuple(int(n) for n in rng.choice([0, 1, 1, 2, 4, 7, 8, 16], 2))
            pair.append((0x10000 + 4 * int(rng.integers(40)), shape, strides))
        yield pair


def test_strides_and_overlap_are_judged_as_in_python(tmp_path):
    from moye.runtime.arguments import classify
    from moye.runtime.arrays import ArrayInfo, same_memory_overlap

    any_strides = mo.TensorLike(mo.float32, (8, 8), (7, 3), align=4)
    exported = touch.export(tmp_path, mo.Specialisation(any_strides, any_strides, block=32), arch="sm_90a")
    built = exported_c.build(exported, tmp_path, sanitize=True)
    drawn = list(_drawn(300))
    told, _ = built.run([("touch", [i64(1), i64(1), i64(1), *(array(*each) for each in pair), stream()])
                         for pair in drawn])
    seen = set()
    for pair, (_, message) in zip(drawn, told, strict=True):
        likes = [mo.TensorLike(mo.float32, shape, strides, 4) for _, shape, strides in pair]
        natural = classify(touch.signature, tuple(likes), {}).leaves
        infos = [info._replace(ptr=at) for info, (at, _, _) in zip(natural, pair, strict=True)]
        assert all(isinstance(info, ArrayInfo) for info in infos)
        zero = next((f"touch: {name}.strides[{mode}] is not above 0" for name, info in zip("ab", infos, strict=True)
                     for mode, stride in enumerate(info.strides) if stride < 1), None)
        expected = zero or ("touch: a and b share memory, and a is written" if same_memory_overlap(*infos)
                            else "no error")
        assert message == expected, (pair, infos)
        seen.add(expected.partition(" ")[2])
    assert len(seen) >= 3


def test_formulas_have_floor_semantics(tmp_path):
    """Grids of negative and huge intermediate numbers, as Python computes them."""
    rules = {"a": lambda n: (n - 7) // 3 % 5, "b": lambda n: -(-n // 4), "c": lambda n: (n - 20) % 7,
             "d": lambda n: n * (1 << 40) * (1 << 30) // (1 << 60), "e": lambda n: 8 // (n - 3)}

    @mo.kernel
    def counted(y, n):
        y[0] = n

    y = vector(4)
    exports = [mo.Export(counted, [mo.Specialisation(y, 5, block=32)], name, rule, "sm_90a")
               for name, rule in rules.items()]
    built = exported_c.build(mo.export(tmp_path / "rules.c", *exports), tmp_path, sanitize=True)
    drawn = list(itertools.product(rules, (0, 1, 3, 5, 19, 40)))
    told, notes = built.run([(name, [array(0x10000, (4,), (1,)), ("c_int32", n), stream()]) for name, n in drawn])
    launched = []
    for (name, n), (code, message) in zip(drawn, told, strict=True):
        try:
            exact = rules[name](n)
        except ZeroDivisionError:
            exact = None
        if exact is None or (name == "d" and n << 70 >= MOST << 32):
            assert message.startswith("the grid cannot be computed"), (name, n)
        elif exact < 0:
            assert message.startswith("the grid lies outside"), (name, n)
        else:
            assert code == 0, (name, n, message)
            launched += [f"{exact},1,1"] if exact else []
    assert [note.split()[2] for note in notes if note.startswith("launch")] == launched and len(launched) > 8
