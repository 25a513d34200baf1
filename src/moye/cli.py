"""The ``moye`` command: version, environment variables, the disk cache, timelines of scripts.

In: a command line.  Out: text on stdout, exit status 0; one sentence on stderr and 1 where something is wrong.

>>> main(["cache", "ls"])

It needs ``pip install 'moye[cli]'`` and says so where typer is missing.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import runpy
import sys
import time
from collections.abc import Sequence
from pathlib import Path

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
    cache = typer.Typer(help="The disk cache of compiled kernels.", no_args_is_help=True)
    for group, name, command in ((app, "version", version), (app, "env", environment), (cache, "ls", cache_ls),
                                 (cache, "clear", cache_clear)):
        group.command(name=name)(command)
    app.add_typer(cache, name="cache")

    def draw_timeline(script: Path, arguments: list[str] = typer.Argument(None),  # noqa: B008  typer's way to declare
                      output: Path = typer.Option(Path("timeline.svg"), "-o", "--output",  # noqa: B008
                                                  help=".svg, .json (Chrome trace, for Perfetto) or .txt"),
                      launch: int = typer.Option(-1, help="which launch of the script; -1 is the last")) -> None:
        timeline(script, output, launch, arguments or ())

    app.command(name="timeline", help=str(timeline.__doc__))(draw_timeline)

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


def cache_ls() -> None:
    """The compiled kernels on disk, most recently used first."""
    disk = DiskCache(env.cache_dir())
    entries = disk.entries()
    if entries:
        print(f"{'key':12}  {'kernel':32}  {'arch':8}  {'bytes':>9}  {'age':>6}")
    for entry in entries:
        record = disk.record(entry.key)
        print(f"{entry.key[:12]}  {record.get('kernel', '?'):32}  {record.get('arch', '?'):8}  {entry.size:9}  "
              f"{_age(time.time() - entry.used):>6}")
    print(f"{disk.root}: {_kernels(len(entries))}, {sum(entry.size for entry in entries) / 1024:.1f} KiB")


def cache_clear() -> None:
    """Remove every compiled kernel from the disk."""
    disk = DiskCache(env.cache_dir())
    print(f"{disk.root}: removed {_kernels(disk.clear())}")


def timeline(script: Path, output: Path, launch: int = -1, arguments: Sequence[str] = ()) -> None:
    """Run a Python script in the simulator and draw the pipeline of one of its launches."""
    from moye.runtime.simulate import timelines
    from moye.sim.timeline.view import check_suffix

    check_suffix(output)
    if not script.is_file():
        raise MoyeError(f"there is no script {script}")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""             # what the script launches is to be simulated
    sys.argv[:] = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    with timelines() as found:
        runpy.run_path(str(script), run_name="__main__")
    launches = f"{len(found)} launch{'' if len(found) == 1 else 'es'}"
    if not found:
        raise MoyeError(f"{script} launched nothing in the simulator")
    if not -len(found) <= launch < len(found):
        raise MoyeError(f"there is no launch {launch}: {script} made {launches} in the simulator")
    found[launch].save(output)
    print(f"{found[launch]}\n{output}: launch {launch % len(found)} of {launches}")


def _kernels(count: int) -> str:
    return f"{count} kernel{'' if count == 1 else 's'}"


def _age(seconds: float) -> str:
    """Time since the last use, in the largest unit that gives at least 1."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds / length)} {unit}"
    return f"{max(0, int(seconds))} s"


if __name__ == "__main__":
    main()
