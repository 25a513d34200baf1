"""Kernels of the library with one instruction of their PTX taken out: the emulator has to see each."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import pytest

from emulator import device
from emulator.build import compiler
from emulator.library import CASES, judged

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++ on x86-64")

REMOVED = (
    ("gemm_sm80", 3, r"cp\.async\.wait_group\s"), ("gemm_sm80", 3, r"bar\.sync\s"),
    ("gemm_sm90", 3, r"fence\.proxy\.async"), ("gemm_sm90", 3, r"mbarrier\.arrive\.expect_tx"),
    ("gemm_sm90", 3, r"mbarrier\.try_wait"), ("gemm_sm90", 3, r"cp\.async\.bulk\.wait_group"),
)


def without(text: str, pattern: str) -> str:
    """The text with the lines blank that hold the pattern; a wait is taken to succeed."""
    lines = text.splitlines()
    found = [n for n, line in enumerate(lines) if re.search(pattern, line)]
    assert found, f"the kernel has no {pattern}"
    for n in found:
        waited = re.search(r"selp\.u32 (%\w+), 1, 0", lines[n])
        lines[n] = f"mov.u32 {waited[1]}, 1;" if waited else ""
    return "\n".join(lines)


@pytest.mark.parametrize(("kernel", "number", "pattern"), REMOVED)
def test_removed(kernel, number, pattern, tmp_path):
    one = [x for x in CASES if x.kernel == kernel][number]
    made, verdicts = device._ptx, []

    def changed(source: str, name: str, arch: str) -> tuple[str, Path]:
        text, path = made(source, name, arch)
        return without(text, pattern), path

    for seed in range(3):
        with mock.patch.object(device, "_ptx", changed):
            verdicts.append(judged(one, seed)[0])
        if verdicts[-1] != "right":
            return
    raise AssertionError(f"{kernel} without {pattern}: {verdicts}")
