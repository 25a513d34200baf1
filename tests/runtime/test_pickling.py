"""What a user holds is pickled, copied and deep-copied, or says in one sentence why not; one-line summaries."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import moye as mo
from moye.errors import ArgumentError

X = np.zeros((64, 64), np.float32)
EVERY_WAY = {"pickle": lambda x: pickle.loads(pickle.dumps(x)), "copy": copy.copy, "deepcopy": copy.deepcopy}


@mo.kernel
def scale(x, factor):
    i = mo.thread_idx().x
    x[i] = x[i] * factor


@mo.jit
def device(x):
    return x + 1


@mo.autotune([mo.Config(n=1)], progress=False)
def tuned(x, *, n):
    scale[n, 32](x, 2.0)


class Holder:
    @mo.kernel
    def method(x):
        x[mo.thread_idx().x] = 1.0


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("decorated", [scale, device, tuned, Holder.method], ids=lambda x: x.__name__)
def test_decorated_functions_are_found_by_name(decorated, way):
    assert EVERY_WAY[way](decorated) is decorated
    assert EVERY_WAY[way]({"a": [decorated]})["a"][0] is decorated


def test_they_arrive_in_other_processes(tmp_path):
    with ProcessPoolExecutor(1) as pool:
        assert pool.submit(launched, scale, mo.make_layout((4, 8))).result(60) == [6.0, "(4,8):(1,4)"]


def launched(kernel, layout):
    x = np.full(32, 2.0, np.float32)
    kernel[1, 32](x, 3.0)
    return [float(x[5]), str(layout)]


def test_what_no_module_has_under_its_name_is_left_to_others():
    @mo.kernel
    def local(x):
        x[mo.thread_idx().x] = 1.0

    assert copy.deepcopy([local])[0] is local and copy.copy(local) is local
    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)
    assert local.__reduce__()[1] == (local.function,)   # for those who pickle functions by value


STATIC = {
    "layout": mo.make_layout((2, (3, 4)), (1, (2, 8))), "dtype": mo.bfloat16, "swizzle": mo.Swizzle(3, 3, 3),
    "composed": mo.ComposedLayout(mo.Swizzle(3, 3, 3), 0, mo.make_layout((8, 64), (64, 1))),
    "copy": mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float32),
    "tiled copy": mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float64, cache="always"), mo.float32),
                                     mo.make_layout((32, 8)), mo.make_layout((2, 1))),
    "tiled mma": mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((32, 8))),
    "operation": mo.mma.SM80_16x8x8_F32TF32TF32F32_TN, "config": mo.Config(a=1), "pipeline": mo.Pipeline(3),
    "like": mo.TensorLike(mo.float32, (3, 4)),
}


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("name", STATIC)
def test_static_values_are_equal_and_specialise_alike(name, way):
    again = EVERY_WAY[way](STATIC[name])
    assert again == STATIC[name] and hash(again) == hash(STATIC[name]) and str(again) == str(STATIC[name])


@pytest.mark.parametrize("way", EVERY_WAY)
def test_tma_copies_launchers_and_checked_kernels(way):
    again = EVERY_WAY[way]
    tma = mo.make_tma_copy(mo.TmaLoad(), X, mo.make_layout((8, 8), (8, 1)))
    assert again(tma).key == tma.key
    for launch in (again(scale[1, 32]), again(mo.check(scale, lints=False))[1, 32]):
        x = np.ones(32, np.float32)
        launch(x, 5.0)
        assert (x == 5).all()


@pytest.mark.parametrize("way", EVERY_WAY)
def test_reports_and_errors(way):
    report = mo.check(scale)[1, 64](np.ones(32, np.float32), 2.0)
    again = EVERY_WAY[way](report)
    assert str(again) == str(report) and not again.ok and again.findings[0].code == report.findings[0].code
    with pytest.raises(ArgumentError) as caught:
        scale[1, 32](X[0], facto=2.0)
    error = EVERY_WAY[way](caught.value)
    assert type(error) is ArgumentError and str(error) == str(caught.value) and "hint: did you mean" in str(error)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_compiled_kernels(way):
    compiled = scale.compile(X[0], 2.0, block=32, arch="sm_90a")
    again = EVERY_WAY[way](compiled)
    assert (again.source, again.cubin, again.registers, again.smem, again.notes, repr(again)) == \
        (compiled.source, compiled.cubin, compiled.registers, compiled.smem, compiled.notes, repr(compiled))
    assert again.kernel is scale and again.loaded == {}


@pytest.mark.parametrize("way", EVERY_WAY)
def test_prepared_launches_say_why_not(way):
    prepared = scale.prepare(X[0].copy(), 2.0, grid=1, block=32)
    with pytest.raises(ArgumentError, match="a prepared launch belongs to its process"):
        EVERY_WAY[way](prepared)


def test_summaries_are_one_line():
    clean = mo.check(scale)[1, 32](np.ones(32, np.float32), 2.0)
    faulty = mo.check(scale)[1, 64](np.ones(32, np.float32), 2.0)
    part = mo.check(scale, blocks=1)[2, 32](np.ones(32, np.float32), 2.0)
    assert repr(clean) == "<Report of scale, grid (1, 1, 1), block (32, 1, 1): clean for this launch>"
    assert "1 finding (B1)" in repr(faulty) and "1 of 2 blocks" in repr(part)
    compiled = scale.compile(X[0], 2.0, block=32, arch="sm_90a")
    assert repr(compiled).startswith("<scale for sm_90a: ") and f"{compiled.registers} registers" in repr(compiled)
    assert all("\n" not in repr(x) and len(repr(x)) < 160 for x in (clean, faulty, part, compiled))
    assert len(str(faulty).splitlines()) > 1


def test_pickles_of_a_script(tmp_path):
    """Kernels of ``__main__`` too."""
    script = tmp_path / "script.py"
    script.write_text("import pickle\nimport moye as mo\n\n\n@mo.kernel\ndef k(x):\n    x[0] = 1.0\n\n\n"
                      "print(pickle.loads(pickle.dumps(k)) is k)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
