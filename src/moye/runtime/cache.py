"""Compiled kernels on disk, safe under concurrent processes.

In: a key (sha256 of printed source, flags, compiler version), a blob, a small JSON record.  Out: the same, later.

>>> cache = DiskCache(env.cache_dir())
>>> cache.put(key := cache_key(source, flags, compiler_version()), cubin, {"log": log})

A file is written aside and renamed, and carries its own digest, so a reader sees a whole entry or none.  A disk that
cannot be read or written is a miss, never an error.  Nothing is evicted: ``clear`` and ``prune`` are for the user.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moye.errors import MoyeError

_MAGIC = b"moye-1\n"
_DIGEST = 32
_SUFFIX = ".bin"


def cache_key(source: str, flags: Sequence[str], compiler: str) -> str:
    """sha256 over all that a cubin depends on; each part is length-prefixed, so parts never run together."""
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
    """A directory of entries; it is made by the first ``put``."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def get(self, key: str) -> bytes | None:
        """The blob, or None where there is no whole entry."""
        found = self.get_entry(key)
        return None if found is None else found[0]

    def get_entry(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """The blob and its record, or None where there is no whole entry; a damaged file is removed."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        found = _unpack(data)
        try:
            if found is None:
                path.unlink()
            else:
                os.utime(path)
        except OSError:
            pass
        return found

    def record(self, key: str) -> dict[str, Any]:
        """The record of an entry, without using it: its age stays; empty where there is no whole entry."""
        try:
            found = _unpack(self._path(key).read_bytes())
        except OSError:
            return {}
        return {} if found is None else found[1]

    def put(self, key: str, blob: bytes, meta: Mapping[str, Any] | None = None) -> bool:
        """Keep a blob and a record that JSON can hold; False where the disk does not let us."""
        path = self._path(key)
        data = _pack(blob, meta or {})
        aside = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, aside = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(aside, path)
        except OSError:
            if aside is not None:
                _remove(Path(aside))
            return False
        return True

    def entries(self) -> list[Entry]:
        """Every entry, most recently used first."""
        found = []
        for path in self._files(f"*{_SUFFIX}"):
            try:
                status = path.stat()
            except OSError:
                continue
            found.append(Entry(path.stem, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: -entry.used)

    def size(self) -> int:
        """Bytes in use."""
        return sum(entry.size for entry in self.entries())

    def clear(self) -> int:
        """Remove every entry and whatever a killed process left aside; the number of entries removed."""
        for path in self._files(".*.tmp"):
            _remove(path)
        return sum(_remove(self._path(entry.key)) for entry in self.entries())

    def prune(self, limit: int) -> int:
        """Remove the least recently used entries beyond ``limit`` bytes; the number removed."""
        kept, removed = 0, 0
        for entry in self.entries():
            if kept + entry.size <= limit:
                kept += entry.size
            else:
                removed += _remove(self._path(entry.key))
        return removed

    def _path(self, key: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{8,128}", key):
            raise MoyeError(f"{key!r} is not a cache key: a key is a hexadecimal digest")
        return self.root / key[:2] / f"{key}{_SUFFIX}"

    def _files(self, pattern: str) -> Iterator[Path]:
        yield from self.root.glob(f"[0-9a-f][0-9a-f]/{pattern}")


def _pack(blob: bytes, meta: Mapping[str, Any]) -> bytes:
    record = json.dumps(meta, sort_keys=True).encode()
    body = len(record).to_bytes(4, "little") + record + blob
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpack(data: bytes) -> tuple[bytes, dict[str, Any]] | None:
    start = len(_MAGIC) + _DIGEST
    digest, body = data[len(_MAGIC):start], data[start:]
    if len(body) < 4 or not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        return None
    end = 4 + int.from_bytes(body[:4], "little")
    return body[end:], json.loads(body[4:end])


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
