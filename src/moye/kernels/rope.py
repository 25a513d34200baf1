"""Rotary position embedding: pairs of elements of each head turn by angles that grow with the position.

In: x (batch, seq, heads, dim), and tables of cosines and sines (positions, rotated / 2).  Out: x turned, or back.

    rope(out, x, cos, sin)                              # pairs (i, i + rotated / 2), as GPT-NeoX and Llama have them
    rope(x, x, cos, sin, positions=ids, interleaved=True)                   # pairs (2 i, 2 i + 1), in place
    rope(dx, dout, cos, sin, inverse=True)              # the gradient
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.maps import coordinate, launch
from moye.kernels.moves import move
from moye.kernels.options import flag, integer

THREADS = 256
INTEGERS = (mo.int32, mo.int64)


@dataclass(frozen=True, slots=True)
class Plan:
    """``width``: pairs of a thread.  ``sign``: -1 turns back."""

    width: int
    interleaved: bool
    sign: int
    compute: Any


def make_plan(modes: list[views.Mode], infos: tuple[Any, Any], half: int, interleaved: bool, inverse: bool) -> Plan:
    """The rule: a thread turns as many pairs as 16 bytes hold elements, so it moves two vectors; fewer where lines or
    halves of heads begin at no multiple of 16 bytes.  Cosines and sines stay in L1 and L2 for all heads."""
    width = math.gcd(views.width_of(modes, *infos), half)
    compute = mo.float64 if any(info.dtype is mo.float64 for info in infos) else mo.float32
    return Plan(width, interleaved, -1 if inverse else 1, compute)


@mo.kernel
def rope_kernel(out, x, cos, sin, positions, offset, plan: mo.Constexpr):
    """out = x turned; (dim, heads, seq, batch) both, (pairs, positions) the tables, (seq, batch) the positions."""
    w, pairs = plan.width, mo.size(cos, 0)
    each = 2 if plan.interleaved else 1
    _, heads, length, batch = mo.shape(x)
    parts = pairs // w
    gX, gO = (mo.tile(t, (each * w, 1, 1, 1), (None, None, None, None)) for t in (x, out))  # (w, 1, 1, 1, i, h, s, b)
    gC, gS = (mo.tile(t, (w, 1), (None, None)) for t in (cos, sin))                            # (w, 1, i, place)
    i, h, s, b = coordinate(mo.block_idx().x * THREADS + mo.thread_idx().x, (parts, heads, length, batch))
    if b < batch:
        place = s + offset
        if positions is not None:
            place = positions[s, b] + offset
        known = (place >= 0) & (place < mo.size(cos, 1))
        assert known, "a position beyond the tables"
        rC, rS = mo.fragment((w,), cos.dtype), mo.fragment((w,), sin.dtype)                     # (w)
        mo.copyto(rC, gC[:, 0, i, place], pred=known, other=float("nan"))
        mo.copyto(rS, gS[:, 0, i, place], pred=known, other=float("nan"))
        rC, rS = rC.to(plan.compute), rS.to(plan.compute) * plan.sign
        spots = [(i, h, s, b)] if plan.interleaved else [(i, h, s, b), (i + parts, h, s, b)]
        held, turned = (mo.fragment((each * w, len(spots)), t.dtype) for t in (x, out))         # (w, 2) or (2 w, 1)
        for k in mo.static_range(len(spots)):
            mo.copyto(held[:, k], gX[:, 0, 0, 0, *spots[k]])
        for j in mo.static_range(w):
            one, two = ((2 * j, 0), (2 * j + 1, 0)) if plan.interleaved else ((j, 0), (j, 1))
            a, c = held[one].to(plan.compute), held[two].to(plan.compute)
            turned[one] = (a * rC[j] - c * rS[j]).to(out.dtype)
            turned[two] = (c * rC[j] + a * rS[j]).to(out.dtype)
        for k in mo.static_range(len(spots)):
            mo.copyto(gO[:, 0, 0, 0, *spots[k]], turned[:, k])


@mo.replayed
def rope(out: Any, x: Any, cos: Any, sin: Any, *, positions: Any = None, offset: int = 0, interleaved: bool = False,
         inverse: bool = False) -> None:
    """out = x (batch, seq, heads, dim) or (seq, heads, dim), with pairs (a, b) as (a cos - b sin, b cos + a sin).

    ``cos`` and ``sin`` are (positions, rotated / 2): the first ``rotated`` elements of each head turn, the others are
    copied.  Element s of the sequence has the position ``positions[s]`` or ``positions[batch, s]`` (int32 or int64),
    else s, and ``offset`` more.  ``inverse=True`` turns back, which is its backward, too.  ``out`` may be x.
    Computes in float32, or float64 if x or out has it, and rounds once.  A position beyond the tables fails an
    ``assert`` (in the simulator, and on a GPU under MOYE_ASSERT=1), and else gives NaN.  ArgumentError for what does
    not fit together.
    """
    offset = integer("rope", "offset", offset)
    interleaved, inverse = flag("rope", "interleaved", interleaved), flag("rope", "inverse", inverse)
    half, infos = _checked(out, x, cos, sin, positions, offset)
    shape, length = infos["x"].shape, infos["x"].shape[-3]
    if 0 in shape or not half:
        if not half and 0 not in shape and not _same_array(infos):
            _copied(out, x, views.modes_of(shape, infos["out"].strides, infos["x"].strides))
        return
    dim, heads, seq, *batch = (views.Mode(n, (a, b)) for n, a, b in zip(
        reversed(shape), reversed(infos["out"].strides), reversed(infos["x"].strides), strict=True))
    modes = [dim, heads, seq, batch[0] if batch else views.Mode(1, (0, 0))]
    if dim.extent > 2 * half and not _same_array(infos):
        rest = [views.Mode(dim.extent - 2 * half, dim.strides), *modes[1:]]
        behind = [views.strided(a, tuple(m.extent for m in rest), tuple(m.strides[i] for m in rest),
                                2 * half * dim.strides[i]) for i, a in enumerate((out, x))]
        _copied(behind[0], behind[1], rest)
    modes[0] = views.Mode(2 * half, dim.strides)
    plan = make_plan(modes, (infos["out"], infos["x"]), half, interleaved, inverse)
    tables = [views.strided(t, (half, info.shape[0]), tuple(reversed(info.strides)))
              for t, info in ((cos, infos["cos"]), (sin, infos["sin"]))]
    if positions is not None:
        info = infos["positions"]
        steps = (info.strides[-1], info.strides[0] if len(info.shape) == 2 else 0)
        positions = views.strided(positions, (length, modes[3].extent), steps)
    blocks = -(-(half // plan.width) * math.prod(m.extent for m in modes[1:]) // THREADS)
    rope_kernel[blocks, THREADS](views.view(out, modes, 0), views.view(x, modes, 1), *tables, positions, offset, plan)


def _copied(out: Any, x: Any, modes: list[views.Mode]) -> None:
    """out = x over these modes: bits where both have one dtype, else numbers."""
    one: Any = mo.describe(out)
    other: Any = mo.describe(x)
    if one.dtype == other.dtype:
        move(out, x, modes)
    else:
        launch((out,), (x,), modes, _itself)


def _itself(x: Any) -> tuple[Any]:
    return (x,)


def _same_array(infos: dict[str, Any]) -> bool:
    return bool(infos["out"].ptr == infos["x"].ptr and infos["out"].kind != "spec")


def _checked(out: Any, x: Any, cos: Any, sin: Any, positions: Any, offset: int) -> tuple[int, dict[str, Any]]:
    """Half of the rotated elements, and what the arrays are; or ArgumentError."""
    infos = {name: views.described("rope", name, a)
             for name, a in (("out", out), ("x", x), ("cos", cos), ("sin", sin))}
    shape = tuple(infos["x"].shape)
    views.same("rope", "shape", "out", infos["out"], "x", infos["x"])
    views.same("rope", "shape", "sin", infos["sin"], "cos", infos["cos"])
    if len(shape) not in (3, 4):
        raise mo.ArgumentError(f"rope: x has shape {shape}; it is (batch, seq, heads, dim) or (seq, heads, dim)")
    if len(infos["cos"].shape) != 2 or 2 * infos["cos"].shape[1] > shape[-1]:
        raise mo.ArgumentError(f"rope: cos has shape {tuple(infos['cos'].shape)}; it is (positions, pairs), with at "
                               f"most {shape[-1] // 2} pairs")
    if positions is None:
        if not 0 <= offset <= infos["cos"].shape[0] - shape[-3]:
            raise mo.ArgumentError(f"rope: positions go from {offset} to {offset + shape[-3] - 1}, and the tables have "
                                   f"{infos['cos'].shape[0]}")
    else:
        infos["positions"] = views.described("rope", "positions", positions, INTEGERS)
        told = tuple(infos["positions"].shape)
        if told not in (shape[-3:-2], (shape[0], shape[1]) if len(shape) == 4 else ()):
            raise mo.ArgumentError(f"rope: positions have shape {told}, and x has {shape}; "
                                   f"they are (seq,) or (batch, seq)")
    views.outputs("rope", {"out": infos["out"]}, {name: info for name, info in infos.items() if name != "out"},
                  in_place=("x",))
    views.together("rope", **infos)
    return infos["cos"].shape[1], infos
