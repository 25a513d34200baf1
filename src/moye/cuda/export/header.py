"""The C header of exported functions: declarations, and what each takes, chooses among and refuses.

In: ``Function``s and the name of the file.  Out: C99 that C++ takes too.

    header([function], "saxpy")         # '#ifndef SAXPY_H ... int saxpy(float *y, ...'
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from moye.cuda.export.model import Argument, Function, Number, TensorArgument
from moye.cuda.export.signatures import FIRST_CODE, messages, number_type, parameters, wrapped

_ABOUT = """\
Kernels compiled ahead of time by moye.  No Python, no CUDA toolkit and no CUDA header is needed: the driver's library
libcuda.so.1 is opened at the first call.  Link with the threads and dl libraries of the system.

Every function launches on the device of the CUDA context that is current in the calling thread, on `stream` (a CUstream
or cudaStream_t; NULL is the legacy stream), and returns at once, as kernels run asynchronously.  It may be called from
any thread.  It checks what the kernel was compiled for and launches nothing if that does not hold.

The result is 0, or a code that NAME_error_string explains: above 0 a precondition that does not hold, below 0 minus the
CUresult of the driver.  With several specialisations the first that fits is launched; if none fits, the code is the
first precondition that fails of the one that came furthest.  NAME_load loads the code of every specialisation for the
current context, which the first launch does otherwise: call it before a stream is captured into a graph.

An array is a pointer to device memory (the element at coordinate 0), its extents, and its strides in elements."""


def header(functions: Sequence[Function], stem: str) -> str:
    """The text of the header."""
    guard = re.sub(r"^(?=\d)", "_", re.sub(r"\W", "_", stem, flags=re.ASCII).upper()) + "_H"
    parts = [_comment(_ABOUT.splitlines()), f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n"
             '#ifdef __cplusplus\nextern "C" {\n#endif\n']
    parts += [_function(function) for function in functions]
    parts.append(f"#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n")
    return "\n".join(parts)


def _comment(lines: Iterable[str]) -> str:
    safe = [line.replace("*/", "* /").replace("/*", "/ *").rstrip() for line in lines]
    return "/*\n" + "".join(f" * {line}".rstrip() + "\n" for line in safe) + " */\n"


def _function(function: Function) -> str:
    lines = [f"{function.name}: the kernel {function.kernel}.", ""]
    if not function.grid:
        lines.append("  grid_x, grid_y, grid_z: blocks of the grid; a grid without blocks launches nothing")
    lines += [f"  {text}" for argument in function.arguments for text in _told(argument)]
    if function.grid:
        lines += ["", f"  The grid is ({', '.join(function.grid_told)})."]
    for index, case in enumerate(function.cases):
        lines += ["", f"  Specialisation {index}: {case.told}"]
    lines += ["", "  Codes of its own:", *_codes(function)]
    name = function.name
    return (f"{_comment(lines)}{wrapped(f'int {name}(', parameters(function), ');')}\n"
            f"int {name}_load(void);\nconst char *{name}_error_string(int code);\n")


def _told(argument: Argument) -> Iterator[str]:
    if isinstance(argument, TensorArgument):
        what = "written" if argument.written else "read"
        yield f"{argument.name}: {argument.dtype}, rank {argument.rank}, {what}"
    elif isinstance(argument, Number):
        bits = ", as its bits" if argument.dtype.is_float and number_type(argument.dtype).startswith("u") else ""
        yield f"{argument.name}: a number, {argument.dtype}{bits}"
    else:
        yield f"{argument.name}: static in the kernel; there is a specialisation for some values"


def _codes(function: Function) -> Iterator[str]:
    code = FIRST_CODE
    for _, texts in messages(function):
        for text in texts:
            yield from textwrap.wrap(f"{code}: {text}", 112, initial_indent="    ", subsequent_indent="        ",
                                     break_long_words=False)
            code += 1
