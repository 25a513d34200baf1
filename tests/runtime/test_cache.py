"""cache.py: whole entries or none, whatever other processes do and whatever happens to the files."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from moye.errors import MoyeError
from moye.runtime.cache import DiskCache, cache_key

KEY = cache_key("source", ["-arch=sm_80"], "nvrtc-13.0")


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "root")


def test_round_trip(cache):
    assert cache.get(KEY) is None
    assert cache.put(KEY, b"\x7fELF\0blob", {"log": "Used 8 registers", "seconds": 0.5})
    assert cache.get(KEY) == b"\x7fELF\0blob"
    assert cache.get_entry(KEY) == (b"\x7fELF\0blob", {"log": "Used 8 registers", "seconds": 0.5})
    assert DiskCache(cache.root).get(KEY) == b"\x7fELF\0blob"


def test_an_empty_blob_is_a_blob(cache):
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""


def test_the_last_put_wins(cache):
    cache.put(KEY, b"one")
    cache.put(KEY, b"two")
    assert cache.get(KEY) == b"two"
    assert len(cache.entries()) == 1


def test_key_depends_on_every_part():
    keys = {cache_key(source, flags, compiler) for source in ("a", "b") for flags in ([], ["x"], ["x", "y"], ["xy"])
            for compiler in ("1", "2")}
    assert len(keys) == 16
    assert cache_key("a", ["x"], "1") == cache_key("a", ["x"], "1")


def test_a_key_cannot_leave_the_root(cache):
    for key in ("../../etc/passwd", "", "ABCDEF0123", "abc/def012"):
        with pytest.raises(MoyeError, match="not a cache key"):
            cache.get(key)


@pytest.mark.parametrize("damage", [
    lambda data: data[:-1], lambda data: data + b"x", lambda data: b"", lambda data: data[:20], lambda data: data[:40],
    lambda data: b"other" + data[5:], lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
])
def test_a_damaged_entry_is_a_miss_and_goes(cache, damage):
    cache.put(KEY, b"blob", {"a": 1})
    path = cache._path(KEY)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get(KEY) is None
    assert not path.exists()
    assert cache.put(KEY, b"again")
    assert cache.get(KEY) == b"again"


def test_a_root_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "root")
    assert cache.put(KEY, b"blob") is False
    assert cache.get(KEY) is None
    assert cache.entries() == []
    assert cache.clear() == 0


def test_a_failed_rename_leaves_nothing_behind(cache, monkeypatch):
    def fail(*_):
        raise OSError("disk full")
    monkeypatch.setattr(os, "replace", fail)
    assert cache.put(KEY, b"blob") is False
    assert [path for path in cache.root.rglob("*") if path.is_file()] == []


def test_listing_size_and_clear(cache):
    keys = [cache_key(str(i), [], "") for i in range(5)]
    for key in keys:
        cache.put(key, b"x" * 1000)
    (cache.root / keys[0][:2] / ".left.tmp").write_bytes(b"from a killed process")
    assert {entry.key for entry in cache.entries()} == set(keys)
    assert cache.size() == sum(entry.size for entry in cache.entries()) > 5000
    assert cache.clear() == 5
    assert cache.entries() == []
    assert [path for path in cache.root.rglob("*") if path.is_file()] == []


def test_prune_keeps_the_recently_used(cache):
    keys = [cache_key(str(i), [], "") for i in range(4)]
    for age, key in enumerate(keys):
        cache.put(key, b"x" * 1000)
        os.utime(cache._path(key), (1000 + age, 1000 + age))
    cache.get(keys[0])                                  # the oldest becomes the most recent
    one = cache.entries()[0].size
    assert cache.prune(2 * one) == 2
    assert {entry.key for entry in cache.entries()} == {keys[0], keys[3]}


WRITER = """
import sys
from moye.runtime.cache import DiskCache
cache, key, letter = DiskCache(sys.argv[1]), sys.argv[2], sys.argv[3].encode()
bad = 0
for _ in range(100):
    cache.put(key, letter * 50000, {"letter": letter.decode()})
    found = cache.get_entry(key)
    if found is None or found[0] != found[1]["letter"].encode() * 50000:
        bad += 1
print(bad)
"""


def test_concurrent_processes_see_whole_entries(cache):
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, str(cache.root), KEY, letter], stdout=subprocess.PIPE,
                                  text=True) for letter in "abc"]
    assert [process.communicate(timeout=120)[0].strip() for process in processes] == ["0", "0", "0"]
    assert len([path for path in cache.root.rglob("*") if path.is_file()]) == 1


def test_concurrent_threads(cache):
    bad = []

    def work(letter):
        for _ in range(50):
            cache.put(KEY, letter * 5000)
            data = cache.get(KEY)
            if data is None or data != data[:1] * 5000:
                bad.append(letter)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad
