"""The disk cache among things that are not its own: other records, other users, other kinds of files, no folder."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import threading

import pytest

import moye as mo
from moye import cli, env
from moye.cuda.compiler import cubin as cubins
from moye.errors import CompileError, MoyeError
from moye.runtime import cache as caches
from moye.runtime import disk
from moye.runtime.cache import DiskCache, _pack, cache_key, opened
from moye.runtime.tuning.trials import Config, Trial, TrialStore

KEY = cache_key("source", [], "nvrtc-13.0")
LIKE = mo.TensorLike(mo.float32, (4,))


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("MOYE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(disk, "_said", set())
    return tmp_path / "cache"


def plain(x):
    x[mo.thread_idx().x] = 1.0


def compiled(function=plain):
    """A compilation that no kernel remembers."""
    return mo.kernel(function).compile(LIKE, block=4, arch="sm_80")


def what(cubin):
    """The architecture of a cubin, and its kernels: names, resources, parameters."""
    return cubins.arch(cubin), cubins.parse(cubin)


def with_digest(body):
    return b"moye-1\n" + hashlib.sha256(body).digest() + body


# --- entries of another kind -----------------------------------------------------------------------------------------


def other_kernel(x):
    x[mo.thread_idx().x + 1] = 2.0


def of_another_architecture(data):
    return _pack(mo.kernel(plain).compile(LIKE, block=4, arch="sm_90a").cubin, {"log": ""})


def of_another_kernel(data):
    return _pack(compiled(other_kernel).cubin, {"log": ""})


def of_other_parameters(data):
    def plain(x, y):
        x[mo.thread_idx().x] = y[0]
    return _pack(mo.kernel(plain).compile(LIKE, LIKE, block=4, arch="sm_80").cubin, {"log": ""})


@pytest.mark.slow
@pytest.mark.parametrize("damage", [
    lambda data: with_digest((3).to_bytes(4, "little") + b"abc"),
    lambda data: with_digest((2).to_bytes(4, "little") + b"[]"),
    lambda data: with_digest((4).to_bytes(4, "little") + b"null"),
    lambda data: with_digest((9000).to_bytes(4, "little") + b"{}"),
    lambda data: with_digest((2).to_bytes(4, "little") + b"\xff\xfe"),
    lambda data: with_digest((60000).to_bytes(4, "little") + b"[" * 60000),
    lambda data: with_digest(b""),
    lambda data: _pack(b"junk", {}),
    lambda data: _pack(b"", {"log": ["a", "list"]}),
    lambda data: _pack(b"\x7fELF\x02" + bytes(200), {}),
    lambda data: data[:len(data) // 2],
    of_another_architecture, of_another_kernel, of_other_parameters,
])
def test_an_entry_of_another_kind_is_a_miss(root, damage):
    """The kernel is compiled again, maybe to other bytes, and those are kept."""
    expected = what(compiled().cubin)
    entry, = DiskCache(root).entries()
    path = DiskCache(root)._path(entry.key)
    path.write_bytes(damage(path.read_bytes()))
    again = compiled().cubin
    assert what(again) == expected
    assert compiled().cubin == again == DiskCache(root).get(entry.key)


def test_a_record_of_another_kind_is_listed_and_shown(root, monkeypatch, capsys):
    cache = DiskCache(root)
    cache.put(KEY, b"blob", {"kernel": ["a", 1], "arch": {"x": 2}})
    cache.put(KEY[::-1], b"blob", {"kernel": "one\nline\x1b[31m", "arch": None})
    cli.cache_ls()
    out = capsys.readouterr().out
    assert "['a', 1]" in out and "one?line?[31m" in out and "2 kernels" in out and len(out.splitlines()) == 4


@pytest.mark.parametrize("make", [
    lambda path: path.write_text("x"),
    lambda path: path.mkdir(),
    os.mkfifo,
    lambda path: path.symlink_to("/etc/passwd"),
    lambda path: path.symlink_to(path),
    lambda path: os.mknod(path, stat.S_IFIFO | 0o600),
], ids=["file", "folder", "fifo", "link", "loop", "node"])
def test_foreign_things_are_neither_read_nor_listed_nor_waited_for(root, make):
    cache = DiskCache(root)
    cache.put(KEY, b"blob")
    folder = cache._path(KEY).parent
    own = [folder / "foo.bin", folder / "0123456789.txt", folder / f"{KEY}.bin.bin", root / "zz", root / "file.bin",
           folder / f"{'00' if KEY[:2] != '00' else '11'}{KEY[2:]}.bin"]
    for path in own:
        make(path)
    assert [entry.key for entry in cache.entries()] == [KEY] and cache.get(KEY) == b"blob"
    assert cache.prune(0) == 1 and cache.clear() == 0
    assert all(os.path.lexists(path) for path in own)
    place = cache._path(KEY)
    make(place)
    assert cache.get(KEY) is None and cache.record(KEY) == {}
    assert cache.put(KEY, b"again") is (not place.is_dir() or place.is_symlink())
    assert cache.get(KEY) in (b"again", None)


def test_what_is_noted_of_compilers_may_be_anything(root):
    compiled()
    notes = DiskCache(root, "compilers")
    note, = notes.entries()
    for record in ({"library": 3, "state": "x"}, {"library": "/etc/passwd"}, {}):
        notes.put(note.key, b"\xff\xfe", record)
        DiskCache(root).clear()
        compiled()


# --- trials ----------------------------------------------------------------------------------------------------------


def tuned(x):
    return x


@pytest.mark.parametrize("kept", [b"\xff", b"[]", b"3", b"null", b'{"a=1": 3}', b'{"a=1": [1, 2, 3]}',
                                  b'{"a=1": ["x", ""]}', b'{"a=1": [1.0, 3]}', b'{"a=1": [-1, ""]}',
                                  b'{"a=1": [NaN, ""]}', b"[" * 60000])
def test_trials_of_another_kind_are_tried_again(root, kept):
    store = TrialStore(tuned, "key", "device")
    DiskCache(root).put(store._file, kept)
    config = Config(a=1)
    assert store.load([config]) == {}
    store.save([Trial(config, 2.0)])
    assert store.load([config]) == {config: Trial(config, 2.0)}


SAVE = """
import sys
from moye.runtime.tuning.trials import Config, Trial, TrialStore
def tuned(x): return x
store = TrialStore(tuned, "key", "device")
sys.stdin.readline()
for i in range(10):
    store.save([Trial(Config(a=int(sys.argv[1]) * 100 + i), 1.0)])
