"""Repeated products: what ``gemm`` launches then is what it launches when it decides anew; plans; torch's tensors.

Host arrays are multiplied in the simulator.  With torch there is also a device that is not there, whose launches are
compared byte for byte: kernels, grids, pointers, tensor maps.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
import tools
from fake_device import fake_device
from moye.errors import ArgumentError, DriverError
from moye.kernels import WarpgroupConfig, gemm, gemm_sm90

# --- in the simulator ------------------------------------------------------------------------------------------------


def product(rng, M, N, K, dtype, orders="KKN"):
    """Operands and an output; ``orders`` has what each is contiguous along, M, N or K."""
    made = []
    for shape, order, inner in (((M, K), orders[0], "K"), ((N, K), orders[1], "K"), ((M, N), orders[2], "N")):
        x = rng.integers(-4, 5, shape if order == inner else shape[::-1]).astype(dtype)
        made.append(x if order == inner else x.T)
    made[2][...] = 0
    return made


def close(C, wanted):
    return np.allclose(C.astype(np.float64), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_drawn_products_again_and_again(seed):
    rng = np.random.default_rng(seed)
    kinds = [(int(rng.choice([16, 24])), int(rng.choice([16, 40])), int(rng.choice([8, 33])),
              rng.choice([np.float32, np.float16, ml_dtypes.bfloat16]),
              "".join(two[rng.integers(2)] for two in ("MK", "NK", "MN")))
             for _ in range(3)]
    for _ in range(12):
        M, N, K, dtype, orders = kinds[rng.integers(3)]
        A, B, C = product(rng, M, N, K, dtype, orders)
        C[...] = rng.integers(-4, 5, (M, N)).astype(dtype)
        alpha, beta = float(rng.choice([1, 2])), float(rng.choice([0, 1]))
        wanted = alpha * A.astype(np.float64) @ B.T.astype(np.float64) + beta * C.astype(np.float64)
        assert gemm(A, B, C, alpha=alpha, beta=beta) is C
        assert close(C, wanted), (M, N, K, dtype, orders)


def test_a_plan_of_parts_of_the_sum():
    """K is split: the parts are a scratch array, and a second kernel adds them."""
    rng = np.random.default_rng(1)
    A, B, C = product(rng, 16, 16, 2048, np.float32)
    plan = gemm.plan(A, B, C)
    assert not C.any()
    assert plan() is C
    assert close(C, A.astype(np.float64) @ B.T)
    A, B, C = product(rng, 16, 16, 2048, np.float32)
    assert plan(A, B, C) is C
    assert close(C, A.astype(np.float64) @ B.T)
    with pytest.raises(ArgumentError, match=r"array 1 has shape \(16, 2047\), and the plan is for \(16, 2048\)"):
        plan(A[:, :2047], B, C)


def test_a_plan_with_an_epilogue():
    rng = np.random.default_rng(2)
    A, B, C = product(rng, 16, 24, 32, np.float16)
    bias, other = (rng.integers(-4, 5, 24).astype(np.float16) for _ in range(2))
    plan = gemm.plan(A, B, C, bias=bias, activation="relu")
    for given, used in (({}, bias), ({"bias": other}, other)):
        plan(**given)
        assert close(C, np.maximum(A.astype(np.float64) @ B.T.astype(np.float64) + used.astype(np.float64), 0))


def test_a_number_that_is_an_array_is_read_each_time():
    rng = np.random.default_rng(3)
    A, B, C = product(rng, 16, 16, 16, np.float32)
    for k in range(5):
        gemm(A, B, C, alpha=np.full((), k, np.float32))
        assert close(C, k * A.astype(np.float64) @ B.T)


def test_errors_stay_errors():
    rng = np.random.default_rng(4)
    A, B, C = product(rng, 16, 16, 16, np.float32)
    for _ in range(4):
        gemm(A, B, C)
        with pytest.raises(ArgumentError, match="shares memory with A"):
            gemm(C, B, C)
        with pytest.raises(ArgumentError, match="gemm takes no colour"):
            gemm(A, B, C, colour=1)
        with pytest.raises(ArgumentError, match="alpha and beta are real numbers"):
            gemm(A, B, C, alpha="2")
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'C'"):
            gemm(A, B)


def test_sizes_of_one_configuration_share_a_kernel():
    """Extents and strides are arguments: a new size compiles nothing; where blocks have one tile each it is another."""
    config = WarpgroupConfig(128, 128, 64, 4)
    with mo.compile_only("sm_90a", trace_only=True) as found:
        for M, N, K in ((2048, 2048, 2048), (2056, 2048, 2048), (4096, 1000, 512), (512, 8192, 264),
                        (7, 64, 8192), (1000, 1024, 512), (8, 4096, 256)):
            gemm_sm90(*(mo.TensorLike(mo.bfloat16, (rows, columns), (columns, 1))
                        for rows, columns in ((M, K), (N, K), (M, N))), config=config)
    programs = [id(job.spec) for job in found.jobs]
    assert len(programs) == 7 and len(set(programs)) == 2
    assert len(set(programs[:4])) == len(set(programs[4:])) == 1


# --- launches on a device that is not there --------------------------------------------------------------------------


@pytest.fixture
def launches():
    tools.library("torch")
    with fake_device(gemm) as found:
        yield found


def tensor(rng, torch, rows, columns, dtype, kind):
    """A matrix: natural, transposed, with longer rows, beginning at an odd place, or a parameter."""
    if kind == "turned":
        return torch.zeros(columns, rows, dtype=dtype).T
    if kind == "padded":
        return torch.zeros(rows, columns + 8, dtype=dtype)[:, :columns]
    if kind == "late":
        return torch.zeros(rows * columns + 8, dtype=dtype)[int(rng.choice([1, 4, 8])):][:rows * columns].view(rows,
                                                                                                                columns)
    if kind == "parameter":
        return torch.nn.Parameter(torch.zeros(rows, columns, dtype=dtype))
    return torch.zeros(rows, columns, dtype=dtype)


KINDS = ("natural", "natural", "turned", "padded", "late", "parameter")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_repeated_launches_are_those_of_a_new_decision(seed, launches):
    torch = tools.library("torch")
    rng = np.random.default_rng(seed)
    dtypes = (torch.bfloat16, torch.float16, torch.float32)
    kinds = [(int(rng.choice([64, 128, 200])), int(rng.choice([64, 256, 333])), int(rng.choice([64, 512, 1000])),
              dtypes[rng.integers(3)], [str(rng.choice(KINDS)) for _ in range(2)] + ["natural"]) for _ in range(3)]
    short = 0
    for _ in range(40):
        M, N, K, dtype, how = kinds[rng.integers(3)]
        A, B, C = (tensor(rng, torch, *shape, dtype, kind)
                   for shape, kind in zip(((M, K), (N, K), (M, N)), how, strict=True))
        if rng.random() < 0.2:                          # operands in one piece of memory, apart or not
            memory = torch.zeros(2 * max(M, N) * K, dtype=dtype)
            A, B = memory[:M * K].view(M, K), memory[int(rng.choice([0, M * K])):][:N * K].view(N, K)
        options = {}
        if rng.random() < 0.4:
            options["beta"] = float(rng.choice([0, 1, 0.5]))
        if dtype != torch.float32 and rng.random() < 0.4:
            options["bias"] = torch.zeros(N, dtype=dtype)
        with torch.no_grad():
            version = C._version
            assert gemm(A, B, C, **options) is C
            repeated = launches.taken()
            assert C._version > version
            gemm.function(A, B, C, **options)
        wanted = launches.taken()
        known = (A, B, C, *(x for x in options.values() if isinstance(x, torch.Tensor)))
        assert without_scratch(repeated, *known) == without_scratch(wanted, *known)
        short += len(gemm._ways) > 0
    assert short > 10


def without_scratch(found, *known):
    """Launches without what lies in memory of their own, made anew each time: pointers; maps, where there is a launch
    that copies an operand."""
    stores = [x.untyped_storage() for x in known]
    spans = [(store.data_ptr(), store.data_ptr() + store.nbytes()) for store in stores]
    return [(cubin, config, tuple(value for value in values if (len(value) != 128 or len(found) == 1)
                                  and (len(value) != 8 or inside(value, spans)))) for cubin, config, values in found]


def inside(value, spans):
    address = int.from_bytes(value, "little")
    return any(first <= address < end for first, end in spans)


def operands(torch, M=128, N=256, K=512, dtype=None):
    dtype = dtype or torch.bfloat16
    return [torch.zeros(shape, dtype=dtype) for shape in ((M, K), (N, K), (M, N))]


def test_streams_and_devices_contexts(launches):
    torch = tools.library("torch")
    A, B, C = operands(torch)
    for _ in range(4):
        gemm(A, B, C)
    launches.taken()
    plan = gemm.plan(A, B, C)
    for stream in (3, 9, 3):
        launches.stream = stream
        gemm(A, B, C)
        plan()
        assert [config[4] for _, config, _ in launches.taken()] == [stream, stream]
    launches.fails = 1                                  # the context is missing: it is launched again with it
    gemm(A, B, C)
    assert len(launches.taken()) == 1
    launches.fails = 2
    with pytest.raises(DriverError, match="launching gemm_sm90_kernel"):
        gemm(A, B, C)


def test_the_short_way_is_taken_and_left(launches):
    """What the check sees: shape, strides, dtype, class, autograd; what the pointers say: alignment and overlap."""
    torch = tools.library("torch")
    A, B, C = operands(torch)
    bodies = []
    decided, gemm.function = gemm.function, lambda *args, **kwargs: bodies.append(1) or decided(*args, **kwargs)
    try:
        for _ in range(4):
            gemm(A, B, C)
        assert len(bodies) == 2
        gemm(*operands(torch))
        assert len(bodies) == 2
        late = torch.zeros(128 * 512 + 4, dtype=torch.bfloat16)[4:].view(128, 512)
        for other in ((late, B, C), (A, B, C.half()), (A.T.contiguous().T, B, C), (A, A.repeat(2, 1), C),
                      (A.clone().requires_grad_(), B, C)):
            before = len(bodies)
            gemm(*other)
            assert len(bodies) == before + (other[1] is B)
        tracked = C.clone().requires_grad_()
        with torch.no_grad():
            for _ in range(4):
                gemm(A, B, tracked)
        with pytest.raises(ArgumentError, match="requires grad"):
            gemm(A, B, tracked)
        gemm(A, B, C)                                   # the short way is for such arrays again
        whole = torch.zeros(128 * 512 + 128 * 256, dtype=torch.bfloat16)
        with pytest.raises(ArgumentError, match="shares memory with A"):
            gemm(whole[:128 * 512].view(128, 512), B, whole[-128 * 257:][:128 * 256].view(128, 256))
    finally:
        gemm.function = decided


def test_workspaces_of_plans_belong_to_streams(launches):
    """A plan has its own on each stream; a captured graph has others; a call makes them anew."""
    torch = tools.library("torch")
    A, B, C = operands(torch, 128, 64, 65544, torch.float16)
    A = A[:, :65543]
    B = B[:, :65543]
    plan = gemm.plan(A, B, C)
    plan()
    first = launches.taken()
    plan()
    assert launches.taken() == first
    launches.stream = 8
    plan()
    other = launches.taken()
    assert [config[4] for _, config, _ in other] == [8] * len(first)
    assert [values for *_, values in other] != [values for *_, values in first]
    launches.stream, launches.capturing = 7, True
    plan()
    captured = launches.taken()
    assert [values for *_, values in captured] != [values for *_, values in first]
    launches.capturing = False
    plan()
    assert launches.taken() == first


def test_checks_see_a_repeated_product(launches):
    torch = tools.library("torch")
    A, B, C = operands(torch)
    plan = gemm.plan(A, B, C)
    for _ in range(4):
        gemm(A, B, C)
    launches.taken()
    for call in (lambda: gemm(A, B, C), plan):
        with mo.compile_only("sm_90a", trace_only=True) as compiled:
            call()
        assert len(compiled.jobs) == 1
    assert not launches.taken()
