"""Registers and spills of the forward attention that the rule chooses on sm_90a, as ptxas has them; no GPU is needed.

    python benchmarks/attention_registers.py                # all kinds of calls; exit status 1 if anything spills
    python benchmarks/attention_registers.py bfloat16 --dim 64 --mask left --mask both --all

In: names of dtypes, head dimensions, masks.  Out: a line for each kernel that spills (with ``--all`` for each), and how
many there were; ``--csv`` for two source trees to be compared.  Each mask comes with each rule of the scores, of
batches and of sequences, and each kernel is compiled once.
"""

import argparse
import csv
import itertools
import sys
from dataclasses import dataclass

import moye as mo
from moye.kernels import attention, attention_varlen
from rows_registers import measured

DTYPES = {d.name: d for d in (mo.bfloat16, mo.float16, mo.float8_e4m3fn)}
DIMS = ((64, 64), (96, 96), (128, 128), (192, 128), (192, 192), (256, 256))
MASKS = {"full": (None, None), "causal": (None, 0), "left": (1024, None), "both": (1024, 0)}
RULES = ((), ("softcap",), ("alibi",), ("bias",), ("score",), ("sinks",), ("softcap", "alibi", "sinks"))
KINDS = ("batches", "few", "ragged", "several", "unshared")
"""Many queries; so few that tiles may be smaller; keys that end inside of a tile; sequences; as many heads of keys."""
HEADS, BATCH = 8, 2


@dataclass(frozen=True)
class Call:
    """A call of attention; of 8 bits, with factors of each head."""

    dtype: str
    dims: tuple
    mask: str
    rules: tuple
    kind: str

    def __str__(self):
        return f"{self.dtype:13} {'x'.join(map(str, self.dims)):7} {self.mask:6} {self.kind:8} " \
               f"{' '.join(self.rules) or '-':21}"

    def make(self):
        """The call, on descriptions of arrays."""
        queries, keys = {"few": (1000, 1024), "ragged": (4096, 4000)}.get(self.kind, (4096, 4096))
        heads_K = HEADS if self.kind == "unshared" else HEADS // 2
        dtype, out, (dim, dim_v) = DTYPES[self.dtype], mo.bfloat16, self.dims
        if self.dtype != "float8_e4m3fn":
            out = dtype
        sizes = (queries, HEADS, dim_v, out), (queries, HEADS, dim, dtype), (keys, heads_K, dim, dtype), \
            (keys, heads_K, dim_v, dtype)
        options = {"window": MASKS[self.mask], **self._rules(queries, keys), **self._factors(heads_K)}
        if self.kind == "several":
            arrays = [like(dtype, rows, heads, each) for rows, heads, each, dtype in sizes]
            offsets = like(mo.int32, BATCH + 1)
            attention_varlen(*arrays, offsets, offsets, lse=like(mo.float32, HEADS, queries), **options)
        else:
            arrays = [like(dtype, BATCH, rows, heads, each) for rows, heads, each, dtype in sizes]
            attention(*arrays, lse=like(mo.float32, BATCH, HEADS, queries), **options)

    def _rules(self, queries, keys):
        given = {"softcap": 30.0, "alibi": like(mo.float32, HEADS), "sinks": like(mo.float32, HEADS),
                 "bias": like(mo.bfloat16, BATCH, HEADS, queries, keys), "score": of_distance}
        return {name: given[name] for name in self.rules}

    def _factors(self, heads_K):
        heads = {"q_scale": HEADS, "k_scale": heads_K, "v_scale": heads_K} if self.dtype == "float8_e4m3fn" else {}
        return {name: like(mo.float32, BATCH, count) for name, count in heads.items()}


def like(dtype, *shape):
    """A contiguous array that is only described."""
    strides = [1]
    for extent in shape[:0:-1]:
        strides.insert(0, strides[0] * extent)
    return mo.TensorLike(dtype, shape, tuple(strides))


@mo.jit
def of_distance(score, query, key, head, batch):
    """A score function: one factor for the first keys, another for the others."""
    return mo.where(key < 64, score, 0.5 * score - 0.01 * mo.abs(query - key).to(mo.float32))


def calls(dtypes=DTYPES, dims=DIMS, masks=MASKS):
    """Each mask with each rule of scores, of batches and of sequences, which have neither bias nor function; other
    kinds of calls with no rule."""
    for dtype, dims_of_call, mask, kind, rules in itertools.product(dtypes, dims, masks, KINDS, RULES):
        if kind == "batches" or not rules or (kind == "several" and not {"bias", "score"} & set(rules)):
            yield Call(dtype, dims_of_call, mask, rules, kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dtypes", nargs="*", help=", ".join(DTYPES))
    parser.add_argument("--dim", type=int, action="append", help="of queries and keys")
    parser.add_argument("--mask", action="append", choices=[*MASKS])
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="a line for each kernel, not only for those that spill")
    parser.add_argument("--csv", type=argparse.FileType("w"))
    given = parser.parse_args()
    count = spilled = 0
    table = csv.writer(given.csv) if given.csv else None
    dims = [dims for dims in DIMS if not given.dim or dims[0] in given.dim]
    drawn = (call for call in calls(given.dtypes or DTYPES, dims, given.mask or MASKS)
             if call.kind in (given.kind or KINDS))
    for call, name, program in measured(drawn, threads=given.threads):
        if not name.startswith("attention"):            # what it needs beside
            continue
        found = program.compiled
        count, spilled = count + 1, spilled + (program.stack + program.spills > 0)
        if given.all or program.spills or program.stack:
            print(f"{call} {program.registers:4} registers, bytes: {found.spill_stores:4} stored {found.spill_loads:4} "
                  f"loaded {program.stack:4} stack", flush=True)
        if table:
            table.writerow([call.dtype, *call.dims, call.mask, call.kind, " ".join(call.rules), program.registers,
                            found.spill_stores, found.spill_loads, program.stack])
    print(f"{count} kernels, {spilled} of them spill")
    sys.exit(spilled > 0)


if __name__ == "__main__":
    main()
