"""Where this moye came from: a checkout, a folder, a repository or a package index.

In: the name of an extra.  Out: the command that installs it from there.

    pip_install("cuda")      # "pip install -e '/home/me/moye[cuda]'"
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
from pathlib import Path
from urllib.request import url2pathname


@functools.cache
def pip_install(extra: str) -> str:
    """The command that installs what moye needs for something, from where this moye came from."""
    root = Path(__file__).resolve().parents[2]
    if (root / "pyproject.toml").is_file() and root.name != "site-packages":        # a checkout, used where it lies
        return f"pip install -e '{root}[{extra}]'"
    origin = _origin()
    if origin.startswith("file://"):
        return f"pip install '{url2pathname(origin.removeprefix('file://'))}[{extra}]'"
    return f"pip install 'moye[{extra}] @ {origin}'" if origin else f"pip install 'moye[{extra}]'"


def _origin() -> str:
    """The URL that moye was installed from; empty where that was a package index."""
    try:
        told = json.loads(importlib.metadata.distribution("moye").read_text("direct_url.json") or "{}")
        scheme = told["vcs_info"]["vcs"] + "+" if "vcs_info" in told else ""
        return f"{scheme}{told['url']}" if "url" in told else ""
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError, TypeError, KeyError):
        return ""
