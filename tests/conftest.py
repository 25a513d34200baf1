"""What every test starts from: no MOYE_* variable, an own disk cache, and tests/gpu only where it is asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

GPU = Path(__file__).parent / "gpu"


def _asked_for_gpu(config: pytest.Config) -> bool:
    paths = [(config.invocation_params.dir / str(arg).split("::")[0]).resolve() for arg in config.args]
    return any(path == GPU or GPU in path.parents for path in paths)


def pytest_configure(config: pytest.Config) -> None:
    """A GPU test without a GPU is one clear sentence, neither a skip nor a traceback."""
    if not _asked_for_gpu(config) or config.option.collectonly:
        return
    from moye.cuda import driver
    if not driver.available():
        raise pytest.UsageError("tests/gpu needs an NVIDIA GPU and driver, and this machine has none: "
                                "run `make test` for the rest")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path == GPU and not _asked_for_gpu(config) else None


@pytest.fixture(autouse=True, scope="session")
def _clean_environment(tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in [name for name in os.environ if name.startswith("MOYE_")]:
        del os.environ[name]
    os.environ["MOYE_CACHE_DIR"] = str(tmp_path_factory.mktemp("moye-cache"))
