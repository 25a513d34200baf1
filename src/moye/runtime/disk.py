"""Files of a folder that nobody else may write to: read only files of this user, and never wait for long.

In: paths of the cache.  Out: bytes, or None for what is missing, unreadable, foreign or not a plain file.

    read(path), problem_of(folder)      # (b"...", None)

A FIFO or a device in place of a file is not waited for, and a symbolic link is not followed.
"""

from __future__ import annotations

import importlib
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

fcntl: Any = None
with suppress(ImportError):                             # Windows: processes there do not wait for each other
    fcntl = importlib.import_module("fcntl")

_MOST = 1 << 30
_POLL = 0.01
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) \
    | getattr(os, "O_BINARY", 0)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FAILS = (OSError, ValueError, MemoryError)
"""What the operating system's functions raise; ValueError is for names that it cannot have."""
_said: set[str] = set()


def read(path: Path, *, use: bool = True) -> bytes | None:
    """The contents of a plain file of this user; with ``use`` it counts as used now."""
    try:
        handle = os.open(path, _FLAGS)
    except _FAILS:
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or status.st_size > _MOST:
            return None
        with open(handle, "rb", closefd=False) as file:
            data = file.read(_MOST)
        if use:
            _touch(handle)
        return data
    except _FAILS:
        return None
    finally:
        _close(handle)


def _touch(handle: int) -> None:
    with suppress(*_FAILS, TypeError):                  # a disk that is read-only, a system without this
        os.utime(handle)


def _close(handle: int) -> None:
    with suppress(*_FAILS):
        os.close(handle)


def is_plain(path: Path) -> os.stat_result | None:
    """The status of a plain file of this user; None for everything else."""
    try:
        status = os.lstat(path)
    except _FAILS:
        return None
    return status if stat.S_ISREG(status.st_mode) and _is_ours(status) else None


def _is_ours(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def make(folder: Path) -> None:
    """Make the folder, for this user alone if it is new; OSError if it cannot be made."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise


def problem_of(folder: Path) -> str | None:
    """Why the contents of a folder cannot be trusted; None if they can, or if there is no such folder yet.

    If a folder of this user can be written by others, it is closed to them.
    """
    try:
        link, status = os.lstat(folder), os.stat(folder)
    except FileNotFoundError:
        return None
    except _FAILS as error:
        return f"cannot be looked at ({getattr(error, 'strerror', None) or type(error).__name__})"
    if not stat.S_ISDIR(status.st_mode):
        return "is no folder"
    if not (_is_ours(status) and _is_ours(link)):
        return "belongs to another user"
    if hasattr(os, "geteuid") and status.st_mode & _OTHERS_WRITE:
        if status.st_mode & stat.S_ISVTX:
            return "can be written to by everybody"
        try:
            os.chmod(folder, stat.S_IMODE(status.st_mode) & ~_OTHERS_WRITE)
        except _FAILS:
            return "can be written to by others"
    return None


@contextmanager
def locked(path: Path, seconds: float = 10.0) -> Iterator[bool]:
    """Lock out all processes and threads that ask for this file; False if that fails for ``seconds``."""
    handle = None
    try:
        handle = _lock(path, seconds)
        yield handle is not None
    finally:
        if handle is not None:
            _close(handle)                              # which lets go of it


def _lock(path: Path, seconds: float) -> int | None:
    if fcntl is None:
        return None
    try:
        handle = os.open(path, (_FLAGS & ~os.O_RDONLY) | os.O_RDWR | os.O_CREAT, 0o600)
    except _FAILS:
        return None
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            if time.monotonic() > end:
                break
            time.sleep(_POLL)
        except _FAILS:                                  # a file system that has no locks
            break
    _close(handle)
    return None


def say_once(text: str) -> None:
    """Print a line on stderr, the first time only."""
    if text not in _said:
        _said.add(text)
        print(f"moye: {text}", file=sys.stderr)
