"""What a function's annotations, defaults, name and results may be; others are refused where they are written."""

from __future__ import annotations

import pickle
from typing import Optional

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from moye.errors import ArgumentError  # noqa: E402
from moye.torch import op  # noqa: E402
from operator_kernels import numbers, scaled_add  # noqa: E402

INF = float("inf")


def made(source, name="testing::drawn", **options):
    """The operator of a function that returns a copy of x, with these parameters, or with another ``->`` and body."""
    given, _, rest = source.partition(" -> ")
    result, _, body = rest.partition(": ")
    words = {"Tensor": Tensor, "torch": torch, "Optional": Optional, "INF": INF, "__name__": __name__}
    exec(f"def f({given}) -> {result or 'Tensor'}: {body or 'return x.clone()'}", words)
    return op(name, **options)(words["f"])


@pytest.mark.parametrize(("parameters", "told"), [
    ("x: Tensor, n: int = 1.5", "n is 1.5 by default, and its annotation is int"),
    ("x: Tensor, n: int = True", "n is True by default, and its annotation is int"),
    ("x: Tensor, n: int = 'a'", "n is 'a' by default, and its annotation is int"),
    ("x: Tensor, n: int = 2**63", "n is 9223372036854775808 by default, and torch's integers have 64 bits"),
    ("x: Tensor, n: bool = 1", "n is 1 by default, and its annotation is bool"),
    ("x: Tensor, n: float = False", "n is False by default, and its annotation is float"),
    ("x: Tensor, n: int = None", r"n is None by default, and is annotated without it\nhint: n: int \| None = None"),
    ("x: Tensor, y: Tensor = None", r"y is None by default, and .*\nhint: y: Tensor \| None = None"),
    ("x: Tensor, y: Tensor = 3", "y is 3 by default, and its annotation is Tensor"),
    ("x: Tensor, a: float = INF", r"a is inf by default, and a schema of torch's holds finite numbers alone"),
    ("x: Tensor, a: float | None = -INF", r"a is -inf by default, and a schema"),
    ("x: Tensor, s: str = 'a\"b'", "holds text without quotes, backslashes and line ends alone"),
    ("x: Tensor, s: str = 'a\\n'", "holds text without quotes, backslashes and line ends alone"),
    ("x: Tensor, n: list[int] = (1, 2)", "n has an unsupported default value type <class 'tuple'>"),
    ("x: Tensor, *more: int", "torch's schemas have no positional-only args, varargs, or varkwargs"),
])
def test_defaults_that_a_schema_cannot_hold(parameters, told):
    with pytest.raises(ArgumentError, match=f"(?s)testing::drawn: .*{told}"):
        made(parameters)


@pytest.mark.parametrize("parameters", [
    "x: Tensor, n: int = -2**63", "x: Tensor, a: float = 1", "x: Tensor, a: float = 1e-300",
    "x: Tensor, a: Optional[float] = 0.1", "x: Tensor, n: int | None = 3", "x: Tensor, s: str = 'é, (a) = b'",
    "x: Tensor, d: torch.dtype = torch.bfloat16", "x: Tensor, y: Tensor | None = None", "x: Tensor, n: str | None = ''",
    # Parameters that have the names of what a call is made of.
    "x: Tensor, xs: list[Tensor], all: bool = True, any: int = 1, list: int = 2",
    "x: Tensor, float: float = 1.0, int: int = 1, bool: bool = True, str: str = 'a'",
    "self: Tensor, x: Tensor, call: int = 1, found: int = 2, make: int = 3"])
def test_defaults_and_names_that_it_holds(parameters):
    made_of, x = made(parameters), numbers(5)
    more = [[x]] if "xs" in parameters else []
    given = [x, x] if "self" in parameters else [x, *more]
    for way in (made_of, made_of.overload):
        assert way(*[y.detach() if isinstance(y, Tensor) else [x.detach()] for y in given]).equal(x)


@pytest.mark.parametrize(("name", "told"), [
    ("testing::name", "each library of torch.ops has a name of its own"),
    ("loaded_libraries::f", "torch.ops.loaded_libraries is no library of operators"),
    ("testing::class", "torch does not read the schema"),
    ("testing::é", "takes the operator's name as 'library::name'"),
])
def test_names_that_mean_something_else(name, told):
    with pytest.raises(ArgumentError, match=told):
        made("x: Tensor", name)


def test_names_that_others_have():
    library = torch.library.Library("testing_others", "DEF")
    library.define("f(Tensor x) -> Tensor")
    with pytest.raises(ArgumentError, match="testing_others::f: torch does not define it: Tried to register"):
        made("x: Tensor", "testing_others::f")
    with pytest.raises(ArgumentError, match="testing::scaled_add: operator_kernels has an operator of this name"):
        made("x: Tensor", "testing::scaled_add")
    assert torch.ops.testing.scaled_add(numbers(3), numbers(3)).shape == (3,)
    with pytest.raises(ArgumentError, match=r"the schema \(Tensor x, Tensor y\) -> Tensor is not that of f: too many"):
        made("x: Tensor", schema="(Tensor x, Tensor y) -> Tensor")


@pytest.mark.parametrize(("source", "told"), [
    ("x: Tensor -> Tensor: return 3", "returned int, and its schema is"),
    ("x: Tensor -> Tensor: pass", "returned None, and"),
    ("x: Tensor -> Tensor: return [x.clone()]", "returned list, and"),
    ("x: Tensor -> Tensor: yield x", "returned generator, and"),
    ("x: Tensor -> tuple[Tensor, Tensor]: return (x.clone(),)", "returned 1 results, and"),
    ("x: Tensor -> tuple[Tensor, Tensor]: return x.clone()", "returned Tensor, and"),
    ("x: Tensor -> list[Tensor]: return x.clone()", "returned Tensor, and"),
])
def test_results_that_are_not_the_schemas(source, told):
    """By both ways of a call."""
    operator = made(source)
    for way in (operator, operator.overload):
        with pytest.raises(ArgumentError, match=f"testing::drawn {told}"):
            way(torch.ones(3))


def test_a_list_in_the_place_of_a_tuple():
    """It is a tuple by both ways, with gradients and without."""
    several = made("x: Tensor -> tuple[Tensor, Tensor]: return [x.clone(), 2 * x]")
    several.backward(lambda ctx, first, second: first + 2 * second)
    for x in (numbers(3), numbers(3).detach()):
        for way in (several, several.overload):
            assert type(way(x)) is tuple and way(x)[1].equal(2 * x)


def test_a_written_argument_and_a_result():
    written = made("x: Tensor -> None: return x.clone()", mutates=("x",))
    for way in (written, written.overload):
        with pytest.raises(ArgumentError, match="testing::drawn returned Tensor, and its schema is"):
            way(torch.ones(3))


def test_an_operator_without_tensors():
    """torch chooses a device by tensors, and there are none."""
    ones = made("n: int -> Tensor: return torch.ones(n)")
    assert ones(3).equal(ones.overload(3))
    torch.library.opcheck(ones.overload, (3,))
    compiled = torch.compile(lambda x: ones(x.shape[0]) + x, fullgraph=True, backend="aot_eager")
    assert compiled(torch.ones(4)).tolist() == [2.0] * 4


def test_an_operator_that_a_pickle_would_not_find():
    assert pickle.loads(pickle.dumps(scaled_add)) is scaled_add
    with pytest.raises(pickle.PicklingError, match=r"testing::drawn cannot be pickled: it is not .*test_schemas\.f"):
        pickle.dumps(made("x: Tensor"))
