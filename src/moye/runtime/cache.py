"""Compiled kernels on disk, safe under concurrent processes.

In: a key (sha256 of printed source, flags, compiler version), a blob, a small JSON record.  Out: the same, later.

    cache = DiskCache(env.cache_dir())
    cache.put(key := cache_key(source, flags, compiler_version()), cubin, {"log": log})

A file is written under another name and then renamed, and it carries its own digest, so a reader sees a whole entry or
none.  The key is of the text that is compiled, never of the cubin: NVRTC need not make the same bytes of it twice.  A
disk that cannot be read or written is a miss, never an error.  So is anything that another user owns.  The least
recently used entries go first.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moye import env
from moye.errors import MoyeError
from moye.runtime import disk

_MAGIC = b"moye-1\n"
_DIGEST = 32
_SUFFIX, _ASIDE = ".bin", ".tmp"
_KEY, _FOLDER = re.compile(r"[0-9a-f]{8,128}"), re.compile(r"[0-9a-f]{2}")
_LEFT = 3600.0                                          # seconds after which nobody writes a file any more
_room: dict[Path, int] = {}
"""For each root of a cache: how many bytes this process may still write before it measures the cache again."""


def cache_key(source: str, flags: Sequence[str], compiler: str) -> str:
    """sha256 over all that a cubin depends on; each part has its length in front, so parts never run together."""
    digest = hashlib.sha256()
    for part in (compiler, str(len(flags)), *flags, source):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """One cached file: its key, size in bytes, and time of last use."""

    key: str
    size: int
    used: float


class DiskCache:
    """A directory of entries; the first ``put`` makes it.  ``part`` is a directory of its own inside it."""

    def __init__(self, root: str | os.PathLike[str], part: str = "") -> None:
        self._top = Path(root)
        self.root = self._top / part

    def problem(self) -> str | None:
        """Why it cannot be used, or None."""
        return disk.problem_of(self._top) or (disk.problem_of(self.root) if self.root != self._top else None)

    def get(self, key: str) -> bytes | None:
        """The blob, or None if there is no whole entry."""
        found = self.get_entry(key)
        return None if found is None else found[0]

    def get_entry(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """The blob and its record, or None if there is no whole entry of this user's; a damaged file is removed."""
        path = self._path(key)
        data = None if self.problem() else disk.read(path)
        if data is None:
            return None
        found = _unpack(data)
        # A damaged entry would be a miss for ever: without it the next ``put`` makes it whole.
        if found is None:
            _remove(path)
        return found

    def record(self, key: str) -> dict[str, Any]:
        """The record of an entry, without using it, so its age stays; empty if there is no whole entry."""
        data = disk.read(self._path(key), use=False)
        found = None if data is None else _unpack(data)
        return {} if found is None else found[1]

    def put(self, key: str, blob: bytes, meta: Mapping[str, Any] | None = None) -> bool:
        """Keep a blob and a record that JSON can hold; False if the disk does not allow it.

        Beyond MOYE_CACHE_LIMIT, the least recently used entries are removed.
        """
        path = self._path(key)
        try:
            size = self._write(path, blob, meta or {})
        except (OSError, MemoryError):
            return False
        if size and not self.root.relative_to(self._top).parts:
            self._bound(size)
        return bool(size)

    def _write(self, path: Path, blob: bytes, meta: Mapping[str, Any]) -> int:
        """The number of bytes written; 0 if the folder is not to be used."""
        data, aside = _pack(blob, meta), None
        for folder in dict.fromkeys((self._top, self.root, path.parent)):
            disk.make(folder)
        if self.problem():
            return 0
        try:
            # In the same folder, so that the rename stays inside one file system, where it is atomic.
            handle, aside = tempfile.mkstemp(prefix=".", suffix=_ASIDE, dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            # Several processes may compile one kernel at once: the last rename wins, and all of them hold the same
            # kernel.
            os.replace(aside, path)
            aside = None
        finally:
            if aside is not None:
                _remove(Path(aside))
        return len(data)

    def _bound(self, written: int) -> None:
        """Prune, once this process has written so much that the cache may be too large."""
        limit = env.cache_limit()
        if not limit:
            return
        known = _room.get(self.root, 0) - written
        if known < 0:                                   # the first time, and whenever there may be no room left
            if self.size() > limit:
                # With room to spare, or each further ``put`` would have to prune again.
                self.prune(limit - limit // 8)
            # Other processes write too, so this process never counts on more than an eighth before it measures again.
            known = min(max(0, limit - self.size()), max(limit // 8, written))
        _room[self.root] = known

    def entries(self) -> list[Entry]:
        """Every entry, most recently used first."""
        found = []
        for path in self._files():
            status = disk.is_plain(path) if _KEY.fullmatch(path.stem) and path.suffix == _SUFFIX else None
            if status is not None and path.parent.name == path.stem[:2]:
                found.append(Entry(path.stem, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: -entry.used)

    def size(self) -> int:
        """Bytes in use."""
        return sum(entry.size for entry in self.entries())

    def clear(self) -> int:
        """Remove every entry and every file that a killed process left; return the number of entries removed."""
        self._remove_left(0.0)
        return sum(_remove(self._path(entry.key)) for entry in self.entries())

    def prune(self, limit: int) -> int:
        """Remove the least recently used entries until at most ``limit`` bytes are left; return the number removed."""
        self._remove_left(_LEFT)
        entries, removed = self.entries(), 0
        size = sum(entry.size for entry in entries)
        for entry in reversed(entries):
            if size <= limit:
                break
            size -= entry.size
            removed += _remove(self._path(entry.key))
        return removed

    def locked(self) -> AbstractContextManager[bool]:
        """Lock out others who ask for this, to read entries and replace them; False if that cannot be done."""
        try:
            disk.make(self._top)
        except (OSError, MemoryError):
            return nullcontext(False)
        return nullcontext(False) if self.problem() else disk.locked(self._top / ".lock")

    def _remove_left(self, age: float) -> None:
        """Remove the files that killed processes left at least this many seconds ago."""
        for path in self._files():
            if path.name.startswith(".") and path.suffix == _ASIDE and (status := disk.is_plain(path)) is not None \
                    and status.st_mtime <= time.time() - age:
                _remove(path)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise MoyeError(f"{key!r} is not a cache key: a key is a hexadecimal digest")
        return self.root / key[:2] / f"{key}{_SUFFIX}"

    def _files(self) -> Iterator[Path]:
        """Every file in the places of entries."""
        for folder in _listed(self.root):
            if _FOLDER.fullmatch(folder.name):
                yield from _listed(folder)


def opened() -> DiskCache | None:
    """The disk cache; None if it is turned off or if there is no folder for it, which is said once."""
    if not env.disk_cache():
        return None
    try:
        cache = DiskCache(env.cache_dir())
        problem = cache.problem() or _unmade(cache.root)
    except MoyeError as error:
        disk.say_once(f"nothing is kept on disk: {error.message}")
        return None
    if problem is not None:
        disk.say_once(f"nothing is kept on disk: the cache folder {str(cache.root)!r} {problem}")
        return None
    return cache


def _unmade(root: Path) -> str | None:
    try:
        disk.make(root)
    except (OSError, MemoryError) as error:
        return f"cannot be made ({getattr(error, 'strerror', None) or type(error).__name__})"
    return None


def _listed(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in sorted(os.listdir(folder))]
    except (OSError, MemoryError):
        return []


def _pack(blob: bytes, meta: Mapping[str, Any]) -> bytes:
    record = json.dumps(meta, sort_keys=True).encode()
    body = len(record).to_bytes(4, "little") + record + blob
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpack(data: bytes) -> tuple[bytes, dict[str, Any]] | None:
    start = len(_MAGIC) + _DIGEST
    digest, body = data[len(_MAGIC):start], data[start:]
    # The digest covers record and blob: a file cut short by a full disk or a crash is no entry.
    if len(body) < 4 or not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        return None
    end = 4 + int.from_bytes(body[:4], "little")
    try:
        record = json.loads(body[4:end])
    except (ValueError, RecursionError):                # of another program, or another version
        return None
    return (body[end:], record) if isinstance(record, dict) and end <= len(body) else None


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except (OSError, MemoryError):
        return False
    return True
