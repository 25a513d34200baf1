"""``gemm_simt`` compiled for sm_90a, without a GPU: no spills, wide copies, loops of FFMA, few of which wait.

An FFMA waits where two registers that it reads are in one bank of the register file, the even or the odd registers, and
neither is kept from the instruction before (".reuse").
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

import moye as mo
from moye.kernels import gemm_simt
from moye.kernels.gemm.simt.config import FLOAT
from moye.runtime.prepare import compile_only

FFMA = re.compile(r"FFMA R\d+, R(\d+)(\.reuse)?, R(\d+)(\.reuse)?, R(\d+)(\.reuse)?")
TURNED = [config for config in FLOAT if config.turns and config.tM * config.tN > 64 and config.bN != 64]


def compiled(config, orders, M, N, K):
    """The program of a product, C column-major; "K" for operands that are contiguous along K."""
    A, B = (mo.TensorLike(mo.float32, (rows, K), strides=(K, 1) if order == "K" else (1, rows))
            for rows, order in zip((M, N), orders, strict=True))
    with compile_only("sm_90a") as gathered:
        gemm_simt(A, B, mo.TensorLike(mo.float32, (M, N)), config=config, splits=1)
    return gathered.programs[0]


def instructions(sass):
    return re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][^;]*?)\s*;", sass, re.MULTILINE)


def products(sass):
    """Instructions from the first FFMA to the last: the loop."""
    found = instructions(sass)
    places = [i for i, text in enumerate(found) if text.startswith("FFMA")]
    return found[places[0]:places[-1] + 1]


def conflicts(loop):
    """How many FFMA read two registers of one bank anew."""
    kept, count = (None, None, None), 0
    for text in loop:
        if not (match := FFMA.match(text)):
            kept = (None, None, None)
            continue
        read = [int(register) for register in match.groups()[::2]]
        count += max(Counter(r % 2 for r, k in zip(read, kept, strict=True) if r != k).values(), default=0) > 1
        kept = tuple(r if reuse else None for r, reuse in zip(read, match.groups()[1::2], strict=True))
    return count


@pytest.mark.slow
@pytest.mark.parametrize(("config", "extent"), [(config, extent) for i, config in enumerate(TURNED)
                                                for extent in (6144, (6140, 6141)[i % 2])],
                         ids=lambda x: x if isinstance(x, int) else f"{x.bM}x{x.bN}x{x.bK}")
def test_operands_along_k_are_turned_round(config, extent):
    """Whole tiles; in turn ragged ones, and rows that begin anywhere."""
    program = compiled(config, "KK", extent, extent, extent - 2048)
    loop, code = products(program.sass), instructions(program.sass)
    of_products = [text for text in loop if text.startswith("FFMA")]
    assert program.spills == 0
    assert any(text.startswith("LDG.E.128") for text in code) == (extent % 4 == 0)
    assert len(of_products) >= (0.89 if extent % 4 == 0 else 0.8) * len(loop)
    # NVRTC does not give one program for one source each time: 128 x 128 x 8 at 6140 has 235, at times 257 of 1024.
    assert conflicts(loop) <= 0.27 * len(of_products)


@pytest.mark.slow
@pytest.mark.parametrize(("orders", "most"), [("MM", 0.25), ("KK", 0.7)])
def test_asynchronous_copies_leave_operands_as_they_are(orders, most):
    """128 x 128: as many FFMA in the loop, but along K more of them wait."""
    config = next(config for config in FLOAT if (config.bM, config.bN, config.stages) == (128, 128, 3))
    program = compiled(config, orders, 6144, 6144, 4096)
    loop = products(program.sass)
    of_products = [text for text in loop if text.startswith("FFMA")]
    assert program.spills == 0 and "LDGSTS.E.BYPASS.128" in program.sass
    assert len(of_products) >= 0.9 * len(loop)
    assert conflicts(loop) <= most * len(of_products)
