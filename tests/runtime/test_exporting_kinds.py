"""mo.export of every kind of launch: TMA, clusters, grids that meet, dynamic shared memory, wide indices, scalars."""

from __future__ import annotations

import re
import struct
from types import SimpleNamespace

import pytest

import exported_c
import moye as mo
from export_kernels import BOXES, across, boxes, follows, meet
from exported_c import array, i64, passed, stream
from moye.cuda.device.tensor_maps import NUMBERS
from moye.cuda.export import header, source
from moye.runtime import compile, exporting, kernel
from moye.runtime.arguments import classify
from moye.runtime.launch import dim3, slot_value
from ops_kernels_tiles import CASES

EVERY = 16
NOT_NAMED = ("hopper-ring",)                            # it asks how many registers the compiler took


def like(shape, strides=None, dtype=mo.float32, **how):
    return mo.TensorLike(dtype, shape, strides, **how)


def built(tmp_path, kernel, *specialisations, **how):
    return exported_c.build(kernel.export(tmp_path, *specialisations, **({"arch": "sm_90a"} | how)), tmp_path)


def grid(x=1, y=1, z=1):
    return [i64(x), i64(y), i64(z)]


# --- TMA -------------------------------------------------------------------------------------------------------------


def boxes_call(M, N, ld, src=0x10000, dst=0x900000):
    return ("boxes", [*grid(2, 2), array(src, (M, N), (ld, 1)), array(dst, (M, N), (ld, 1)), stream()])


def test_tensor_maps_are_encoded_for_each_launch(tmp_path):
    x = like((128, 64), (64, 1))
    it = built(tmp_path, boxes, mo.Specialisation(mo.make_tma_copy(mo.TmaLoad(), x, BOXES),
                                                  mo.make_tma_copy(mo.TmaStore(), x, BOXES), block=32))
    told, notes = it.run([boxes_call(100, 36, 40), boxes_call(100, 36, 38), boxes_call(100, 37, 40),
                          boxes_call(100, 36, 40, src=0x10008), boxes_call(0, 36, 40)], SIZES="128,128")
    kind, swizzle, promotion = (NUMBERS[name] for name in ("DATA_TYPE_FLOAT32", "SWIZZLE_128B",
                                                           "L2_PROMOTION_L2_128B"))
    encoded = f"tiled {kind} 2 {swizzle} {promotion} 0 36:0:32 100:160:64"
    assert notes[1:3] == [encoded, encoded] and [code for code, _ in told] == [0, *[c for c, _ in told[1:]]]
    launch = notes[3].split()
    assert launch[:4] == ["launch", "boxes", "2,2,1", "32,1,1"]
    assert [part[:16] for part in launch[-2:]] == [struct.pack("Q", at).hex() for at in (0x10000, 0x900000)]
    assert len(notes) == 4
    for (_, message), name in zip(told[1:], ("load", "store", "load", "load"), strict=True):
        assert message.startswith(f"boxes: TMA cannot copy {name}: it takes arrays at multiples of 16 bytes")


def test_a_map_of_merged_modes_is_for_one_array(tmp_path):
    from tma_merged import BLOCK, read_kernel

    x = like((4, 2, 2, 2, 2, 8), (128, 64, 32, 16, 8, 1))
    copy = mo.make_tma_copy(mo.TmaLoad(), x, mo.make_layout((1, 1, 1, 1, 2, 8), (16, 16, 16, 16, 8, 1)))
    it = built(tmp_path, read_kernel, mo.Specialisation(copy, like((16, 32)), (4, 2, 2, 2, 1, 1), block=BLOCK))

    def call(shape, strides):
        return ("read_kernel", [*grid(32), array(0x10000, shape, strides), array(0x90000, (16, 32), (1, 16)), stream()])

    told, _ = it.run([call(x.shape, x.strides), call((3, *x.shape[1:]), x.strides),
                      call(x.shape, (256, *x.strides[1:]))])
    assert told[0][0] == 0 and "shape[0] is not 4, the extent that its boxes are made for" in told[1][1]
    assert "strides[0] is not 128" in told[2][1]


