"""``moye puzzles``: list, show, start, check, hint, solution, notebook.

In: a command line.  Out: text; ``check`` exits with 1 where the answer does not pass.

    app.add_typer(commands(typer), name="puzzles")

Answers are files ``puzzles/p07_coalesced.py`` in the current folder, and progress is kept beside them.  It needs rich.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from moye.errors import MoyeError
from moye.origin import pip_install
from moye.puzzles.catalogue import Page, number_of, page, pages, text_of
from moye.puzzles.notebook import notebook
from moye.puzzles.progress import Progress
from moye.testing.verdicts import STATUSES, Verdict

FOLDER = Path("puzzles")


def commands(typer: Any) -> Any:
    """The group of commands, for typer."""
    group = typer.Typer(help="Forty puzzles: kernels with holes, judged without a GPU.", no_args_is_help=False,
                        invoke_without_command=True)

    def everything(context: Any) -> None:
        if context.invoked_subcommand is None:
            list_puzzles()

    everything.__annotations__["context"] = typer.Context          # typer looks for its own class
    group.callback()(everything)

    def check_file(file: Path) -> None:
        check_answer(file)

    def write_notebook(number: int = typer.Argument(None, help="One puzzle; without it all."),
                       output: Path = typer.Option(Path("puzzles.ipynb"), "-o", "--output")) -> None:  # noqa: B008
        write(output, pages() if number is None else (page(number),))

    group.command(name="list", help=str(list_puzzles.__doc__))(list_puzzles)
    for name, command in (("show", show), ("start", start), ("hint", hint), ("solution", solution)):
        group.command(name=name, help=str(command.__doc__))(command)
    group.command(name="check", help=str(check_answer.__doc__))(check_file)
    group.command(name="notebook", help="Write the puzzles as a Jupyter notebook.")(write_notebook)
    return group


def _console() -> Any:
    try:
        from rich.console import Console
    except ImportError:
        raise MoyeError(f"moye puzzles needs rich: {pip_install('cli')}") from None
    return Console(highlight=False)


def list_puzzles() -> None:
    """All puzzles, and which are solved."""
    console, progress = _console(), Progress(FOLDER)
    chapter = ""
    for one in pages():
        if one.chapter != chapter:
            chapter = one.chapter
            console.print(f"\n[bold]{chapter}[/bold]")
        status = progress.status(one.number)
        mark = "[green]✓[/green]" if one.number in progress.solved else "[yellow]·[/yellow]" if status else " "
        last = f"  [dim]{status}[/dim]" if status not in ("", "passed") else ""
        console.print(f" {mark} {one.number:2}  {one.title}{last}")
    console.print(f"\n{len(progress.solved)} of {len(pages())} solved. Next: "
                  f"[bold]moye puzzles start {_next(progress)}[/bold]")


def _next(progress: Progress) -> int:
    return next((one.number for one in pages() if one.number not in progress.solved), 1)


def show(number: int) -> None:
    """What a puzzle asks for, with its picture."""
    console, one = _console(), page(number)
    from rich.markdown import Markdown

    console.rule(f"{one.number}. {one.title}", align="left")
    console.print(Markdown(one.statement))
    if one.puzzle.picture is not None:
        console.print()
        sys.stdout.write(one.text_picture())


def start(number: int) -> None:
    """Write the file of a puzzle to puzzles/, unless it is there, and show what it asks for."""
    one = page(number)
    path = FOLDER / f"{one.name}.py"
    show(number)
    if path.exists():
        print(f"\n{path} is there already")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one.holes, encoding="utf-8")
        print(f"\nwrote {path}")
    print(f"moye puzzles check {path}")


def check_answer(file: Path) -> None:
    """Judge the answer to a puzzle, by the name of its file."""
    one = page(number_of(file))
    if not file.is_file():
        raise MoyeError(f"there is no file {file}", hint=f"moye puzzles start {one.number}")
    console, progress = _console(), Progress(FOLDER)
    with console.status(f"checking {file} ..."):
        verdict = one.check(text_of(file))
    progress.add(one.number, verdict.status)
    _tell(console, one, verdict, progress)
    if not verdict.ok:
        sys.exit(1)


def _tell(console: Any, one: Page, verdict: Verdict, progress: Progress) -> None:
    for result in verdict.results:
        mark = "[green]✓[/green]" if result.ok else "[red]✗[/red]"
        console.print(f" {mark} {result.case}")
    if verdict.ok:
        console.print(f"[bold green]{one.number}. {one.title}: passed[/bold green]{_numbers(verdict)}")
        console.print(f"{len(progress.solved)} of {len(pages())} solved. Next: moye puzzles start {_next(progress)}")
        return
    console.print(f"[bold red]{one.number}. {one.title}: {verdict.status}[/bold red] ({STATUSES[verdict.status]})")
    console.print(verdict.message.replace("submission.py", f"{one.name}.py"), markup=False)
    if verdict.output:
        console.print(f"it printed:\n{verdict.output}", markup=False)
    console.print(f"[dim]moye puzzles hint {one.number}[/dim]")


def _numbers(verdict: Verdict) -> str:
    """What the first case cost."""
    numbers = verdict.results[0].numbers
    if "sector_ratio" not in numbers:
        return ""
    told = [f"{numbers['sector_ratio']:.2f} x the fewest sectors", f"bank conflicts of degree {numbers['degree']}"]
    if numbers["overlap"] is not None:
        told.append(f"{100 * numbers['overlap']:.0f}% of the products beside copies")
    return f" ({', '.join(told)})"


def hint(number: int) -> None:
    """The next hint for a puzzle; after the last one the first again."""
    hints = page(number).puzzle.hints
    place = Progress(FOLDER).hint(number) % len(hints)
    print(f"hint {place + 1} of {len(hints)}: {hints[place]}")


def solution(number: int) -> None:
    """One solution of a puzzle."""
    sys.stdout.write(page(number).solution)


def write(output: Path, chosen: tuple[Page, ...]) -> None:
    """Write a notebook."""
    try:
        output.write_text(notebook(chosen), encoding="utf-8")
    except OSError as error:
        raise MoyeError(f"cannot write {output}: {error.strerror}") from error
    print(f"wrote {output}: {len(chosen)} puzzle{'' if len(chosen) == 1 else 's'}")
