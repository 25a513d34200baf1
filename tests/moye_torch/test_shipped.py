"""Every operator that comes with moye has a case of its own, and a row in docs/pytorch.md."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import moye.torch  # noqa: E402
from operators import check_reference  # noqa: E402
from shipped_operators import CASES, Place  # noqa: E402

SHIPPED = sorted(set(moye.torch.__all__) - {"op"})


@pytest.mark.parametrize("name", SHIPPED)
def test_each_gives_what_torch_gives(name):
    op, arguments, reference = CASES[name](Place("cpu", torch.float32))
    check_reference(op, arguments, reference)


class Own(torch.Tensor):
    """A class of the user's, as model libraries have them."""


@pytest.mark.parametrize("name", ["cross_entropy", "linear_cross_entropy", "reduce"])     # which make arrays beside
def test_tensors_of_a_class_of_the_users(name):
    op, arguments, _ = CASES[name](Place("cpu", torch.float32))
    plain = [x.detach() if isinstance(x, torch.Tensor) else x for x in arguments]
    own = [x.as_subclass(Own) if isinstance(x, torch.Tensor) else x for x in plain]
    found, wanted = (x if isinstance(x, tuple) else (x,) for x in (op(*own), op(*plain)))
    assert all(type(x) is Own and torch.equal(x.as_subclass(torch.Tensor), y)
               for x, y in zip(found, wanted, strict=True))


def test_each_has_a_row():
    page = (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text()
    assert [name for name in SHIPPED if f"| `moye.torch.{name}(" not in page] == []


@pytest.mark.parametrize("name", SHIPPED)
def test_rows_show_the_parameters_that_there_are(name):
    """In their order, with their defaults, and what is given by name alone behind the star."""
    page = (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text()
    (shown,) = re.findall(rf"^\| `moye\.torch\.{name}\((.*?)\)` \|", page, re.MULTILINE)
    given = inspect.signature(getattr(moye.torch, name)).parameters.values()
    parts = [f"{p.name}={p.default!r}" if p.default is not p.empty else p.name for p in given]
    star = next((i for i, p in enumerate(given) if p.kind is p.KEYWORD_ONLY), None)
    if star is not None:
        parts.insert(star, "*")
    whole = ", ".join(parts).replace("'", '"').replace("1e-06", "1e-6").replace("1e-05", "1e-5")
    assert whole.startswith(shown[:-3]) if shown.endswith("...") else whole == shown
