"""What of benchmarks/gemm.py needs no GPU: its rows, figures and files, the clock and power of a GPU, the plots."""

from __future__ import annotations

import ctypes
import math
import time
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

import gemm_plot
import gemm_rows
import gemm_steady
import moye as mo
import power
from gemm_rows import FORTY, KINDS, MAIN, STEADY, Figures, Row

# --- rows ------------------------------------------------------------------------------------------------------------


def test_sets():
    assert len(MAIN) == 2 * 7 + 2 * 2 + 2 and len(FORTY) == len(set(FORTY)) == 44
    of_tensor_cores = set(KINDS) - {"f32"}
    assert {row.kind for row in MAIN} == of_tensor_cores
    assert [row.label for row in FORTY[-4:]] == [f"forty bf16 4096x4096x4096 {o}" for o in ("KK", "KM", "MK", "MM")]
    assert {row.kind for row in STEADY} == of_tensor_cores and min(row.M for row in STEADY) == 4096


def mapped(rows, columns, order, dtype, op):
    """Whether moye makes a tensor map of such an array."""
    strides, tile = ((columns, 1), (8, 16)) if order == "K" else ((1, rows), (16, 8))
    layout = mo.make_layout(tile, (16, 1) if order == "K" else (1, 16))
    try:
        mo.make_tma_copy(op, mo.TensorLike(dtype, (rows, columns), strides), layout)
    except mo.LayoutError:
        return False
    return True


@pytest.mark.parametrize("row", [*FORTY, *MAIN, Row("odd", "e4m3 fast", 64, 64, 1032), Row("odd", "s8", 7, 3, 16),
                                 Row("odd", "bf16", 100, 64, 64, "MK"), Row("odd", "tf32", 64, 4, 4)],
                         ids=lambda row: row.label)
def test_rows_are_marked_by_what_tensor_maps_can_describe(row):
    kind, (order_A, order_B) = KINDS[row.kind], row.orders
    operands, result = (getattr(mo, name) for name in (kind.operands, kind.result))
    assert row.tma == (mapped(row.M, row.K, order_A, operands, mo.TmaLoad()) and
                       mapped(row.N, row.K, order_B, operands, mo.TmaLoad()) and
                       mapped(row.M, row.N, "K", result, mo.TmaStore()))


# --- figures ---------------------------------------------------------------------------------------------------------

BF16 = Row("main", "bf16", 4096, 4096, 4096)
DONE = Figures(BF16, 0.2, 0.19, 1.66e-3, 1.65e-3, 50, "gemm_sm90 128x256x64 stages=4")
WRONG = Figures(FORTY[3], 0.02, 0.04, math.nan, 1.65e-3, 200, "gemm_sm80 64x64x64", "error nan, cuBLAS's 1.65e-03")
MISSING = Figures(MAIN[14], why='ArgumentError: gemm takes no "fast_accum", yet')


def test_figures():
    assert DONE.tflops == pytest.approx(687.2, abs=0.1) and DONE.cublas_tflops == pytest.approx(723.4, abs=0.1)
    assert DONE.ratio == 0.95 and DONE.error_ratio == pytest.approx(1.006, abs=1e-3)
    assert Figures(BF16, 1, 1, 0.0, 0.0).error_ratio == 1
    assert Figures(BF16, 1, 1, 1e-9, 0.0).error_ratio == math.inf
    assert math.isnan(WRONG.error_ratio) and math.isnan(MISSING.ratio)


def test_lines():
    assert gemm_rows.line(DONE) == ("bf16           4096  4096  4096  KK    687.2   723.4   0.950    200.0    190.0  "
                                    "1.66e-03  1.006  tma gemm_sm90 128x256x64 stages=4")
    assert gemm_rows.line(WRONG).endswith("gemm_sm80 64x64x64  WRONG: error nan, cuBLAS's 1.65e-03")
    assert gemm_rows.line(MISSING).endswith('KK  not measured: ArgumentError: gemm takes no "fast_accum", yet')