print(store._file)
"""


@pytest.mark.slow
def test_no_trial_of_processes_and_threads_is_lost(root):
    store = TrialStore(tuned, "key", "device")
    command = [sys.executable, "-c", SAVE]
    processes = [subprocess.Popen([*command, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                 for n in range(3)]
    threads = [threading.Thread(target=lambda n=n: [store.save([Trial(Config(a=-1 - n * 10 - i), 1.0)])
                                                    for i in range(10)]) for n in range(2)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert files == {store._file} and len(json.loads(DiskCache(root).get(store._file))) == 50


def test_a_lock_that_nobody_lets_go_of_is_not_waited_for_for_ever(tmp_path):
    with disk.locked(tmp_path / "lock") as alone:
        assert alone
        with disk.locked(tmp_path / "lock", seconds=0.05) as second:
            assert not second
    with disk.locked(tmp_path / "lock", seconds=0.05) as again:
        assert again
    with disk.locked(tmp_path / "nowhere" / "lock") as none:
        assert not none


# --- whose folder it is ----------------------------------------------------------------------------------------------


def test_new_folders_are_for_their_owner_alone(root):
    before = os.umask(0)
    try:
        compiled()
    finally:
        os.umask(before)
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    files = [path for path in root.rglob("*") if path.is_file()]
    assert len(folders) > 3 and {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    assert files and all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in files)


def test_a_folder_that_others_could_write_to_is_closed_to_them(root):
    root.mkdir()
    root.chmod(0o777)
    compiled()
    assert stat.S_IMODE(root.stat().st_mode) == 0o755 and DiskCache(root).entries()


@pytest.fixture
def of_another_user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)


def test_the_folder_of_another_user_is_not_used(root, of_another_user, capsys, tmp_path, monkeypatch):
    root.mkdir()
    for _ in range(2):
        compiled()
    assert list(root.iterdir()) == []
    assert capsys.readouterr().err == (f"moye: nothing is kept on disk: the cache folder {str(root)!r} belongs to "
                                       f"another user\n")
    assert DiskCache(root).put(KEY, b"blob") is False and not DiskCache(root).locked().__enter__()
    with pytest.raises(MoyeError, match="belongs to another user"):
        cli.cache_ls()


def test_the_files_of_another_user_are_not_read(root, monkeypatch):
    cache = DiskCache(root)
    cache.put(KEY, b"blob")
    monkeypatch.setattr(disk, "_is_ours", lambda status: not stat.S_ISREG(status.st_mode))
    assert cache.get(KEY) is None and cache.entries() == [] and cache.record(KEY) == {}


def test_a_folder_that_everybody_writes_to_is_left_as_it_is(root, capsys):
    root.mkdir()
    root.chmod(0o1777)
    compiled()
    assert "can be written to by everybody" in capsys.readouterr().err and list(root.iterdir()) == []
    assert stat.S_IMODE(root.stat().st_mode) == 0o1777


# --- no folder -------------------------------------------------------------------------------------------------------


def nobody(monkeypatch):
    import pwd

    def unknown(*_):
        raise KeyError("getpwuid(): uid not found: 12345")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "MOYE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_home_nothing_is_kept_and_that_is_said_once(root, monkeypatch, capsys):
    nobody(monkeypatch)
    for _ in range(2):
        assert compiled().registers
    TrialStore(tuned, "key", "device").save([Trial(Config(a=1), 1.0)])
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "the home folder of this user is not known" in told
    with pytest.raises(MoyeError, match="home folder") as error:
        cli.cache_ls()
    assert "MOYE_CACHE_DIR" in error.value.hint
    monkeypatch.setenv("MOYE_DISK_CACHE", "0")
    assert opened() is None


@pytest.mark.parametrize("place", ["/proc/nothing/cache", "/dev/null/cache", "/dev/null"])
def test_a_folder_that_cannot_be_made(root, monkeypatch, capsys, place):
    monkeypatch.setenv("MOYE_CACHE_DIR", place)
    assert compiled().registers and compiled().registers
    assert capsys.readouterr().err.count("nothing is kept on disk: the cache folder") == 1


def test_a_relative_folder_of_the_system_is_ignored(monkeypatch):
    monkeypatch.delenv("MOYE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert env.cache_dir().is_absolute()


# --- how much is kept ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "size"), [("500", 500), ("3K", 3072), ("2M", 2 << 20), ("2g", 2 << 30),
                                            ("1 TiB", 1 << 40), ("", 2 << 30), ("0", 0)])
def test_limits(monkeypatch, text, size):
    monkeypatch.setenv("MOYE_CACHE_LIMIT", text)
    assert env.cache_limit() == size


@pytest.mark.parametrize("text", ["-1", "much", "1.5G", "2X"])
def test_limits_that_are_none(monkeypatch, text):
    monkeypatch.setenv("MOYE_CACHE_LIMIT", text)
    with pytest.raises(MoyeError, match=f"MOYE_CACHE_LIMIT={text} is not a size"):
        env.cache_limit()


def test_what_was_used_longest_ago_goes_first(root, monkeypatch):
    monkeypatch.setattr(caches, "_room", {})
    monkeypatch.setenv("MOYE_CACHE_LIMIT", "20000")
    cache, keys = DiskCache(root), [cache_key(str(i), [], "") for i in range(60)]
    for age, key in enumerate(keys):
        cache.put(key, b"x" * 1000)
        os.utime(cache._path(key), (1000 + age, 1000 + age))
        if age > 3:
            cache.get(keys[3])                          # in use all the time
            os.utime(cache._path(keys[3]), (5000 + age, 5000 + age))
        assert cache.size() <= 20000 + 2500
    left = {entry.key for entry in cache.entries()}
    assert keys[3] in left and keys[-1] in left and keys[0] not in left and len(left) > 10
    recent = [key for key in keys if key in left and key != keys[3]]
    assert recent == keys[-len(recent):]


def test_old_leftovers_of_killed_processes_go_with_what_is_too_much(root):
    cache = DiskCache(root)
    cache.put(KEY, b"blob")
    old, new = (cache._path(KEY).parent / f".{name}.tmp" for name in ("old", "new"))
    for path, age in ((old, 7200), (new, 10)):
        path.write_bytes(b"x")
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    cache.prune(1 << 20)
    assert not old.exists() and new.exists() and cache.get(KEY) == b"blob"


def test_a_compiler_that_hands_out_something_else(root, monkeypatch):
    from moye.cuda.compiler import nvrtc

    real = nvrtc._compile
    for image in (b"", b"junk", b"\x7fELF\x02" + bytes(300)):
        monkeypatch.setattr(nvrtc, "_compile", lambda *_, image=image: (image, "log"))
        with pytest.raises(CompileError, match="handed out something else"):
            compiled()
        assert DiskCache(root).entries() == []
    monkeypatch.setattr(nvrtc, "_compile", real)
    assert compiled().registers
