"""``gemm`` inside of ``torch.compile``: one operator, which writes C; what torch's own checks of operators say."""

from __future__ import annotations

import shutil

import pytest

torch = pytest.importorskip("torch")

from moye.errors import ArgumentError  # noqa: E402
from moye.kernels import TensorConfig, gemm  # noqa: E402
from moye.kernels.gemm import dispatch, operator  # noqa: E402

CONFIG = TensorConfig(64, 64, 32, 3, 2, 2, 1)


def operands(M=16, N=24, K=32, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(M + N + K)
    return [torch.randint(-4, 5, shape, generator=generator).to(dtype) for shape in ((M, K), (N, K), (M, N))]


def exact(A, B):
    return A.double() @ B.double().T


def twice(x):
    return x * 2.0


def plain(A, B, C):
    D = gemm(A * 2, B, C)
    return D + 1


def fused(A, B, C):
    gemm(A, B, C, alpha=0.5, beta=1.0, bias=B[:, 0], activation="relu")
    return C.sum()


def of_a_function(A, B, C):
    return gemm(A, B, C, activation=twice)


def of_a_closure(A, B, C):
    factor = 3.0

    def scaled(x):
        return x * factor
    return gemm(A, B, C, activation=scaled)


def configured(A, B, C):
    return gemm(A, B, C, config=CONFIG)


def twice_in_a_row(A, B, C):
    gemm(A, B, C)
    before = C.clone()
    gemm(A, B, C, beta=1)
    return C - before


def over_itself(A, B, C):
    return gemm(A, B, C, residual=C)


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


FUNCTIONS = [plain, twice_in_a_row, fused, of_a_function, of_a_closure, configured, over_itself]
WAYS = [*((function, "aot_eager") for function in FUNCTIONS), (plain, "eager"), (of_a_closure, "eager")]
if shutil.which("g++"):                                 # its compiler takes long
    WAYS += [(function, "inductor") for function in FUNCTIONS[:2]]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "backend"), WAYS, ids=lambda x: getattr(x, "__name__", x))
def test_whole_graphs(function, backend):
    A, B, C = operands()
    expected_C = C.clone()
    expected = function(A, B, expected_C)
    found = torch.compile(function, fullgraph=True, backend=backend)(A, B, C)
    assert torch.equal(found, expected)
    assert torch.equal(C, expected_C)


def test_one_node_for_all_shapes():
    """The graph has the operator alone, and one with dynamic extents is enough for every size."""
    graphs = []

    def seen(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
        return graph
    compiled = torch.compile(lambda A, B, C: gemm(A, B, C), fullgraph=True, backend=seen, dynamic=True)
    for M in (16, 24, 32):
        A, B, C = operands(M)
        compiled(A, B, C)
        assert torch.equal(C.double(), exact(A, B).to(C.dtype).double())
    assert graphs == [["moye.gemm"]]


def test_a_view_of_the_output():
    """What is written through a part of an array is seen in the whole."""
    A, B, C = operands()
    whole = torch.zeros(16, 48, dtype=C.dtype)

    def into(A, B, whole):
        gemm(A, B, whole[:, 24:])
        return whole * 1
    found = torch.compile(into, fullgraph=True, backend="aot_eager")(A, B, whole)
    assert torch.equal(found, whole)
    assert torch.equal(whole[:, 24:].double(), exact(A, B).to(C.dtype).double())
    assert not whole[:, :24].any()


@pytest.mark.parametrize("options", [{}, {"alpha": 0.5, "beta": 1}, {"activation": "relu", "residual": 1, "bias": 1}],
                         ids=["plain", "scaled", "fused"])
def test_torchs_checks_of_an_operator(options):
    A, B, C = operands()
    made = dict(options)
    if "residual" in made:
        made |= {"residual": torch.ones_like(C), "bias": torch.ones(24, dtype=C.dtype)}
    assert operator.registered()
    torch.library.opcheck(torch.ops.moye.gemm, (A, B, C), made)


def test_errors_inside_of_a_graph():
    A, B, C = operands()
    with pytest.raises((ArgumentError, torch._dynamo.exc.TorchDynamoException), match=r"\(M, K\)|not .*16"):
        torch.compile(lambda A, B, C: gemm(A, B, C), fullgraph=True, backend="eager")(A, B[:, :31], C)
    with pytest.raises(Exception, match="colour"):
        torch.compile(lambda A, B, C: gemm(A, B, C, colour=1), fullgraph=True, backend="eager")(A, B, C)


def test_a_product_is_no_part_of_what_is_differentiated():
    """As outside of graphs: C is an output that was there before, and nothing leads back from it."""
    A, B, C = operands(dtype=torch.float32)
    A.requires_grad_()

    def loss(A, B, C):
        return (gemm(A * 1, B, C) * 2).sum()
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.compile(loss, fullgraph=True, backend="aot_eager")(A, B, C).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        loss(A, B, C).backward()


def test_the_operator_has_all_options():
    """Each option of ``gemm`` is in the schema."""
    wanted = {"alpha", "beta", "tf32", *dispatch._EPILOGUE, *dispatch._HOPPER}
    assert wanted == set(operator.OPTIONS)


def test_names_stand_for_equal_values():
    assert operator.name_of(CONFIG) == operator.name_of(TensorConfig(64, 64, 32, 3, 2, 2, 1))
    assert operator.name_of(twice) == operator.name_of(twice) != operator.name_of(lambda x: x)
