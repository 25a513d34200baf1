"""Rows of the benchmarks as the model of costs of ``moye.kernels.gemm.sm90`` sees them.

In: a ``Row`` of ``gemm_rows``, or CSVs of them.  Out: a ``Problem`` of the model; a configuration, in few characters.

>>> model.estimate(config, problem_of(row), 132)
"""

import csv
import dataclasses
import gzip
import math

import moye as mo
from gemm_rows import KINDS, RESULT_BYTES, Row
from moye.kernels.gemm.grouped.choice import rounded
from moye.kernels.gemm.sm90 import config as model

FIELDS = [f.name for f in dataclasses.fields(model.WarpgroupConfig)]
DTYPES = {"bf16": mo.bfloat16, "f16": mo.float16, "e4m3 fast": mo.float8_e4m3fn, "e4m3 promoted": mo.float8_e4m3fn,
          "tf32": mo.float32, "s8": mo.int8}


def problem_of(row):
    """The product as the model of costs sees it."""
    size, out = KINDS[row.kind].bytes, RESULT_BYTES[KINDS[row.kind].result]
    lines = (row.K if row.orders[0] == "K" else row.M), (row.K if row.orders[1] == "K" else row.N)
    counts = (row.M if row.orders[0] == "K" else row.K), (row.N if row.orders[1] == "K" else row.K)
    plain = row.N * out % 16 != 0
    turned = size != 2                                  # wgmma takes others than 16 bits along K alone
    copied = [count > 1 and (line * size % 16 != 0 or (order == "M" and turned))
              for order, line, count in zip(row.orders, lines, counts, strict=True)]
    return model.Problem(row.M, row.N, row.K, 1, DTYPES[row.kind], promote=row.kind == "e4m3 promoted",
                         lines=tuple(128 if copy else math.gcd(128, line * size)
                                     for line, copy in zip(lines, copied, strict=True)),
                         rows_A=row.orders[0] == "M" and not copied[0], rows_B=row.orders[1] == "M" and not copied[1],
                         plain=plain, rows="N" if plain and out == 2 else "", out=out,
                         copies=tuple(rows * row.K * size for rows, copy in zip((row.M, row.N), copied, strict=True)
                                      if copy))


def problem_of_groups(experts, rows, N, K):
    """So many bfloat16 products of as many rows together as the choice of their tile sees them."""
    line = math.gcd(128, K * mo.bfloat16.bytes)
    return model.Problem(rounded(rows // experts), N, K, experts, mo.bfloat16, lines=(line, line))


def short(config):
    """A configuration in a few characters."""
    return (f"{config.bM}x{config.bN} {config.schedule[:2]} x{config.split_k}{config.gather[0]} "
            f"{config.share_A}{config.share_B}{'T' if config.swap else ''}{'s' if config.stream else ''}")


def read(paths):
    """{problem: {config: microseconds}}, and cuBLAS's under None."""
    found = {}
    for path in paths:
        with gzip.open(path, "rt", newline="") as file:
            for row in csv.DictReader(file):
                if not row["bM"] and row.get("way", "cuBLAS") != "cuBLAS":      # of another kernel
                    continue
                M, N, K = (int(row[name]) for name in "MNK")
                drawn = Row("", row["kind"], M, N, K, row["orders"])
                found.setdefault((problem_of(drawn), drawn.orders), {})[config_of(row)] = float(row["us"])
    return found


def config_of(row):
    """The configuration of a line, with defaults for fields that came later; None of cuBLAS."""
    if not row["bM"]:
        return None
    values = {name: int(row[name]) if row[name].isdigit() else row[name] for name in FIELDS if name in row}
    return model.WarpgroupConfig(**{name: x == "True" if x in ("True", "False") else x for name, x in values.items()})
