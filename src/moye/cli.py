"""The ``moye`` command: version, environment variables, the disk cache.

In: a command line.  Out: text on stdout, exit status 0; one sentence on stderr and 1 where something is wrong.

>>> main(["cache", "--size"])

It needs ``pip install 'moye[cli]'`` and says so where typer is missing.  It neither compiles nor runs kernels.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Sequence

from moye import env
from moye.errors import MoyeError
from moye.runtime.cache import DiskCache

PACKAGES = ("numpy", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm", "ml_dtypes", "torch")


def main(args: Sequence[str] | None = None) -> None:
    """Run one command; the entry point of ``moye``."""
    try:
        import typer
    except ImportError:
        sys.exit("the moye command needs typer: pip install 'moye[cli]'")
    app = typer.Typer(help="moye: layouts, kernels, and a checking simulator.", no_args_is_help=True,
                      add_completion=False, pretty_exceptions_enable=False)
    for name, command in (("version", version), ("env", environment), ("cache", cache)):
        app.command(name=name)(command)
    try:
        app(args)
    except MoyeError as error:
        sys.exit(str(error))


def version() -> None:
    """The versions of moye and of what it uses, and whether there is a GPU."""
    print(f"moye {importlib.metadata.version('moye')}, Python {platform.python_version()}")
    for package in PACKAGES:
        print(f"{package:22}{_version_of(package)}")
    print(f"{'GPU':22}{_gpu()}")


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _gpu() -> str:
    from moye.cuda import driver

    if not driver.available():
        return "none: kernels run in the simulator"
    try:
        return ", ".join(f"{limits.name} ({limits.arch})" for limits in map(driver.device_limits,
                                                                           range(driver.device_count())))
    except MoyeError as error:
        return f"unusable: {error.message}"


def environment() -> None:
    """The environment variables that moye reads: value in force, type, meaning."""
    for variable in env.TABLE:
        value = variable.raw() or "(unset)"
        mark = "" if value in ("(unset)", variable.default) else "  <- set"
        print(f"{variable.name}={value}{mark}\n    {variable.help} [{variable.type}]")


def cache(size: bool = False, clear: bool = False) -> None:
    """The disk cache of compiled kernels: its size, or --clear to empty it."""
    disk = DiskCache(env.cache_dir())
    if clear:
        print(f"{disk.root}: removed {disk.clear()} kernels")
    if size or not clear:
        print(f"{disk.root}: {len(disk.entries())} kernels, {disk.size() / 1024:.1f} KiB")


if __name__ == "__main__":
    main()