def test_a_map_of_images(tmp_path):
    """The fake notes extent:stride:number for each dimension; the numbers are box, corners and a step."""
    from tma_im2col import BLOCK
    from tma_im2col import read_kernel as of_images

    x = like((2, 9, 10, 8), (720, 80, 8, 1))
    op = mo.TmaLoadIm2col(filter=(3, 3), padding=(1, 2), stride=2)
    copy = mo.make_tma_copy(op, x, mo.make_layout((16, 8), (8, 1)))
    it = built(tmp_path, of_images, mo.Specialisation(copy, like((128, 1, 1, 9)), block=BLOCK))
    (told,), notes = it.run([("read_kernel", [*grid(1, 1, 9), array(0x10000, x.shape, x.strides),
                                              array(0x90000, (128, 1, 1, 9), (1, 128, 128, 128)), stream()])])
    window = op.window
    assert told[0] == 0, told
    assert (window.lower, window.upper, window.strides) == ((-2, -1), (0, -1), (2, 2))
    kind = NUMBERS["DATA_TYPE_FLOAT32"]
    assert notes[1] == (f"im2col {kind} 4 0 {NUMBERS['L2_PROMOTION_L2_128B']} 0 8:0:8 10:32:16 9:320:{(1 << 32) - 2} "
                        "2:2880:0")


def test_the_numbers_of_the_driver():
    from cuda.bindings import driver
    for name, number in NUMBERS.items():
        enum = {"DATA": driver.CUtensorMapDataType, "SWIZ": driver.CUtensorMapSwizzle,
                "L2_P": driver.CUtensorMapL2promotion, "FLOA": driver.CUtensorMapFloatOOBfill}[name[:4]]
        assert int(getattr(enum, f"CU_TENSOR_MAP_{name}")) == number
    text = (exported_c.Path(mo.__file__).parent / "cuda/export/launcher.c").read_text()
    known = {**driver.CUdevice_attribute.__members__, **driver.CUfunction_attribute.__members__,
             **driver.CUlaunchAttributeID.__members__}
    found = re.findall(r"(?:, |id = )(\d+)(?:, [^;\n]*)?\)?;\s+/\* ([A-Z_]+) \*/", text)
    assert len(found) >= 9
    for number, name in found:
        assert any(int(value) == int(number) for key, value in known.items() if key.endswith(f"ATTRIBUTE_{name}")), name


# --- options of a launch ---------------------------------------------------------------------------------------------


def test_clusters_and_dependent_launches(tmp_path):
    it = built(tmp_path, across, mo.Specialisation(like((64,)), block=32, cluster=4, dependent=True))
    y = array(0x10000, (64,), (1,))
    told, notes = it.run([("across", [*grid(8), y, stream()]), ("across", [*grid(6), y, stream()])])
    assert told[0][0] == 0 and told[1][1] == "across: the cluster's 4 blocks along x do not divide the grid"
    launch, = (note for note in notes if note.startswith("launch"))
    assert launch.endswith("attribute=4:4,1,1 attribute=6:1,0,0")


def test_dependent_launches_are_like_others_before_sm_90(tmp_path):
    it = built(tmp_path, follows, mo.Specialisation(like((64,)), block=32, dependent=True), arch=["sm_80", "sm_90a"])
    for arch, attributes in (("90", ["attribute=6:1,0,0"]), ("80", [])):
        (told,), notes = it.run([("follows", [*grid(2), array(0x10000, (64,), (1,)), stream()])], ARCH=arch)
        launch, = (note for note in notes if note.startswith("launch"))
        assert told[0] == 0 and [part for part in launch.split() if part.startswith("attribute")] == attributes


def test_clusters_of_more_than_8_blocks_opt_in(tmp_path):
    it = built(tmp_path, across, mo.Specialisation(like((64,)), block=32, cluster=16))
    (told,), notes = it.run([("across", [*grid(16), array(0x10000, (64,), (1,)), stream()])])
    assert told[0] == 0 and "set across 14 1" in notes


def test_grids_that_meet_are_cooperative_and_resident(tmp_path):
    it = built(tmp_path, meet, mo.Specialisation(like((64,)), like((64,)), block=32))
    z, y = array(0x10000, (64,), (1,)), array(0x20000, (64,), (1,))
    told, notes = it.run([("meet", [*grid(8), z, y, stream()]), ("meet", [*grid(9), z, y, stream()])])
    assert told[0][0] == 0 and notes[-1].endswith("attribute=2:1,0,0")
    assert told[1][1].startswith("the blocks of the grid meet (grid_sync), and the device does not hold all of them")


@mo.kernel
def staged(y, count: mo.Constexpr):
    smem = mo.shared_array(mo.float32, count)
    for i in mo.range(mo.thread_idx().x, count, 32):
        smem[i] = y[i]
    mo.sync_threads()
    y[mo.thread_idx().x] = smem[count - 1 - mo.thread_idx().x]


