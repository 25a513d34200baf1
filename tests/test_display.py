"""What notebooks show, and that nothing is imported for it before it is shown."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from xml.etree import ElementTree

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
