"""TMA on the GPU: the table of ``tma_kernels.py`` against NumPy, bit by bit.

Loads are read through the layout of the tile, stores are written through it, so an array that only went there and back
in the wrong order is noticed.  What lies outside of an array stays as it was.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import moye as mo
from tma_kernels import (
    BLOCK,
    CASES,
    LOADS,
    ROUNDED,
    ROUNDING,
    ROUNDINGS,
    VIEWS,
    copy_kernel,
    multicast_kernel,
    read_kernel,
    single_values,
    stages_kernel,
    view,
    write_kernel,
)

torch = pytest.importorskip("torch")

HALF_K = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (128, 64))


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("TMA needs sm_90")


def random(case, seed):
    """Small integers: every dtype has them."""
    rng = np.random.default_rng(seed)
    return case.array(lambda shape: rng.integers(-99, 99, shape).astype(case.dtype.numpy))


def to_device(array):
    """A CUDA tensor of the same shape, strides and memory around it."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    start = (array.ctypes.data - whole.ctypes.data) // array.itemsize
    memory = torch.from_numpy(whole.ravel("K").copy()).cuda()
    return torch.as_strided(memory, array.shape, [s // array.itemsize for s in array.strides], start)


def memory_of(tensor):
    """All of the memory that a tensor is a view of."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    return torch.as_strided(tensor, (size,), (1,), 0).cpu().numpy()


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", CASES)
def test_copies(name):
    """From array to array: equal inside, and the padding of the rows is what it was."""
    case = CASES[name]
    source, target = random(case, 1), random(case, 2)
    x, y = to_device(source), to_device(target)
    copy_kernel[case.grid, BLOCK](case.copy(mo.TmaLoad(), x), case.copy(mo.TmaStore(), y))
    torch.cuda.synchronize()
    target[...] = source
    assert same_bits(y.cpu().numpy(), source)
    assert same_bits(memory_of(y), memory_of(to_device(target)))


@pytest.mark.parametrize("name", LOADS)
def test_loads_as_the_layout_says(name):
    case = LOADS[name]
    source = random(case, 3)
    expected = case.tiles(source)
    out = torch.full(expected.shape[::-1], 7, dtype=to_device(source).dtype, device="cuda").T
    read_kernel[case.grid, BLOCK](case.copy(mo.TmaLoad(), to_device(source)), out)
    torch.cuda.synchronize()
    assert same_bits(out.T.cpu().numpy(), np.ascontiguousarray(expected.T))


@pytest.mark.parametrize("name", VIEWS)
def test_batches(name):
    """Tiles of one batch each, of views with any strides that TMA takes."""
    case, whole, source = view(name)
    expected, start = case.tiles(source), (source.ctypes.data - whole.ctypes.data) // 2
    x = torch.from_numpy(whole).cuda().as_strided(source.shape, [step // 2 for step in source.strides], start)
    out = torch.full(expected.shape[::-1], 7, dtype=x.dtype, device="cuda").T
    read_kernel[case.grid, BLOCK](case.copy(mo.TmaLoad(), x), out)
    torch.cuda.synchronize()
    assert same_bits(out.T.cpu().numpy(), np.ascontiguousarray(expected.T))


@pytest.mark.parametrize("name", CASES)
def test_stores_as_the_layout_says(name):
    case = CASES[name]
    source, target = random(case, 4), random(case, 5)
    values, y = case.tiles(source), to_device(target)
    write_kernel[case.grid, BLOCK](case.copy(mo.TmaStore(), y), to_device(values))
    torch.cuda.synchronize()
    target[...] = source
    assert same_bits(memory_of(y), memory_of(to_device(target)))


def read(op, source):
    """The tiles of an array on the GPU, and in the simulator."""
    found = np.full(ROUNDED.tiles(source).shape, 7, np.float32, order="F")
    out = torch.full(found.shape[::-1], 7, dtype=torch.float32, device="cuda").T
    read_kernel[ROUNDED.grid, BLOCK](ROUNDED.copy(op, to_device(source)), out)
    torch.cuda.synchronize()
    read_kernel[ROUNDED.grid, BLOCK](ROUNDED.copy(op, source), found)
    return np.asfortranarray(out.cpu().numpy()), found


def test_rounding_to_tfloat32():
    """One of the known ways, the simulator's, in every bit: a third of the elements tells ties apart."""
    source = ROUNDED.array(single_values)
    found, simulated = read(ROUNDING, source)
    tiles = ROUNDED.tiles(source)
    matching = [name for name, rule in ROUNDINGS.items() if same_bits(rule(tiles), found)]
    expected = [name for name, rule in ROUNDINGS.items() if same_bits(rule(tiles), simulated)]
    different = np.argwhere(found.view(np.uint32) != simulated.view(np.uint32))
    examples = [(hex(x.view(np.uint32)[tuple(at)]) for x in (tiles, found, simulated)) for at in different[:8]]
    assert matching == expected, f"of, here, simulated: {[tuple(example) for example in examples]}"
    assert len(different) == 0


def test_what_is_not_a_number_stays_so():
    source = ROUNDED.array(single_values)
    source[5, 7] = np.nan
    for op in (ROUNDING, mo.TmaLoad()):
        found, simulated = read(op, source)
        assert np.array_equal(np.isnan(found), np.isnan(simulated))


def test_loads_with_and_without_rounding_of_one_array():
    """The maps are different, and kept apart."""
    source = ROUNDED.array(single_values)
    for op in (mo.TmaLoad(), ROUNDING, mo.TmaLoad()):
        found, simulated = read(op, source)
        assert same_bits(found, simulated)


@pytest.mark.parametrize("op", [mo.TmaLoad(prefetch=n) for n in (0, 64, 256)] + [mo.TmaLoad(outside="nan")], ids=str)
def test_loads_with_options(op):
    """What is brought to L2 changes nothing; what lies outside is NaN where that was asked for."""
    source = ROUNDED.array(single_values)
    found, simulated = read(op, source)
    assert np.array_equal(found, simulated, equal_nan=True)
    assert np.isnan(found[~np.isnan(ROUNDED.tiles(source))]).any() == (op.outside == "nan")


@pytest.mark.parametrize("name", ["float16-k-128-2", "float32-mn-64", "float32-k-32-1", "vector", "batch"])
def test_reductions_add(name):
    case = CASES[name]
    source, target = random(case, 6), random(case, 7)
    y = to_device(target)
    write_kernel[case.grid, BLOCK](case.copy(mo.TmaReduceAdd(), y), to_device(case.tiles(source)))
    torch.cuda.synchronize()
    assert same_bits(y.cpu().numpy(), target + source)


@pytest.mark.parametrize(("name", "stages"), [("float16-k-64-2", 2), ("float32-k-128-1", 3), ("float16-k-128-1", 4)])
def test_a_ring_of_stages(name, stages):
    """Loads run ahead; hints of both kinds; K is no multiple of the tile.  Sums of small integers are exact."""
    case = CASES[name]
    source = random(case, 8)
    source %= 4
    rows = case.grid[0]
    tiles = case.tiles(source).reshape(math.prod(case.extents), case.grid[1], rows)
    out = torch.empty((rows, math.prod(case.extents)), dtype=to_device(source).dtype, device="cuda").T
    for _ in range(3):                                  # the plan of the second launch is the short way's
        out.fill_(-1)
        stages_kernel[rows, BLOCK](mo.make_tma_copy(mo.TmaLoad(), to_device(source), case.layout), out, stages)
        torch.cuda.synchronize()
        assert same_bits(out.T.cpu().numpy(), np.ascontiguousarray(tiles.sum(axis=1, dtype=source.dtype).T))


def test_a_ring_reads_other_arrays():
    """One specialisation, one plan for each shape, one map for each array."""
    case, stages = CASES["float16-k-128-1"], 2
    for rows, columns in ((100, 194), (33, 64), (100, 194), (64, 1000)):
        source = np.zeros((rows, -(-columns // 8) * 8), np.float16)[:, :columns]
        source[...] = np.arange(rows)[:, None] % 7
        blocks = -(-rows // 32)
        out = torch.empty((blocks, 2048), dtype=torch.float16, device="cuda").T
        stages_kernel[blocks, BLOCK](mo.make_tma_copy(mo.TmaLoad(), to_device(source), case.layout), out, stages)
        torch.cuda.synchronize()
        padded = np.zeros((blocks * 32, -(-columns // 64) * 64), np.float16)
        padded[:rows, :columns] = source
        sums = padded.reshape(blocks, 32, -1, 64).sum(axis=2, dtype=np.float16)
        assert np.array_equal(out.cpu().numpy(), np.stack([block.ravel("F") for block in sums], axis=1))


def test_multicast():
    """Each of two blocks loads half of a tile for both."""
    rng = np.random.default_rng(9)
    source = rng.integers(-99, 99, (512, 64)).astype(np.float16)
    out = torch.zeros((8, 8192), dtype=torch.float16, device="cuda").T
    half = mo.make_tma_copy(mo.TmaLoad(), torch.from_numpy(source).cuda(), HALF_K, multicast=2)
    multicast_kernel.launch(half, out, grid=8, block=BLOCK, cluster=2)
    torch.cuda.synchronize()
    expected = np.stack([source[128 * (b // 2):128 * (b // 2) + 128].ravel("F") for b in range(8)], axis=1)
    assert np.array_equal(out.cpu().numpy(), expected)


def test_an_array_of_one_row_and_a_vector_of_one_tile():
    """Modes of one element; strides of theirs that no map allows."""
    layout = mo.make_layout((1, 64), (64, 1))
    source = torch.arange(130, dtype=torch.float32, device="cuda")[None, :128]
    target = torch.zeros((1, 130), dtype=torch.float32, device="cuda")[:, :128]
    copy_kernel[(1, 2), BLOCK](mo.make_tma_copy(mo.TmaLoad(), source, layout),
                               mo.make_tma_copy(mo.TmaStore(), target, layout))
    torch.cuda.synchronize()
    assert torch.equal(source, target)


def test_a_prepared_launch():
    case = CASES["float16-k-128-1"]
    arrays = [to_device(random(case, seed)) for seed in (10, 11)]
    targets = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda") for x in arrays]
    again = copy_kernel.prepare(case.copy(mo.TmaLoad(), arrays[0]), case.copy(mo.TmaStore(), targets[0]),
                                grid=case.grid, block=BLOCK)
    again()
    again.update(source=arrays[1], target=targets[1])
    again()
    torch.cuda.synchronize()
    assert all(torch.equal(x, y) for x, y in zip(arrays, targets, strict=True))
