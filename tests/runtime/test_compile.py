"""``compile_program``: what one specialisation is compiled for at once by several threads."""

from __future__ import annotations

import moye as mo
from moye.cuda import printer
from moye.runtime.arguments import classify
from moye.runtime.compile import compile_program


@mo.kernel
def twice(x, y):
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    y[i] = x[i] * 2.0


def test_overlapping_and_other_arguments_are_compiled_at_once(monkeypatch):
    """Each program is printed for its own arguments, wherever the other thread is."""
    like, real, inner = mo.TensorLike(mo.float32, (1024,)), printer.print_kernel, []
    spec = twice.specialised(classify(twice.signature, (like, like), {}), (64, 1, 1))

    def print_kernel(func, **options):
        if not inner:                                   # another thread gets this far meanwhile
            inner.append(None)
            inner.append(compile_program(spec, "sm_90a", restrict=True))
        return real(func, **options)

    monkeypatch.setattr(printer, "print_kernel", print_kernel)
    overlapping = compile_program(spec, "sm_90a", restrict=False)
    assert "__restrict__" not in overlapping.source and "__restrict__" in inner[1].source