def test_means():
    rows = [Figures(row, 1.0, ratio) for row, ratio in zip(FORTY[:4], (0.5, 3.0, 2.0, 1 / 3), strict=True)]
    assert [row.row.tma for row in rows] == [True, False, True, False]
    assert gemm_rows.means([DONE, *rows, MISSING]) == [
        "main bf16: 1 shapes, least 0.950, geometric mean 0.950",
        "forty, describable by tensor maps: 2 shapes, least 0.500, geometric mean 1.000",
        "forty, the rest: 2 shapes, least 0.333, geometric mean 1.000"]


def test_rounds_fit_the_budget():
    assert gemm_rows.rounds_for(0.01, 1.5, 200) == 150
    assert gemm_rows.rounds_for(1e-4, 1.5, 200) == 200
    assert gemm_rows.rounds_for(0.0, 1.5, 200) == 200
    assert gemm_rows.rounds_for(1.0, 1.5, 200) == 10
    assert gemm_rows.rounds_for(1.0, 1.5, 3) == 3


def test_the_csv_keeps_what_was_measured(tmp_path):
    gemm_rows.write_csv(tmp_path / "gemm.csv", [DONE, WRONG, MISSING])
    lines = (tmp_path / "gemm.csv").read_text().splitlines()
    assert lines[1] == ("main,bf16,4096,4096,4096,KK,1,50,200,190,687.195,723.363,0.95,0.00166,0.00165,1.00606,"
                        "gemm_sm90 128x256x64 stages=4,")
    done, wrong, missing = gemm_rows.read_csv(tmp_path / "gemm.csv")
    assert done == DONE
    assert (wrong.row, wrong.ratio, wrong.why) == (WRONG.row, 2.0, WRONG.why) and math.isnan(wrong.error)
    assert (missing.row, missing.why, missing.rounds) == (MISSING.row, MISSING.why, 0) and math.isnan(missing.ms)


# --- the steady state ------------------------------------------------------------------------------------------------


class Constant:
    """A sampler that sees what side is at work."""

    def __init__(self, clocks):
        self.clocks, self.at_work = clocks, ""

    def mean(self, start, end):
        return power.Sample(self.clocks[self.at_work], 700.0)


def test_both_sides_take_turns_for_as_long():
    sampler, blocks = Constant({"moye": 1400.0, "cuBLAS": math.nan}), []
    ms = {"moye": 0.2, "cuBLAS": 0.25}

    def timer(work, count):
        sampler.at_work = work
        blocks.append((work, count))
        return 1.1e-3 * count * ms[work]                # at the power limit it takes longer
    found = gemm_steady.steady(BF16, {"moye": "moye", "cuBLAS": "cuBLAS"}, ms, sampler, timer)
    assert blocks == [("moye", 2500), ("cuBLAS", 2000)] * 4
    assert found.ratio == pytest.approx(1.25)
    assert found.moye.tflops == pytest.approx(BF16.flops / 0.22e-3 / 1e12)
    assert (found.moye.mhz, found.moye.watts) == (1400, 700) and math.isnan(found.cublas.mhz)


def test_the_csv_of_the_steady_state(tmp_path):
    found = gemm_steady.Steady(BF16, gemm_steady.Side(650, 1400, 699), gemm_steady.Side(640, 1395, math.nan))
    gemm_steady.write_csv(tmp_path / "steady.csv", [found])
    again, = gemm_steady.read_csv(tmp_path / "steady.csv")
    assert again.moye == found.moye and again.row == BF16 and math.isnan(again.cublas.watts)
    assert gemm_steady.line(found) == ("bf16           4096  4096  4096    650.0   640.0  1.016    1400    1395     699"
                                       "     nan")


# --- clocks and power ------------------------------------------------------------------------------------------------


def sampled(sampler, count=5):
    """The mean over so many samples."""
    with sampler:
        start = time.perf_counter()
        deadline = start + 30
        while len(sampler._samples) < count and time.perf_counter() < deadline:
            time.sleep(0.005)
        return sampler.mean(start, time.perf_counter())


