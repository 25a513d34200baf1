"""Exported C, built with the system's compiler and called beside a CUDA driver that is not there (fake_cuda.c).

In: what ``mo.export`` wrote.  Out: a shared library; for calls of it their codes and messages, and the driver's notes.

    built = build(exported, folder); built.run([("saxpy", [Array(0x1000, (8,), (1,)), ...])], SIZES="8,8,4,4")
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

import moye as mo
from moye.dtypes import bits_of
from moye.runtime import exporting
from moye.runtime.arguments import classify
from moye.runtime.arrays import ArrayInfo
from moye.runtime.launch import dim3

FLAGS = ("-Wall", "-Wextra", "-Werror", "-O1")
_CALLER = """
import ctypes, json, sys
library, calls = ctypes.CDLL(sys.argv[1]), json.loads(sys.stdin.read())
driver = ctypes.CDLL("libcuda.so.1")
if calls["context"]:
    driver.cuCtxSetCurrent(ctypes.c_void_p(0x1000))
out = []
for name, arguments in calls["calls"]:
    given, keep = [], []
    for kind, *value in arguments:
        if kind == "array":
            pointer, shape, strides = value
            given.append(ctypes.c_void_p(pointer))
            if shape is not None and len(shape):
                given += [(ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * len(strides))(*strides)]
            elif shape is None:
                given += [None, None]
        else:
            given.append(getattr(ctypes, kind)(*value))
    code = getattr(library, name)(*given)
    told = getattr(library, name.removesuffix("_load") + "_error_string")
    told.restype = ctypes.c_char_p
    out.append((code, told(code).decode()))
print(json.dumps(out))
"""


def array(pointer, shape, strides):
    return ("array", pointer, shape, strides)


def i64(n):
    return ("c_int64", n)


def f32(x):
    return ("c_float", x)


def stream(n=0):
    return ("c_void_p", n)


def passed(argument, leaf):
    """What the C function takes for an argument of a launch, as Python has it."""
    if isinstance(leaf, ArrayInfo):
        return array(leaf.ptr, tuple(map(int, leaf.shape)), tuple(map(int, leaf.strides)))
    dtype = argument.dtype
    if dtype.is_float and dtype.bits < 32:
        return f"c_uint{dtype.bits}", bits_of(float(leaf), dtype)
    name = {"float32": "float", "tfloat32": "float", "float64": "double", "bool": "int"}.get(dtype.name, dtype.name)
    return f"c_{name}", leaf


def values(arguments):
    """The same as objects of ctypes."""
    for kind, *value in arguments:
        if kind == "array":
            pointer, shape, strides = value
            yield ctypes.c_void_p(pointer)
            if shape:
                yield (ctypes.c_int64 * len(shape))(*shape)
                yield (ctypes.c_int64 * len(strides))(*strides)
        else:
            yield getattr(ctypes, kind)(*value)


class ThroughC:
    """In place of a kernel: each launch is exported as C for its arguments, built, and launched from there."""

    def __init__(self, kernel, folder, arch, handle=0):
        self.kernel, self.folder, self.arch, self.handle, self.calls = kernel, folder, arch, handle, 0

    def __getitem__(self, config):
        return lambda *arguments: self.launch(*arguments, grid=config[0], block=config[1])

    def launch(self, *arguments, grid, block, cluster=(1, 1, 1)):
        asked = mo.Export(self.kernel, [mo.Specialisation(*arguments, block=block, cluster=cluster)], arch=self.arch)
        library = ctypes.CDLL(str(build(mo.export(self.folder, asked), self.folder).library))
        leaves = classify(self.kernel.signature, arguments, {}).leaves
        given = map(passed, exporting._function(asked).arguments, leaves)
        code = getattr(library, asked.function)(*values([*map(i64, dim3(grid, "grid")), *given, stream(self.handle)]))
        told = getattr(library, f"{asked.function}_error_string")
        told.restype = ctypes.c_char_p
        assert code == 0, told(code).decode()
        self.calls += 1


def require_compiler():
    for program in ("gcc", "g++"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


@cache
def fake_driver() -> Path:
    """The folder of a libcuda.so.1 that takes notes."""
    folder = Path(mkdtemp(prefix="moye-fake-cuda-"))
    source = Path(__file__).with_name("fake_cuda.c")
    subprocess.run(["gcc", "-std=gnu11", *FLAGS, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o",
                    folder / "libcuda.so.1", source], check=True)
    return folder


@dataclass
class Built:
    library: Path
    folder: Path

    def run(self, calls, context=True, **settings):
        """(code, message) of each call, and the driver's notes; ``settings`` are those of fake_cuda.c."""
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        env = {**os.environ, "LD_LIBRARY_PATH": str(fake_driver()), "FAKE_CUDA_LOG": str(log),
               **{f"FAKE_CUDA_{name}": str(value) for name, value in settings.items()}}
        done = subprocess.run([sys.executable, "-I", "-c", _CALLER, self.library], env=env, text=True,
                              input=json.dumps({"context": context, "calls": calls}), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        notes = log.read_text().splitlines() if log.exists() else []
        return [tuple(each) for each in json.loads(done.stdout)], notes


def build(exported, folder: Path, sanitize: bool = False) -> Built:
    """A shared library of exported C, with all warnings as errors; undefined behaviour ends one that is sanitized."""
    require_compiler()
    library = folder / f"lib{exported.source.stem}.so"
    more = ("-fsanitize=undefined", "-fno-sanitize-recover=all") if sanitize else ()
    subprocess.run(["gcc", "-std=c99", "-pedantic", *FLAGS, *more, "-shared", "-fPIC", "-o", library, exported.source,
                    "-ldl", "-lpthread"], check=True)
    return Built(library, folder)
