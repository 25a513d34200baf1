"""Kernels as C: a header and a source with the compiled code inside, for programs without Python.

In: ``Function``s: parameters, and for each specialisation code, preconditions and launch facts.  Out: two texts.

    header(functions, "saxpy"), source(functions, "saxpy")

What the preconditions are is decided by ``moye.runtime.exporting``, from what a launch checks.
"""

from moye.cuda.export.header import header
from moye.cuda.export.model import Case, Code, Condition, Function, Number, Selector, TensorArgument
from moye.cuda.export.source import source

__all__ = ["Case", "Code", "Condition", "Function", "Number", "Selector", "TensorArgument", "header", "source"]
