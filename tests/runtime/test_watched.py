"""Names in moye's own modules: a launch looks at one number, and sees all that is given to them."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fake_device import fake_device  # noqa: E402
from moye.kernels import gemm  # noqa: E402
from moye.kernels.gemm.sm90 import kernel as products  # noqa: E402
from moye.lang.contents import contents_of  # noqa: E402
from moye.lang.trace import Capture  # noqa: E402
from moye.runtime import watched  # noqa: E402
from moye.runtime.watched import apart, edits  # noqa: E402


@pytest.fixture
def module():
    """A module that counts as moye's, with two names."""
    found = types.ModuleType("moye.watched_in_a_test")
    found.one, found.two = object(), object()
    sys.modules[found.__name__] = found
    yield found
    del sys.modules[found.__name__]


def of(module, *names):
    return [Capture(vars(module), name, vars(module)[name]) for name in names]


def test_a_name_that_is_given_another_value_and_its_own_again(module, monkeypatch):
    others, watch = apart(of(module, "one", "two"))
    assert not others and watch.sure() and edits[0] == watch.seen[0]
    with monkeypatch.context() as patch:
        patch.setattr(module, "two", object())
        assert not watch.sure()
        patch.setattr(module, "two", object())
        assert not watch.sure()
    assert edits[0] != watch.seen[0] and watch.sure() and edits[0] == watch.seen[0]


def test_a_name_that_is_gone(module):
    watch = apart(of(module, "one"))[1]
    one = module.one
    del module.one
    assert not watch.sure()
    module.one = one
    assert watch.sure()


def test_names_that_no_kernel_reads_cost_one_look(module):
    watch = apart(of(module, "one"))[1]
    before = edits[0]
    module.new = 1                                      # as an import of a submodule does
    assert edits[0] == before
    module.new = 2
    assert edits[0] == before + 1 and watch.sure() and edits[0] == watch.seen[0]


def test_a_reload_is_counted(module):
    """It sets ``__spec__`` before it runs the module's text, which nobody sees."""
    watch = apart(of(module, "one"))[1]
    module.__spec__ = object()
    vars(module)["one"] = object()
    assert not watch.sure()


def test_what_is_not_watched(module):
    """The user's modules, closures, and mutable objects, whose contents count."""
    def closure():
        return module

    user = types.ModuleType("users_own")
    user.one = 1
    cell, module.two = closure.__closure__[0], []
    captures = [*of(user, "one"), Capture(cell, "module", module), Capture(vars(module), "two", contents_of([])),
                Capture(closure, "__code__", closure.__code__)]
    others, watch = apart([*captures, *of(module, "one")])
    assert others == captures and watch.sure()
    assert apart(captures) == (captures, None)
    assert type(user) is types.ModuleType


def test_a_product_sees_a_change_of_moyes_own_modules(monkeypatch):
    """A constant of the kernel's module is another one for a while, and the product is made as if it were new."""
    A, B, C = (torch.ones(shape).half() for shape in ((256, 1024), (512, 1024), (256, 512)))
    looked = []
    holds = watched.Watch.holds
    monkeypatch.setattr(watched.Watch, "holds", lambda watch: looked.append(holds(watch)) or looked[-1])
    with fake_device() as launches:
        for _ in range(4):
            gemm(A, B, C)
        usual = launches.taken()[-1]
        del looked[:]
        gemm(A, B, C)
        assert launches.taken() == [usual] and not looked
        with monkeypatch.context() as patch:
            patch.setattr(products, "GROUP", np.int64(128))
            gemm(A, B, C)
            assert looked and not any(looked)
        gemm(A, B, C)
        assert launches.taken()[-1] == usual and looked[-1]
        del looked[:]
        gemm(A, B, C)
        assert launches.taken() == [usual] and not looked
