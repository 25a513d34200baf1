"""The table of hardware facts: its numbers fit together, and the checks take those of the architecture asked for."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import moye as mo
from moye import hardware
from moye.cuda.device import driver

SRC = Path(mo.__file__).parent
NAMES = "WARP|WARPGROUP|BANKS|SECTOR|LINE|REGISTERS|MULTIPROCESSORS|SMS|STATIC_LIMIT|THREADS_EACH"
COPIES = re.compile(rf"^_?({NAMES})\b[^=\n]*= *\d|22[78] << 10|232448|48 \* 1024|= 65_?536$", re.M)


@pytest.mark.parametrize("number", hardware.ARCHITECTURES)
def test_numbers_fit_together(number):
    facts = hardware.ARCHITECTURES[number]
    assert hardware.STATIC_SHARED < facts.block_shared <= facts.shared - facts.reserved
    assert facts.threads % hardware.MOST_THREADS in (0, 512) and facts.blocks <= facts.warps
    assert hardware.of(f"sm_{number}") is facts and hardware.of(f"sm_{number}a") is facts


def test_architectures_that_the_table_does_not_have():
    assert hardware.of("sm_121a") is hardware.of("sm_120") and hardware.of("sm_88") is hardware.of("sm_87")


def test_no_other_copy_is_kept():
    kept = sorted(f"{path.relative_to(SRC)}: {found[0]}" for path in SRC.rglob("*.py") if path.name != "hardware.py"
                  for found in COPIES.finditer(path.read_text()))
    assert not kept


def test_multiprocessors_of_host_memory(monkeypatch):
    monkeypatch.delenv("MOYE_ARCH", raising=False)
    assert mo.multiprocessors(np.zeros(4)) == 132
    monkeypatch.setenv("MOYE_ARCH", "sm_80")
    assert mo.multiprocessors(np.zeros(4)) == mo.multiprocessors(mo.describe(np.zeros(4))) == 108


def test_multiprocessors_of_a_device():
    info = mo.describe(np.zeros(4))._replace(device=3)
    limits = driver.DeviceLimits("Stub", "sm_90a", 1024, 232448, 233472, 2048, 78)
    with mock.patch.object(driver, "device_limits", {3: limits}.__getitem__):
        assert mo.multiprocessors(info) == 78


@mo.kernel
def gather(arrived, out):
    """Blocks wait until all of them are there."""
    if mo.thread_idx().x == 0:
        mo.atomic_add(arrived, 0, 1, order="acq_rel")
        while mo.load(arrived, 0, order="acquire") < mo.grid_dim().x:
            pass
        out[mo.block_idx().x] = 1


@pytest.mark.parametrize(("arch", "codes"), [("sm_90a", []), ("sm_87", ["G4"])])
def test_blocks_that_wait_for_each_other_fit_a_device_or_not(arch, codes, monkeypatch):
    """20 blocks of 1024 threads are too many for the 16 multiprocessors of sm_87, which hold 1536 threads each."""
    monkeypatch.setenv("MOYE_ARCH", arch)
    report = mo.check(gather)[20, 1024](np.zeros(1, np.int32), np.zeros(20, np.int32))
    assert [found.code for found in report.findings] == codes
