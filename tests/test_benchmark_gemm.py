"""What of benchmarks/gemm.py needs no GPU: its rows, figures and files, the clock and power of a GPU, the plots."""

from __future__ import annotations

import argparse
import ctypes
import math
import time
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

import gemm_draws
import gemm_few
import gemm_model
import gemm_plot
import gemm_random_plot
import gemm_rows
import gemm_steady
import moye as mo
import power
from gemm_rows import FORTY, KINDS, MAIN, STEADY, Figures, Row
from moye.kernels.gemm.sm90 import config as sm90

# --- rows ------------------------------------------------------------------------------------------------------------


def test_sets():
    assert len(MAIN) == 2 * 7 + 2 * 2 + 2 and len(FORTY) == len(set(FORTY)) == 44
    assert {row.kind for row in MAIN} == set(KINDS) - {"f32"}
    assert [row.label for row in FORTY[-4:]] == [f"forty bf16 4096x4096x4096 {o}" for o in ("KK", "KM", "MK", "MM")]
    assert {row.kind for row in STEADY} == set(KINDS) - {"f32"} and min(row.M for row in STEADY) == 4096


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


# --- drawn products --------------------------------------------------------------------------------------------------


def of(kind, *ratios, orders="KK", N=64):
    return [Figures(Row("seed 1", kind, 64, N, 64, orders), 1.0, ratio) for ratio in ratios]


@pytest.mark.parametrize("kind", KINDS)
def test_draws_of_every_kind(kind):
    rows = gemm_draws.draw(1, 60, kind)
    orders = {"KK"} if kind.startswith("e4m3") else {"KK", "KM", "MK", "MM"}
    assert {row.kind for row in rows} == {kind} and {row.orders for row in rows} == orders
    assert rows == gemm_draws.draw(1, 60, kind) != gemm_draws.draw(2, 60, kind)


def test_kinds_by_names_of_dtypes():
    names = ("bf16", "float16", "float32", "tf32", "e4m3", "e4m3 fast", "int8")
    assert [gemm_random_plot.kind_of(name) for name in names] == ["bf16", "f16", "f32", "tf32", "e4m3 promoted",
                                                                   "e4m3 fast", "s8"]
    with pytest.raises(argparse.ArgumentTypeError, match="float8 is none of bf16, f16,"):
        gemm_random_plot.kind_of("float8")


def test_distributions():
    found = gemm_random_plot.distributions([*of("bf16", 2.0, 0.5), *of("bf16", 0.86, N=63, orders="MK")])
    assert found[0].startswith("tensor maps: 2 products, geometric mean 1.000; 1 below 0.97, 1 below 0.95, 1 below 0.9")
    assert found[1].startswith("others: 1 products, geometric mean 0.860; 1 below 0.97, 1 below 0.95, 1 below 0.9, 0 b")
    assert [line.partition(":")[0] for line in found[2:]] == ["A, B along KK", "A, B along MK"]
    assert gemm_random_plot.distributions(of("f32", 1.0))[0].startswith("all: 1 products")
    assert gemm_random_plot.distributions([]) == ["tensor maps: none", "others: none"]


def test_what_cublas_refuses():
    def refused(why):
        return gemm_random_plot.refused(Figures(BF16, why=why))
    assert refused("RuntimeError: Expected trailing dimension of mat1 to be divisible by 16")
    assert not refused("RuntimeError: CUDA error: an illegal memory access") and not refused("error 2, cuBLAS's 1")
    assert not refused("ArgumentError: gemm: no kernel") and not refused("")


