"""Small pictures of every kind of object, for the golden files and for what must hold of all of them."""

from __future__ import annotations

import moye as mo
from moye.atoms.atom import MmaOp

parse = mo.Layout.parse

# PTX ISA, "Matrix Fragments for mma.m16n8k8" with .tf32 operands, as thread/value layouts of (M,K), (N,K) and (M,N).
TF32_16x8x8 = MmaOp("m16n8k8.tf32", (16, 8, 8), mo.tfloat32, mo.tfloat32, mo.float32, mo.float32, 32,
                    parse("((4,8),(2,2)):((16,1),(8,64))"), parse("((4,8),2):((8,1),32)"),
                    parse("((4,8),(2,2)):((32,1),(16,8))"))
COPY = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint64), mo.float32), mo.make_layout((2, 2)),
                          mo.make_layout((2, 1)))
MMA = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((2, 4)))

CASES = {
    "layout": lambda: mo.draw("((2,2),4):((1,8),2)"),
    "vector": lambda: mo.draw("4:3"),
    "slices": lambda: mo.draw("(2,2,3):(1,2,4)"),
    "scalar": lambda: mo.draw(mo.make_layout(())),
    "empty": lambda: mo.draw("(4,0)"),
    "cropped": lambda: mo.draw("(100,100)", max_cells=6),
    "escaped": lambda: mo.draw("(2,1)", title='<A & "B">\\ #1_{x}$%^~ ü'),
    "swizzle": lambda: mo.draw(mo.Swizzle(1, 1, 1)),
    "swizzled": lambda: mo.draw("(4,4):(4,1)", swizzle="2,0,2"),
    "banks": lambda: mo.draw("(2,4):(32,1)", banks=True, bits=32),
    "partition": lambda: mo.draw("(4,4):(5,1)", thr="(2,2)", val="(1,2)", bits=16),
    "tile": lambda: mo.draw(thr="(2,2):(2,1)"),
    "tiled_copy": lambda: mo.draw(COPY),
    "copy_atom": lambda: mo.draw(mo.CopyAtom(mo.CpAsync(mo.uint64), mo.float32)),
    "tiled_mma": lambda: mo.draw(MMA),
    "mma_atom": lambda: mo.draw(mo.UniversalFMA(mo.float32)),
    "tensor_core": lambda: mo.draw(TF32_16x8x8),
}
