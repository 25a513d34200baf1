"""Hooks of MkDocs: pages that are no files of docs/, and links and lists as Python-Markdown wants them.

The pages of docs/ are written for readers of the repository.  There a link may lead to an example, and a list is
indented by the width of its mark.  In the site, examples, CONTRIBUTING.md and CHANGELOG.md are pages, too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
import site_browser as browser  # noqa: E402  beside this file, which is no package
import site_reference as reference  # noqa: E402

FENCE = re.compile(r"^ *```")
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
ITEM = re.compile(r"^( *)([*-]|\d+\.) +")
CODE = re.compile(r"^### ([A-Z]\d+): ", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Chapters, examples and the reference are listed by what is there."""
    nav = {title: pages for section in config["nav"] for title, pages in section.items()}
    nav["Learn"] += [f"learn/{path.stem}.md" for path in sorted((DOCS / "learn").glob("[0-9]*.md"))]
    nav["Learn"] += there("puzzles.md", "playground.md")
    nav["Guides"] += there("pytorch.md", "deployment.md")
    nav["Reference"] += [{"API": [{title: f"reference/{page}"} for page, title in reference.titles()]}]
    nav["Internals"] += ["contributing.md", "changelog.md"]
    nav["Kernels"] += unlisted(str(config["nav"]))      # a page that nobody has placed is about kernels
    nav["Kernels"] += [f"examples/{path.stem}.md" for path in examples()]
    return config


def unlisted(nav: str) -> list[str]:
    """The pages of docs/ that the navigation does not name."""
    return [path.name for path in sorted(DOCS.glob("*.md")) if f"'{path.name}'" not in nav]


def there(*pages: str) -> list[str]:
    """Those of the pages that docs/ has."""
    return [page for page in pages if (DOCS / page).exists()]


def examples() -> list[Path]:
    """The examples that are right."""
    return sorted((ROOT / "examples").glob("*.py"))


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here."""
    from mkdocs.structure.files import File

    for path, content in [*generated().items(), *browser.files().items()]:
        if (old := files.get_file_from_path(path)) is not None:
            files.remove(old)                           # a source of the folder that is served
        files.append(File.generated(config, path, content=content))
    return files


def generated() -> dict[str, str]:
    """Every page that is no file of docs/."""
    made = {f"reference/{name}": text for name, text in reference.pages().items()}
    made["index.md"] = moved(ROOT / "README.md", "index.md")
    made["contributing.md"] = moved(ROOT / "CONTRIBUTING.md", "contributing.md")
    made["changelog.md"] = moved(ROOT / "CHANGELOG.md", "changelog.md")
    for path in [*examples(), *sorted((ROOT / "examples" / "broken").glob("*.py"))]:
        made[page_of(path)] = "\n".join(_example(path))
    return made


def page_of(path: Path) -> str:
    """The page of the site that a file of the repository becomes; empty if it becomes none."""
    inside = path.relative_to(ROOT)
    if inside.parts[0] == "examples" and path.suffix == ".py":
        return inside.with_suffix(".md").as_posix()
    return {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}.get(
        inside.as_posix(), "")


def _example(path: Path) -> Iterator[str]:
    name = path.relative_to(ROOT).as_posix()
    yield f"# {path.stem}\n\n`{name}`; `python {name}` runs it.\n\n```py"
    yield path.read_text().rstrip()
    yield "```"


def moved(path: Path, page: str) -> str:
    """The text of a file of the repository, for a page of the site."""
    return relinked(path.read_text(), path.parent, page)


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Links to files outside of docs/ lead to their pages; lists and headings are as Python-Markdown wants them."""
    source = page.file.src_uri
    if page.file.abs_src_path:
        markdown = relinked(markdown, (DOCS / source).parent, source)
    if source == "checker.md":
        markdown = anchored(markdown)
    return outside_of_code(markdown, indented)


def relinked(markdown: str, folder: Path, page: str) -> str:
    """Links to files that are not in docs/ lead to their page of the site, or are text where they have none."""
    def one(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / match[2]))
        if match[2].startswith(("http:", "https:", "mailto:")) or not target.exists() or ROOT not in target.parents:
            return match[0]
        inside = target.relative_to(DOCS).as_posix() if DOCS in target.parents else page_of(target)
        if not inside:
            return f"]({os.path.relpath('index.md', Path(page).parent)})"
        return f"{match[1]}{os.path.relpath(inside, Path(page).parent)}{match[3] or ''}{match[4]}"

    return outside_of_code(markdown, lambda text: LINK.sub(one, text))


def anchored(markdown: str) -> str:
    """Each class of defects has its code as an anchor: the first section of it, where it has several."""
    seen: set[str] = set()

    def one(match: re.Match[str]) -> str:
        first = match[1] not in seen
        seen.add(match[1])
        return f'<a id="{match[1].lower()}"></a>\n\n{match[0]}' if first else match[0]

    return CODE.sub(one, markdown)


def outside_of_code(markdown: str, change: Callable[[str], str]) -> str:
    """The text with ``change`` applied to what lies between fenced blocks that begin at the margin."""
    parts: list[tuple[bool, list[str]]] = [(False, [])]
    for line in markdown.splitlines():
        inside = parts[-1][0]
        if line.startswith("```") and not inside:
            parts.append((True, [line]))
        elif line.startswith("```"):
            parts[-1][1].append(line)
            parts.append((False, []))
        else:
            parts[-1][1].append(line)
    return "\n".join("\n".join(lines) if code else change("\n".join(lines)) for code, lines in parts if lines) + "\n"


def indented(text: str) -> str:
    """Text of list items is indented by four, however wide the mark is."""
    lines: list[str] = []
    width = 0
    for line in text.splitlines():
        item = ITEM.match(line)
        if item and not item[1]:
            width = len(item[0])
        elif line.strip() and not line.startswith(" " * (width or 1)):
            width = 0
        elif width and line.strip():
            line = " " * max(0, 4 - width) + line
        lines.append(line)
    return "\n".join(lines)