def test_the_table_of_drawn_products(tmp_path):
    """One command from CSVs to a picture and the table of a page; the same again changes nothing."""
    pytest.importorskip("matplotlib")
    gemm_rows.write_csv(tmp_path / "gemm_random_bf16_1000.csv", [*of("bf16", 2.0, 0.5), MISSING])
    gemm_rows.write_csv(tmp_path / "gemm_random_bf16_1001.csv", of("bf16", 0.86, N=63))
    gemm_rows.write_csv(tmp_path / "gemm_random_e4m3_promoted_1000.csv", of("e4m3 promoted", 1.1))
    gemm_rows.write_csv(tmp_path / "gemm_random_f32_1000.csv", of("f32", 9.0, N=63))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{gemm_random_plot.BEGIN}\nold\n{gemm_random_plot.END}\nbehind\n")
    arguments = ["--data", str(tmp_path), "--page", str(page), "--images", str(tmp_path)]
    gemm_random_plot.main(arguments)
    text, picture = page.read_text(), (tmp_path / "gemm_random.svg").read_bytes()
    assert text.startswith("before\n") and text.endswith("behind\n") and "old" not in text
    assert [line for line in text.splitlines() if line.startswith("| ")][1:] == [
        "| bf16, tensor maps | 2 | 1.000 | 0.50 | 1 | 1 | 1 |", "| bf16, others | 1 | 0.860 | 0.86 | 1 | 1 | 0 |",
        "| e4m3 promoted, tensor maps | 1 | 1.100 | 1.10 | 0 | 0 | 0 |", "| f32 | 1 | 9.000 | 9.00 | 0 | 0 | 0 |"]
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    gemm_random_plot.main(arguments)
    assert page.read_text() == text and (tmp_path / "gemm_random.svg").read_bytes() == picture


def test_the_page_has_a_place_for_the_table(tmp_path):
    page = Path(__file__).parents[1] / "docs" / "performance.md"
    assert page.read_text().index(gemm_random_plot.BEGIN) < page.read_text().index(gemm_random_plot.END)
    (tmp_path / "page.md").write_text("nothing")
    with pytest.raises(ValueError, match="has no lines"):
        gemm_random_plot.put(tmp_path / "page.md", "text")
    with pytest.raises(SystemExit, match=r"has no gemm_random_KIND_SEED\.csv"):
        gemm_random_plot.main(["--data", str(tmp_path)])


@pytest.mark.slow
def test_measured_rows_are_read():
    """Whatever fields configurations have today: each product with cuBLAS's time, and configurations that may be."""
    products = gemm_model.read([Path(gemm_model.__file__).parent / "data" / "gemm_sm90.csv.gz"])
    assert len(products) > 400 and all(None in times for times in products.values())
    for (problem, _), times in list(products.items())[::40]:
        for config in filter(None, times):
            sm90.require(config, problem.dtype)
            assert 1 < sm90.estimate(config, problem, 132) < 1e5


def test_draws_of_few_rows():
    found = gemm_few.draw(3, 60)
    assert [row.label for row in found] == [row.label for row in gemm_few.draw(3, 60)]
    sizes = [gemm_few.config.streaming(gemm_few.problem_of(row), "A") for row in found]
    assert {size.few for size in sizes} == set(range(1, 9)) and {size.aligned for size in sizes} == {True, False}
    assert all((size.rows, size.few, size.K) == (row.N, row.M, row.K) for size, row in zip(sizes, found, strict=True))
    assert max(size.rows * size.K for size in sizes) <= gemm_few.LARGEST


def test_draws_of_batches_of_few_rows():
    found = gemm_few.draw(3, 60, batched=True)
    sizes = [gemm_few.config.streaming(gemm_few.seen(row), "A") for row in found]
    assert all((size.rows, size.few, size.batches) == (row.N, row.M, row.batches)
               for size, row in zip(sizes, found, strict=True))
    assert min(size.batches for size in sizes) < 8 < 128 < max(size.batches for size in sizes)
    assert min(size.K for size in sizes) < 8 and all(size.rows * size.K * size.batches <= gemm_few.LARGEST
                                                     for size in sizes)


def test_what_is_measured_of_single_precision():
    """The choice, the soonest by the model, and ways of other kinds; no more than asked."""
    measure = pytest.importorskip("gemm_simt_measure", reason="it needs torch", exc_type=ImportError)
    for row in measure.draw(12, 10, "f32"):
        problem = measure.problem_of(row)
        ways = measure.candidates(row, 1.7, 15, 132)
        assert ways[0] == measure.choice.choose(problem, 132) and len(ways) == len(set(ways)) <= 15
        assert measure.choice.timed(problem, 132)[0][1] in ways