def test_dynamic_shared_memory_is_opted_in_to(tmp_path):
    it = built(tmp_path, staged, mo.Specialisation(like((16384,)), 16384, block=32, smem=256))
    (told,), notes = it.run([("staged", [*grid(), array(0x10000, (16384,), (1,)), stream()])])
    assert told[0] == 0 and "set staged 8 65792" in notes
    assert notes[-1].split()[2:5] == ["1,1,1", "32,1,1", "65792"]
    with pytest.raises(mo.LaunchError, match="needs 232704 bytes of shared memory per block"):
        staged.export(tmp_path, mo.Specialisation(like((65536,)), 58112, block=32, smem=256), arch="sm_90a")


def test_indices_of_64_bits(tmp_path):
    @mo.kernel
    def far(y):
        i = mo.block_idx().x * 256 + mo.thread_idx().x
        if i < mo.size(y):
            y[i] = 1.0

    narrow, wide = mo.Specialisation(like((8,)), block=256), mo.Specialisation(like((8,)), block=256, index_bits=64)
    it = built(tmp_path, far, narrow, wide)
    calls = [("far", [*grid(blocks), array(0x10000, (n,), (1,)), stream()])
             for n, blocks in ((1000, 4), (1 << 32, 1 << 24), (1000, 1 << 30))]
    told, notes = it.run(calls, SIZES="8,4")
    assert [code for code, _ in told] == [0, 0, 0] and notes.count("load elf") == 2


# --- numbers and names -----------------------------------------------------------------------------------------------


def test_scalars_of_every_kind(tmp_path):
    @mo.kernel
    def numbers(y, a: mo.float16, b: mo.bfloat16, flag: mo.bool, n: mo.int64, grid: mo.uint8, double: mo.float64):
        if flag:
            y[0] = mo.float32(a) + mo.float32(b) + mo.float32(n) + mo.float32(grid) + mo.float32(double)

    it = built(tmp_path, numbers, mo.Specialisation(like((4,)), 1.0, 1.0, True, 5, 7, 2.5, block=32))
    (told,), notes = it.run([("numbers", [
        *grid(), array(0x10000, (4,), (1,)), ("c_uint16", 0x3c00), ("c_uint16", 0x3f80), ("c_int", 2),
        ("c_int64", -5), ("c_uint8", 7), ("c_double", 2.5), stream()])], SIZES="8,2,2,1,8,1,8")
    assert told == (0, "no error")
    assert notes[-1].split()[6:] == [struct.pack("Q", 0x10000).hex(), "003c", "803f", "01",
                                     struct.pack("q", -5).hex(), "07", struct.pack("d", 2.5).hex()]
    text = (tmp_path / "numbers.h").read_text()
    assert "uint16_t a, uint16_t b" in text and "uint8_t grid_," in text and "double arg_double," in text


def test_names_that_c_or_the_file_has_are_changed(tmp_path):
    @mo.kernel
    def named(int, moye_x, ld_y, stream, x, x_shape):
        int[0] = moye_x + ld_y + stream + x[0] + x_shape

    built(tmp_path, named, mo.Specialisation(like((4,)), 1.0, 1.0, 1.0, like((4,)), 1.0, block=32))
    text = " ".join((tmp_path / "named.h").read_text().split())
    assert "float *arg_int, const int64_t *arg_int_shape, const int64_t *arg_int_strides, float arg_moye_x" in text
    assert "float arg_ld_y, float stream_, const float *x, const int64_t *x_shape" in text and "float x_shape_," in text


def test_static_extents_containers_and_rank_0(tmp_path):
    @mo.kernel
    def parts(pair, whole: mo.Static):
        pair[0][0] = whole[0, 0] + pair[1][0]

    it = built(tmp_path, parts, mo.Specialisation((like((4,)), like((4,))), like((8, 16)), block=32))

    def call(shape):
        return ("parts", [*grid(), array(0x10000, (4,), (1,)), array(0x20000, (4,), (1,)),
                          array(0x30000, shape, (1, 8)), stream()])

    told, _ = it.run([call((8, 16)), call((8, 17))])
    assert told[0][0] == 0
    assert told[1][1] == "parts: whole.shape[1] is not 16, the static extent that it is compiled for"
    assert "float *pair_0, const int64_t *pair_0_shape" in (tmp_path / "parts.h").read_text()


