"""env.py: the table, the defaults, and one sentence for each bad value."""

from __future__ import annotations

from pathlib import Path

import pytest

from moye import env
from moye.errors import MoyeError


@pytest.fixture(autouse=True)
def _bare(monkeypatch):
    for variable in env.TABLE:
        monkeypatch.delenv(variable.name, raising=False)


def test_defaults(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert env.check() is True
    assert env.show() == frozenset()
    assert env.cache_dir() == Path("/x/moye")
    assert (env.disk_cache(), env.device_assert(), env.lineinfo(), env.nvrtc_no_cache()) == (True, False, False, False)
    assert env.arch() is None
    assert env.exact_fma() is False
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert env.cache_dir() == Path.home() / ".cache" / "moye"


@pytest.mark.parametrize(("name", "text", "getter", "value"), [
    ("MOYE_CHECK", "0", env.check, False),
    ("MOYE_CHECK", "off", env.check, False),
    ("MOYE_CHECK", "bounds, races", env.check, frozenset({"bounds", "races"})),
    ("MOYE_SHOW", "ir,cuda", env.show, frozenset({"ir", "cuda"})),
    ("MOYE_CACHE_DIR", "/tmp/c", env.cache_dir, Path("/tmp/c")),
    ("MOYE_DISK_CACHE", "no", env.disk_cache, False),
    ("MOYE_DISK_CACHE", "", env.disk_cache, True),
    ("MOYE_ARCH", "SM_90a", env.arch, "sm_90a"),
    ("MOYE_ASSERT", "1", env.device_assert, True),
    ("MOYE_LINEINFO", "true", env.lineinfo, True),
    ("MOYE_FMA", "Exact", env.exact_fma, True),
    ("MOYE_FMA", "fast", env.exact_fma, False),
    ("MOYE_STEPS", "1_000", env.steps, 1000),
    ("MOYE_STEPS", "0", env.steps, float("inf")),
    ("MOYE_NVRTC_NO_CACHE", "ON", env.nvrtc_no_cache, True),
])
def test_values(monkeypatch, name, text, getter, value):
    monkeypatch.setenv(name, text)
    assert getter() == value


@pytest.mark.parametrize(("name", "text", "getter", "sentence"), [
    ("MOYE_CHECK", "a;b", env.check, "MOYE_CHECK=a;b is not a comma list of names"),
    ("MOYE_SHOW", "sass", env.show, "MOYE_SHOW=sass is not a comma list of ast, ir, cuda"),
    ("MOYE_ASSERT", "maybe", env.device_assert, "MOYE_ASSERT=maybe is not a truth value: use 1 or 0"),
    ("MOYE_FMA", "1", env.exact_fma, "MOYE_FMA=1 is not fast or exact"),
    ("MOYE_STEPS", "many", env.steps, "MOYE_STEPS=many is not a number of passes, or 0 for no limit"),
    ("MOYE_ARCH", "hopper", env.arch, "MOYE_ARCH=hopper is not an architecture such as sm_80 or sm_90a"),
])
def test_bad_values(monkeypatch, name, text, getter, sentence):
    monkeypatch.setenv(name, text)
    with pytest.raises(MoyeError) as caught:
        getter()
    assert str(caught.value) == sentence


def test_the_table_names_every_variable_once():
    names = [variable.name for variable in env.TABLE]
    assert len(set(names)) == len(names) == 12
    assert all(variable.help and variable.type for variable in env.TABLE)
