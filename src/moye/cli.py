"""The ``moye`` command: version, environment, pictures of layouts, checks, timelines, puzzles, C, the disk cache.

In: a command line.  Out: text on stdout, exit status 0; one sentence on stderr and 1 where something is wrong (of
``moye check``: 1 for a violation, 2 where the script is missing or fails itself).

    main(["draw", "((2,2),4):((1,8),2)", "-o", "layout.svg"])

It needs ``pip install 'moye[cli]'`` and says so where typer is missing.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import runpy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moye import env
from moye.errors import MoyeError
from moye.origin import pip_install
from moye.runtime.cache import DiskCache

PACKAGES = ("numpy", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm", "ml_dtypes", "torch")


def main(args: Sequence[str] | None = None) -> None:
    """Run one command; the entry point of ``moye``."""
    try:
        import typer
    except ImportError:
        sys.exit(f"the moye command needs typer: {pip_install('cli')}")
    app = typer.Typer(help="moye: layouts, kernels, and a checking simulator.", no_args_is_help=True,
                      add_completion=False, pretty_exceptions_enable=False)
    cache = typer.Typer(help="The disk cache of compiled kernels.", no_args_is_help=True)
    for group, name, command in ((app, "version", version), (app, "env", environment), (app, "explain", explain),
                                 (app, "draw", _draw(typer)), (cache, "ls", cache_ls), (cache, "clear", cache_clear)):
        group.command(name=name)(command)
    app.add_typer(cache, name="cache")

    def draw_timeline(script: Path, arguments: list[str] = typer.Argument(None),  # noqa: B008  typer's way to declare
                      output: Path = typer.Option(Path("timeline.svg"), "-o", "--output",  # noqa: B008
                                                  help=".svg, .json (Chrome trace, for Perfetto) or .txt"),
                      launch: int = typer.Option(-1, help="which launch of the script; -1 is the last")) -> None:
        timeline(script, output, launch, arguments or ())

    app.command(name="timeline", help=str(timeline.__doc__))(draw_timeline)
    app.command(name="build")(_build(typer))
    app.add_typer(_puzzles(typer), name="puzzles")
    app.command(name="check", context_settings={"ignore_unknown_options": True})(_check(typer))

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
    from moye.cuda.device import driver

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


def explain(code: str) -> None:
    """What a code of a finding or an error means, such as D3: when it is found, and what mends it."""
    from moye.sim.findings.groups import explanation

    print(explanation(code))


def _draw(typer: Any) -> Callable[..., None]:
    """The command ``moye draw``, whose options typer has to describe."""
    def draw(
        notation: str = typer.Argument("", metavar="NOTATION", show_default=False, help=(
            "((2,2),4):((1,8),2), Sw<3,3,3>, or Sw<3,3,3> o (8,64):(64,1); with --thr it may be left out")),
        swizzle: str = typer.Option("", help="Put this swizzle around the layout: 3,3,3 or Sw<3,3,3>."),
        thr: str = typer.Option("", help="The thread layout of a tiled copy: show who holds what."),
        val: str = typer.Option("", help="The value layout of a tiled copy, beside --thr."),
        banks: bool = typer.Option(False, "--banks", help="Show the shared-memory banks, for elements of --bits bits."),
        bits: int | None = typer.Option(None, help="The width of an element, which gives each cell its bank."),
        output: str = typer.Option("", "--output", "-o", help="A file: .txt, .svg, .tex, .typ or .html."),
        format: str = typer.Option("", help="text, svg, latex, typst or html; of stdout, or of the file."),
        title: str = typer.Option("", help="The title, instead of the notation."),
        max_cells: int = typer.Option(4096, help="Draw no more cells than this."),
    ) -> None:
        """A picture of a layout, a swizzle, or the partition of a tile among threads."""
        from moye.pictures import draw as picture_of

        if not notation and not thr:
            raise typer.BadParameter("a layout, or --thr, is needed")
        with _writing("draw", output):
            picture = picture_of(notation or None, format or None, output or None, title=title or None,
                                 swizzle=swizzle or None, thr=thr or None, val=val or None, banks=banks, bits=bits,
                                 max_cells=max_cells)
        if not output:
            sys.stdout.write(picture.render(picture.format))

    return draw


def _check(typer: Any) -> Callable[..., None]:
    """The command ``moye check``, whose options typer has to describe."""
    def check(
        target: str = typer.Argument(..., metavar="SCRIPT[::FUNCTION]", show_default=False, help=(
            "The program, run as __main__; or the function of it to call, numbers as numbers.")),
        arguments: list[str] = typer.Argument(None, help=(                           # noqa: B008
            "What the program is given; options that are not below too.")),
        blocks: int = typer.Option(None, min=1, help="Run only so many blocks of each launch."),
        earliest: bool = typer.Option(False, "--earliest", help="Complete asynchronous copies at once, not at the "
                                                                "latest legal moment."),
        lints: bool = typer.Option(True, help="Show lints, which never fail."),
        json: Path = typer.Option(None, help="Write everything found to this file."),    # noqa: B008
        fail_on_unsupported: bool = typer.Option(False, "--fail-on-unsupported", help=(
            "Exit with 1 also where something could not be judged.")),
    ) -> None:
        """Run a program with every launch of its kernels in the checking simulator.

        The exit status is 1 if a violation was found, 2 if there is no such program or it fails itself, else 0.
        """
        from moye.runtime.check.program import FAILED, check_program

        def say(text: str) -> None:
            print(text, flush=True)

        try:
            outcome = check_program(target, arguments or (), say, earliest=earliest, blocks=blocks, lints=lints)
            if json is not None:
                with _writing("check", json):
                    json.write_text(outcome.as_json(), encoding="utf-8")
        except (MoyeError, OSError) as error:
            print(error, file=sys.stderr)
            sys.exit(FAILED)
        say(str(outcome))
        sys.exit(outcome.status(fail_on_unsupported=fail_on_unsupported))

    return check


def _build(typer: Any) -> Callable[..., None]:
    """The command ``moye build``, whose options typer has to describe."""
    def build(
        target: str = typer.Argument(..., metavar="MODULE[:NAME]", show_default=False, help=(
            "A module or a .py file; and of it an mo.Export, a list of them, or a kernel.")),
        arguments: list[str] = typer.Argument(None, help=(                           # noqa: B008
            "For a kernel: arrays as float32[1024,512:512,1]@16 (extents, strides, alignment), numbers, NAME=VALUE.")),
        output: Path = typer.Option(Path("."), "-o", "--output", help="A folder, or a .c file."),    # noqa: B008
        arch: list[str] = typer.Option(None, help="An architecture such as sm_90a; may be repeated."),  # noqa: B008
        block: str = typer.Option("", help="The threads of a kernel's block: 256, or 32,8."),
        cluster: str = typer.Option("", help="The blocks of a kernel's cluster."),
        name: str = typer.Option("", help="The name of the C function."),
        list_: bool = typer.Option(False, "--list", help="Show what the module has, and write nothing."),
    ) -> None:
        """Write kernels as C with the compiled code inside: a header and a source, for programs without Python."""
        from moye.runtime.building import exports_of, listed
        from moye.runtime.exporting import export

        if list_:
            lines = list(listed(target))
            print("\n".join(lines) if lines else f"{target} has no kernel and no mo.Export")
            return
        exports = exports_of(target, arguments or (), block=block, cluster=cluster, name=name, arch=arch or ())
        with _writing("build", output):
            written = export(output, *exports)
        print(f"{written.header}\n{written.source}: {', '.join(written.functions)}")

    return build


@contextmanager
def _writing(command: str, path: str | Path) -> Iterator[None]:
    """The files of a command are written here: what the system refuses is told in one line."""
    try:
        yield
    except OSError as error:
        raise MoyeError(f"{command}: cannot write {error.filename or path}: {error.strerror}") from error


def _puzzles(typer: Any) -> Any:
    """The commands of ``moye puzzles``."""
    from moye.puzzles.terminal import commands
    return commands(typer)


def cache_ls() -> None:
    """The compiled kernels on disk, most recently used first."""
    disk = _disk_cache()
    entries = disk.entries()
    if entries:
        print(f"{'key':12}  {'kernel':32}  {'arch':8}  {'bytes':>9}  {'age':>6}")
    for entry in entries:
        record = disk.record(entry.key)
        kernel, arch = (_shown(record.get(name, "?")) for name in ("kernel", "arch"))
        print(f"{entry.key[:12]}  {kernel:32}  {arch:8}  {entry.size:9}  {_age(time.time() - entry.used):>6}")
    print(f"{disk.root}: {_kernels(len(entries))}, {sum(entry.size for entry in entries) / 1024:.1f} KiB")


def cache_clear() -> None:
    """Remove every compiled kernel from the disk."""
    disk = _disk_cache()
    print(f"{disk.root}: removed {_kernels(disk.clear())}")


def _disk_cache() -> DiskCache:
    """The disk cache, also where it is turned off; MoyeError where it is somebody else's."""
    disk = DiskCache(env.cache_dir())
    if (problem := disk.problem()) is not None:
        raise MoyeError(f"the cache folder {str(disk.root)!r} {problem}")
    return disk


def _shown(value: object) -> str:
    """A record's text on one line of a terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(value))


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
    with timelines(everywhere=True) as found:
        runpy.run_path(str(script), run_name="__main__")
    launches = f"{len(found)} launch{'' if len(found) == 1 else 'es'}"
    if not found:
        raise MoyeError(f"{script} launched nothing in the simulator")
    if not -len(found) <= launch < len(found):
        raise MoyeError(f"there is no launch {launch}: {script} made {launches} in the simulator")
    with _writing("timeline", output):
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
