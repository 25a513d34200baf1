"""pytest plugin: the fixture ``check_kernel``, the marker ``gpu``, the option ``--moye-check``.

In: a test session; it is loaded where moye is installed.  Out: tests that fail with a checker's report.

>>> def test_scale(check_kernel):
...     report = check_kernel(scale, 4, 256, x, 2.0, expect=lambda x, factor: x * factor)

Nothing of moye is imported before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from moye.runtime.check.report import Report

UNSUPPORTED = "unsupported"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("moye").addoption(
        "--moye-check", action="store_true", default=False,
        help="run every launch of a moye kernel in the checking simulator; a test with a finding fails")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU and driver; skipped where there is none")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None:
        return
    from moye.cuda.device import driver

    if not driver.available():
        pytest.skip("needs an NVIDIA GPU and driver, and this machine has none")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """With ``--moye-check``: check what the test launches, and let it fail where something is found."""
    if not item.config.getoption("--moye-check"):
        return (yield)
    from moye.runtime.check.checking import checking

    with checking(everywhere=True) as reports:
        try:
            result = yield
        except BaseException:
            if told := _told([report for report in reports if report.findings]):
                item.add_report_section("call", "moye", told)
            raise
    if told := _told([report for report in reports if report.findings]):
        pytest.fail(told, pytrace=False)
    return result


def _told(reports: list[Report]) -> str:
    return "\n\n".join(map(str, reports))


@pytest.fixture
def check_kernel() -> Callable[..., Report]:
    """``check_kernel(kernel, grid, block, *args)``: run it under ``mo.check``; the test fails with what is found.

    ``expect``, ``rtol``, ``blocks`` and ``earliest`` are those of ``mo.check``.  Findings whose code is in ``allow`` do
    not fail the test; nor does what cannot be judged, if ``"unsupported"`` is.  Lints never do.  Returns the report.
    """
    def run(kernel: Any, grid: Any, block: Any, *args: Any, expect: Callable[..., Any] | None = None,
            rtol: float | None = None, blocks: Any = None, earliest: bool = False, allow: Collection[str] = (),
            **kwargs: Any) -> Report:
        __tracebackhide__ = True
        from moye.runtime.check.check import check

        checked = check(kernel, expect=expect, rtol=rtol, blocks=blocks, earliest=earliest)
        report = checked.launch(*args, grid=grid, block=block, **kwargs)
        wrong = [f for f in report.findings if f.code not in allow]
        if wrong or (report.unsupported and UNSUPPORTED not in allow):
            pytest.fail(str(report), pytrace=False)
        return report

    return run
