"""What every test starts from: no MOYE_* variable, an own disk cache, and tests/gpu only where it is asked for."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

import longest
import tools

GPU = Path(__file__).parent / "gpu"


def _asked_for_gpu(config: pytest.Config) -> bool:
    paths = [(config.invocation_params.dir / str(arg).split("::")[0]).resolve() for arg in config.args]
    return any(path == GPU or GPU in path.parents for path in paths)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--emulate", metavar="SEED", type=int, default=None,
                     help="run launches in the emulator of PTX (tests/emulator), and not in the simulator")


@pytest.fixture(autouse=True)
def _emulated(request: pytest.FixtureRequest) -> Iterator[None]:
    """With --emulate, launches of a test go the way of a device, to the emulator."""
    seed = request.config.getoption("--emulate")
    if seed is None:
        yield
        return
    from emulator.emulated import emulated

    with emulated(seed):
        yield


def pytest_configure(config: pytest.Config) -> None:
    """A GPU test without a GPU is one clear sentence, neither a skip nor a traceback."""
    if not _asked_for_gpu(config) or config.option.collectonly:
        return
    from moye.cuda.device import driver
    if not driver.available():
        raise pytest.UsageError("tests/gpu needs an NVIDIA GPU and driver, and this machine has none: "
                                "run `make test` for the rest")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path == GPU and not _asked_for_gpu(config) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    longest.mark(items)
    if left := longest.of_other_shares(items):
        config.hook.pytest_deselected(items=left)
        others = set(left)
        items[:] = [item for item in items if item not in others]


def pytest_collection_finish() -> None:
    """The collector of garbage leaves alone what lives as long as the run, and comes by less often.

    A trace makes many small objects that refer to each other, and the kernels of all tests stay in memory.
    """
    gc.freeze()
    gc.set_threshold(1_000_000, 20, 20)


def pytest_sessionfinish() -> None:
    """pytest and the interpreter collect garbage once more, which takes seconds with so many kernels in memory."""
    gc.freeze()


@pytest.fixture
def short_collections() -> Iterator[None]:
    """For a test that collects garbage: what older tests have left is not looked at."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="session")
def _strict_printer(_clean_environment: None) -> None:
    """Names of printed functions are looked up in the table that variables are kept from."""
    from moye.cuda.printing.intrinsics import Intrinsics

    Intrinsics.strict = True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Tests that a missing program or library left out are told in the last lines, after pytest's own summary."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    for line in tools.left_out([report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]):
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(autouse=True, scope="session")
def _clean_environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No setting of the user's, and a disk cache of this run.

    The workers of a run share it: they would compile the same programs again, which on a GPU is most of the run.
    TEST_CACHE names a folder that is kept for the next run.
    """
    for name in [name for name in os.environ if name.startswith("MOYE_")]:
        del os.environ[name]
    shared = "PYTEST_XDIST_WORKER" in os.environ
    folder = tmp_path_factory.getbasetemp().parent / "moye-cache" if shared else tmp_path_factory.mktemp("moye-cache")
    os.environ["MOYE_CACHE_DIR"] = os.environ.get("TEST_CACHE") or str(folder)