def test_overlapping_arrays_are_asked_for(tmp_path):
    @mo.kernel
    def shift(y, x):
        y[mo.thread_idx().x] = x[mo.thread_idx().x]

    it = built(tmp_path, shift, mo.Specialisation(like((32,)), like((32,)), block=32, overlapping=True))
    (told,), _ = it.run([("shift", [*grid(), array(0x10000, (32,), (1,)), array(0x10010, (32,), (1,)), stream()])])
    assert told[0] == 0 and "__restrict__" not in (tmp_path / "shift.c").read_text()


def test_promises_about_numbers(tmp_path):
    @mo.kernel
    def whole(y, n):
        mo.assume(n % 4 == 0, "n counts fours")
        y[0] = mo.float32(n)

    it = built(tmp_path, whole, mo.Specialisation(like((4,)), 8, block=32))
    y = array(0x10000, (4,), (1,))
    told, _ = it.run([("whole", [*grid(), y, ("c_int32", n), stream()]) for n in (8, 6, -4)])
    assert [code == 0 for code, _ in told] == [True, False, True] and "n counts fours" in told[1][1]


# --- every kind of kernel --------------------------------------------------------------------------------------------


class Exporting:
    """In place of a kernel: its launches become functions of C (of code that is not compiled), and calls of them.

    ``expected`` has the bytes of each parameter of the launch from Python; a tensor map begins with its pointer here.
    """

    def __init__(self, kernel, made):
        self.kernel, self.made = kernel, made

    def __getitem__(self, config):
        return lambda *arguments: self.launch(*arguments, grid=config[0], block=config[1])

    def launch(self, *arguments, grid, block, cluster=(1, 1, 1)):
        name = f"kernel_{len(self.made)}"
        asked = mo.Specialisation(*arguments, block=block, cluster=cluster)
        fresh = mo.kernel(self.kernel.function)         # what it compiles to here is no program: nobody else sees it
        function = exporting._function(mo.Export(fresh, [asked], name, arch="sm_90a"))
        leaves = classify(self.kernel.signature, arguments, {}).leaves
        given = [passed(argument, leaf) for argument, leaf in zip(function.arguments, leaves, strict=True)]
        expected = [leaves[slot.param].ptr.to_bytes(8, "little") if slot.kind == "map" else
                    struct.pack(f"@{slot.format}", slot_value(slot, SimpleNamespace(leaves=leaves)))
                    for slot in function.cases[0].printed.slots]
        self.made.append((function, (name, [*map(i64, dim3(grid, "grid")), *given, stream()]), expected))


def test_kernels_of_every_kind_are_launched_as_python_launches_them(tmp_path, monkeypatch):
    """A sample of the kernels that together have every operation: no precondition fails, each parameter is the same."""
    made = []
    empty = SimpleNamespace(cubin=b"\x7fELF" + bytes(60), log="", registers=168)
    with monkeypatch.context() as patch:
        patch.setattr(compile, "_compiled", lambda *_: empty)
        patch.setattr(kernel.Kernel, "__getitem__", lambda self, config: Exporting(self, made)[config])
        patch.setattr(kernel.Kernel, "launch", lambda self, *a, **k: Exporting(self, made).launch(*a, **k))
        sample = [case for number, case in enumerate(CASES.values()) if number % EVERY == 0 and
                  case.name not in NOT_NAMED]
        kept = []
        for case in sample:
            kept.append(case.arguments(case.sizes[-1]))
            case.launch(kept[-1], case.sizes[-1])
    functions = [function for function, _, _ in made]
    assert len(functions) == len(sample) > 25
    (tmp_path / "all.h").write_text(header(functions, "all"))
    (tmp_path / "all.c").write_text(source(functions, "all"))
    it = exported_c.build(mo.Exported(tmp_path / "all.h", tmp_path / "all.c", ()), tmp_path)
    sizes = ";".join(",".join("128" if slot.kind == "map" else str(len(part)) for slot, part in zip(
        function.cases[0].printed.slots, expected, strict=True)) or "0" for function, _, expected in made)
    told, notes = it.run([call for _, call, _ in made], SIZES=sizes)
    assert [(call[0], *each) for (_, call, _), each in zip(made, told, strict=True) if each[0]] == []
    launches = [note for note in notes if note.startswith("launch")]
    for (function, _, expected), launch in zip(made, launches, strict=True):
        found = [part for part in launch.split()[6:] if "=" not in part]
        assert [part[: 2 * len(exact)] for part, exact in zip(found, expected, strict=True)] == [
            exact.hex() for exact in expected], function.kernel
