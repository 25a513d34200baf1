"""What notebooks show, and that nothing is imported for it before it is shown."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import moye as mo
from moye import display
from moye.errors import LayoutError
from picture_cases import COPY, MMA, TF32_16x8x8

SHOWN = [mo.Layout.parse("(4,4):(4,1)"), mo.Swizzle(2, 0, 2), mo.ComposedLayout.parse("Sw<2,0,2> o (4,4):(4,1)"), COPY,
         COPY.atom, MMA, TF32_16x8x8]


def formatted(x):
    """What IPython's formatters give the front end; the same from the methods they call, where there is no IPython."""
    if importlib.util.find_spec("IPython"):
        from IPython.core.formatters import DisplayFormatter
        return DisplayFormatter().format(x)[0]
    return x._repr_mimebundle_(include=None, exclude=None)


@pytest.mark.parametrize("x", [*SHOWN, mo.draw("(2,2)")], ids=lambda x: type(x).__name__)
def test_notebooks_show_text_svg_and_html(x):
    bundle = formatted(x)
    assert set(bundle) == {"text/plain", "image/svg+xml", "text/html"}
    assert bundle["text/plain"] == str(x)
    assert bundle["image/svg+xml"] == x._repr_svg_()
    assert bundle["text/html"] == x._repr_html_()
    assert ElementTree.fromstring(bundle["image/svg+xml"]).tag == "{http://www.w3.org/2000/svg}svg"
    assert bundle["image/svg+xml"] in bundle["text/html"]
    assert "<script" not in bundle["text/html"]
    assert "<html" not in bundle["text/html"]


@mo.kernel
def shifted(y, x, less_than: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid < less_than:                                 # escaped in HTML
        y[tid] = x[tid] + 1


def parsed(html):
    """A fragment as a tree: it is well formed, and has no script."""
    assert "<script" not in html
    return ElementTree.fromstring(html.replace("<br>", "<br/>"))


def test_kernels_and_compiled_kernels_are_shown_with_their_source():
    y, x = np.zeros(32, np.float32), np.ones(32, np.float32)
    assert "0 specialisations" in shifted._repr_html_()
    shifted[1, 32](y, x, 32)
    tree = parsed(shifted._repr_html_())
    assert tree.find("p/code").text == f"mo.kernel shifted{shifted.signature.signature}"
    assert "test_display.py:" in "".join(tree.itertext()) and "1 specialisation" in "".join(tree.itertext())
    assert "if tid < less_than:" in tree.find("details/pre").text
    program = shifted.compile(y, x, 32, block=32, arch="sm_90a")
    tree = parsed(program._repr_html_())
    assert tree.find("details/pre").text == program.source
    for fact in ("sm_90a", f"{program.registers} registers", "0 bytes spilled", "0 bytes of shared memory"):
        assert fact in "".join(tree.itertext()), fact


def test_a_kernel_whose_source_is_gone_is_shown_without_it(monkeypatch):
    monkeypatch.setattr("inspect.getsource", lambda function: (_ for _ in ()).throw(OSError("gone")))
    assert parsed(shifted._repr_html_()).find("details") is None


def test_timelines_and_reports_are_shown_as_html():
    report = mo.check(shifted, timeline=True)[1, 32](np.zeros(8, np.float32), np.ones(32, np.float32), 32)
    tree = parsed(report._repr_html_())
    assert "moye explain B1 tells more" in "".join(tree.itertext())
    report = mo.check(shifted, timeline=True)[1, 32](np.zeros(32, np.float32), np.ones(32, np.float32), 32)
    timeline = report.timeline()
    assert timeline._repr_svg_() in timeline._repr_html_()
    parsed(timeline._repr_html_())


def test_a_traceback_of_an_error_with_a_code_has_the_users_frames_and_where_to_read_on():
    try:
        shifted[1, 32](np.zeros(8, np.float32), np.ones(32, np.float32), 32)
    except mo.MoyeError as error:
        shown = "".join(traceback.format_exception(error))
    assert [line.strip() for line in shown.splitlines() if line.startswith("  File ")] == [
        f'File "{__file__}", line {shifted_line()}, in '
        "test_a_traceback_of_an_error_with_a_code_has_the_users_frames_and_where_to_read_on"]
    assert shown.rstrip().endswith("moye explain B1 tells more")


def shifted_line():
    """Where the launch above stands."""
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if i > lines.index("def shifted_line():") - 14
                and line.strip().startswith("shifted[1, 32]"))


def test_what_cannot_be_drawn_is_shown_as_text():
    class Stuck(mo.Layout):
        pass

    def refuse(x):
        raise LayoutError("no picture today")

    display.register(Stuck, refuse)
    stuck = Stuck(4, 1)
    assert display.bundle(stuck) == {"text/plain": "4:1"}
    assert stuck._repr_svg_() is None
    assert stuck._repr_html_() is None


def test_a_renderers_own_defect_is_not_hidden():
    class Broken(mo.Layout):
        pass

    display.register(Broken, lambda x: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        display.bundle(Broken(4, 1))


def test_derived_classes_are_shown_like_their_base_and_others_as_text():
    class Derived(mo.Layout):
        pass

    assert display.bundle(Derived(4, 1)) == display.bundle(mo.Layout(4, 1))
    assert display.bundle(3) == {"text/plain": "3"}


def test_a_large_layout_is_cropped_in_a_notebook():
    shown = mo.Layout.parse("(4096,4096)")._repr_mimebundle_()
    assert "max_cells=1024" in shown["text/html"]
    assert len(shown["image/svg+xml"]) < 400_000


def test_drawables_stay_values():
    for x in SHOWN:
        assert not hasattr(x, "__dict__"), x
        assert pickle.loads(pickle.dumps(x)) == x
        assert hash(x) == hash(pickle.loads(pickle.dumps(x)))


def test_pictures_are_not_imported_before_something_is_shown():
    code = ("import sys, moye, moye.layout, moye.tensor.tiled\n"
            "layout = moye.Layout.parse('4:1'); str(layout), repr(layout)\n"
            "assert 'moye.pictures' not in sys.modules, 'too early'\n"
            "layout._repr_svg_()\n"
            "assert 'moye.pictures' in sys.modules, 'never'")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_layouts_do_not_even_import_tensors():
    code = ("import sys, moye.layout\n"
            "assert not {m for m in sys.modules if m.startswith(('moye.tensor', 'moye.pictures', 'moye.atoms'))}")
    subprocess.run([sys.executable, "-c", code], check=True)
