"""A missing browser or LaTeX fails a test; only TEST_WITHOUT skips it."""

from __future__ import annotations

import pytest

import tools


def test_a_missing_program_is_a_failure_that_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TEST_WITHOUT", raising=False)
    with pytest.raises(pytest.fail.Exception, match="needs chromium and chromedriver: apt-get install chromium"):
        tools.programs("browser")
    monkeypatch.setenv("TEST_WITHOUT", "latex")
    with pytest.raises(pytest.fail.Exception, match="TEST_WITHOUT=browser does without"):
        tools.programs("browser")


def test_found_programs_are_paths(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TEST_WITHOUT", raising=False)
    for name in ("google-chrome", "chromedriver"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert tools.programs("browser") == [str(tmp_path / "google-chrome"), str(tmp_path / "chromedriver")]


def test_leaving_out_is_asked_for_by_name(monkeypatch):
    monkeypatch.setenv("TEST_WITHOUT", "browser, latex")
    for tool in tools.NEEDS:
        with pytest.raises(pytest.skip.Exception, match="TEST_WITHOUT=browser, latex"):
            tools.programs(tool)
    monkeypatch.setenv("TEST_WITHOUT", "browsers")
    with pytest.raises(pytest.fail.Exception, match="names browsers; it may name browser, latex"):
        tools.programs("browser")
