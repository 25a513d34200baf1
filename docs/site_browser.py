"""moye in the browser: what the site serves beside its pages, and where Pyodide comes from.

In: the sources, and build/pyodide if it was fetched.  Out: ``files()``, path in the site -> bytes.

    python docs/site_browser.py         # fetch Pyodide into build/pyodide: make browser

Pyodide's core is the npm package of its publisher.  NumPy is one of the packages that it publishes at its own address
only: what cannot be fetched, the pages load from there.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "docs" / "browser"
FETCHED = ROOT / "build" / "pyodide"

VERSION = "0.29.5"
"""Python 3.13, the newest that moye is tested with."""
SHA512 = ("4e462b52ff66f1099f2260032919a9c19ba52f8f04d2e51a0523be76f4502b20"
          "09734aa1f60bbb8e7f1bb721cf8773599b5af6207d98ac9848afb43607dbab03")
"""Of the tarball of the npm package."""
PUBLISHED = f"https://cdn.jsdelivr.net/pyodide/v{VERSION}/full/"
CORE = ("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
PACKAGES = ("numpy", "ml-dtypes")
"""What kernels need there, by its name in Pyodide's list: NumPy, and bfloat16 and 8-bit floats for it."""
_LONGEST = 20.0
"""Seconds to wait for an answer."""


def files() -> dict[str, bytes]:
    """Every file of the folder browser/ of the site, and that of its Python."""
    made = {f"browser/{path.name}": path.read_bytes() for path in sorted(SOURCES.glob("*.js"))}
    made["browser/browser.css"] = (SOURCES / "browser.css").read_bytes()
    made["browser/moye.zip"] = archive()
    for name, told in (("where", where()), ("kernels", kernels()), ("puzzles", puzzles())):
        made[f"browser/{name}.json"] = json.dumps(told, ensure_ascii=False).encode()
    for path in fetched():
        made[f"browser/pyodide/{path.name}"] = path.read_bytes()
    return made


def fetched() -> list[Path]:
    """The files of Pyodide that are here: none, its core, or its core and NumPy."""
    core = [FETCHED / name for name in CORE]
    return [*core, *wheels()] if all(path.exists() for path in core) else []


def wheels() -> list[Path]:
    """The packages for this Pyodide, if all of them are here."""
    found = sorted(FETCHED.glob("*.whl"))
    return found if len(found) == len(PACKAGES) else []


def where() -> dict[str, str]:
    """Where the worker finds Pyodide and its packages, relative to itself."""
    return {"pyodide": "pyodide/" if fetched() else PUBLISHED,
            "packages": "pyodide/" if fetched() and wheels() else PUBLISHED}


def archive() -> bytes:
    """The modules of moye, as the wheel has them, and ``pages``."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted((ROOT / "src" / "moye").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyi":
                packed.writestr(_entry(path.relative_to(ROOT / "src").as_posix()), path.read_bytes())
        packed.writestr(_entry("pages.py"), (SOURCES / "pages.py").read_bytes())
    return found.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    """The same sources make the same archive."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def kernels() -> dict[str, str]:
    """Programs to begin with: the one of the README, right and wrong, and the matmul of MoYe's manual."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert block is not None, "the README has a kernel"
    matmul = (ROOT / "examples" / "09_matmul_double_buffered.py").read_text(encoding="utf-8")
    small, count = re.subn(r"^    main\(\)$", "    main(M=128, N=128, K=32)", matmul, flags=re.MULTILINE)
    assert count == 1, "the example ends with main()"
    return {"A race, found": block[1], "The double-buffered matmul, 128 x 128 x 32": small}


def puzzles() -> dict[int, dict[str, Any]]:
    """By number: what is handed out, the hints, a solution."""
    from moye.puzzles import pages

    return {page.number: {"number": page.number, "code": page.code, "hints": list(page.puzzle.hints),
                          "solution": _without_statement(page.solution)} for page in pages()}


def _without_statement(text: str) -> str:
    first = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[first.end_lineno:]).strip() + "\n"


def fetch() -> Iterator[str]:
    """Bring Pyodide into build/pyodide, and say what came.  An error only where its core cannot be had."""
    if not fetched():
        yield f"pyodide {VERSION} of npm: {len(_core())} files"
    if not wheels():
        try:
            yield from map(_package, PACKAGES)
        except OSError as error:
            yield f"NumPy for Pyodide cannot be had from {PUBLISHED}: {error}"


def _core() -> list[Path]:
    work = FETCHED.with_name("pyodide.part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    npm = subprocess.run(["npm", "pack", "--silent", f"pyodide@{VERSION}"], cwd=work, capture_output=True, text=True)
    if npm.returncode:
        sys.exit(f"npm pack pyodide@{VERSION} failed: {npm.stderr.strip()}")
    tarball = next(work.glob("*.tgz"))
    if (found := hashlib.sha512(tarball.read_bytes()).hexdigest()) != SHA512:
        sys.exit(f"{tarball.name} has the SHA-512 {found}, and {SHA512} is expected")
    with tarfile.open(tarball) as packed:
        for name in CORE:
            member = packed.extractfile(f"package/{name}")
            assert member is not None, f"{name} is a file"
            (work / name).write_bytes(member.read())
    tarball.unlink()
    FETCHED.mkdir(exist_ok=True)
    return [(work / name).rename(FETCHED / name) for name in CORE]


def _package(name: str) -> str:
    told = json.loads((FETCHED / "pyodide-lock.json").read_text())["packages"][name]
    with urllib.request.urlopen(f"{PUBLISHED}{told['file_name']}", timeout=_LONGEST) as answer:
        wheel = answer.read()
    if (found := hashlib.sha256(wheel).hexdigest()) != told["sha256"]:
        sys.exit(f"{told['file_name']} has the SHA-256 {found}, and {told['sha256']} is expected")
    (FETCHED / told["file_name"]).write_bytes(wheel)
    return f"{name} {told['version']} for Pyodide: {len(wheel) >> 10} KiB"


if __name__ == "__main__":
    for line in fetch():
        print(line)