class Library:
    """libnvidia-ml of a GPU at 1400 MHz; without ``instant`` a driver that does not know the power of the moment."""

    def __init__(self, instant=True):
        self.instant = instant

    def nvmlInit_v2(self):
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid, handle):
        return 0 if uuid == b"GPU-1" else 6

    def nvmlDeviceGetClockInfo(self, handle, which, value):
        return self._set(value, {1: 1400}[which])

    def nvmlDeviceGetPowerUsage(self, handle, value):
        return self._set(value, 650_000)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle, value):
        return self._set(value, 700_000)

    def nvmlDeviceGetFieldValues(self, handle, count, field):
        found = field._obj
        found.status, found.value = (0, 0xDEAD_0000_0000 | 698_500) if self.instant and found.field == 186 else (3, 0)
        return 0

    @staticmethod
    def _set(value, number):
        value._obj.value = number
        return 0


@pytest.mark.parametrize("instant, watts", [(True, 698.5), (False, 650)])
def test_nvml(monkeypatch, instant, watts):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library(instant))
    sampler = power.Sampler("GPU-1")
    assert (sampler.source, sampler.limit) == ("NVML", 700)
    assert sampled(sampler) == (1400, watts)


SMI = """#!/bin/sh
case "$*" in
*power.limit*) echo 700.00 ;;
*"-i GPU-1 "*"clocks.sm,{known} --loop-ms=20"*) while echo "1410, 699.25"; do sleep 0.02; done ;;
*) echo "Field is not a valid field to query." ;;
esac
"""


@pytest.mark.parametrize("known", ["power.draw.instant", "power.draw"])
def test_nvidia_smi(monkeypatch, tmp_path, known):
    def no_library(name):
        raise OSError(name)
    monkeypatch.setattr(ctypes, "CDLL", no_library)
    (tmp_path / "nvidia-smi").write_text(SMI.format(known=known))
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    sampler = power.Sampler("GPU-1")
    assert (sampler.source, sampler.limit) == ("nvidia-smi", 700)
    assert sampled(sampler) == (1410, 699.25)


def test_without_either_there_are_no_samples(monkeypatch, tmp_path):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())     # which does not know the device
    monkeypatch.setenv("PATH", str(tmp_path))
    with power.Sampler("GPU-2") as sampler:
        assert sampler.source == "" and math.isnan(sampler.limit)
        assert all(math.isnan(x) for x in sampler.mean(0, math.inf))


# --- plots -----------------------------------------------------------------------------------------------------------


def test_without_matplotlib_nothing_is_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(gemm_plot.importlib, "util", SimpleNamespace(find_spec=lambda name: None))
    gemm_rows.write_csv(tmp_path / "gemm.csv", [DONE])
    assert "draws it where matplotlib is installed" in gemm_plot.draw(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["gemm.csv"]


@pytest.mark.slow
def test_plots(tmp_path):
    pytest.importorskip("matplotlib")
    measured = [Figures(row, 1.0, 0.5 + i / 50, 1e-3, 1e-3, 10) for i, row in enumerate(MAIN + FORTY)]
    gemm_rows.write_csv(tmp_path / "gemm.csv", [*measured, MISSING])
    side = gemm_steady.Side(650, 1400, 699)
    gemm_steady.write_csv(tmp_path / "gemm_steady.csv", [gemm_steady.Steady(row, side, side) for row in STEADY])
    assert gemm_plot.draw(tmp_path).endswith("gemm_main, gemm_forty, gemm_steady")
    for name in ("gemm_main", "gemm_forty", "gemm_steady"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert ElementTree.parse(tmp_path / f"{name}.svg").getroot().tag.endswith("svg")


def test_places_leave_gaps_between_kinds():
    xs, groups = gemm_plot.places([MAIN[0], MAIN[1], MAIN[7]])
    assert xs == pytest.approx([0, 1, 2.8]) and groups == {"bf16": 0.5, "f16": pytest.approx(2.8)}
    assert gemm_plot.shape_text(BF16) == "4096³" and gemm_plot.shape_text(MAIN[0]) == "2048×2048×256"
