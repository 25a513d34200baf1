"""The C source of exported functions: cubins, preconditions, parameter blocks, launches.

In: ``Function``s and the name of the header.  Out: C99 that compiles as C++ too, without CUDA's headers.

    source([function], "saxpy")         # '... int saxpy(float *y, ...) {'

What all launches share is ``launcher.c``, which is written in front of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from moye.atoms.tma import TensorMap
from moye.cuda.device.tensor_maps import NUMBERS, settings
from moye.cuda.export.model import Argument, Case, Code, Function, Number, TensorArgument
from moye.cuda.export.signatures import FIRST_CODE, messages, number_type, parameters, wrapped
from moye.cuda.printing.printer import Slot

_LAUNCHER = Path(__file__).with_name("launcher.c")
_SLOTS = {"i": "int32_t", "I": "uint32_t", "q": "int64_t", "Q": "uint64_t"}
_DIMENSIONS = 5


def source(functions: Sequence[Function], stem: str) -> str:
    """The text of the source file, beside ``stem``.h."""
    head = (f"/* {stem}.h says what this is.  Written by moye: change the kernel and export it again. */\n\n"
            "#ifndef _POSIX_C_SOURCE\n#define _POSIX_C_SOURCE 200809L\n#endif\n\n"
            f'#include "{stem}.h"\n\n#include <dlfcn.h>\n#include <pthread.h>\n#include <stddef.h>\n'
            "#include <stdlib.h>\n#include <string.h>\n\n")
    return head + _LAUNCHER.read_text() + "".join(f"\n{text}" for f in functions for text in _function(f))


def _function(function: Function) -> Iterator[str]:
    yield f"/* --- {function.name} {'-' * max(3, 111 - len(function.name))} */\n"
    code = FIRST_CODE + 2 * sum(isinstance(a, TensorArgument) for a in function.arguments)
    firsts = []
    for index, case in enumerate(function.cases):
        name = f"{function.name}_{index}"
        firsts.append(code)
        yield from (_image(name, each) for each in case.codes)
        rows = ",\n".join(f"    {_code(name, each)}" for each in case.codes)
        yield f"static moye_code {name}_codes[] = {{\n{rows},\n}};\n"
        yield from _maps(name, case)
        yield _fits(function, name, case, code)
        yield _run(function, name, case)
        code += len(case.conditions)
    rows = ",\n".join(f"    {_case(f'{function.name}_{i}', case)}" for i, case in enumerate(function.cases))
    yield f"static moye_case {function.name}_cases[] = {{\n{rows},\n}};\n"
    yield _errors(function)
    yield _loads(function)
    yield _entry(function, firsts)


# --- data ------------------------------------------------------------------------------------------------------------


def _image(name: str, code: Code) -> str:
    rows = (", ".join(f"{byte}" for byte in code.cubin[i: i + 32]) for i in range(0, len(code.cubin), 32))
    body = ",\n".join(f"    {row}" for row in rows)
    return (f"static const unsigned char {name}_{code.arch}[] __attribute__((aligned(64))) = {{\n{body},\n}};\n")


def _code(name: str, code: Code) -> str:
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", code.arch)
    assert match, "an architecture as normalize_arch writes it"
    # An f stands for a family: it runs on the later ones of its generation, as code without a letter does.
    kind = "'a'" if match[3] == "a" else "0"
    return f"{{{match[1]}, {match[2]}, {kind}, {name}_{code.arch}, NULL}}"


def _case(name: str, case: Case) -> str:
    block, cluster = (", ".join(map(str, extents)) for extents in (case.block, case.cluster))
    return (f'{{"{case.printed.name}", {{{block}}}, {{{cluster}}}, {case.smem}, {int(case.printed.cooperative)}, '
            f"{int(case.dependent)}, {len(case.codes)}, {name}_codes, NULL}}")


def _maps(name: str, case: Case) -> Iterator[str]:
    for index, slot in enumerate(case.printed.slots):
        if slot.map is not None:
            yield f"static const moye_map {name}_map_{index} = {_map(slot.map)};\n"


def _map(tensor_map: TensorMap) -> str:
    kind, swizzle, promotion, fill = (NUMBERS[name] for name in settings(tensor_map))
    groups = [(modes,) if isinstance(modes, int) else modes for modes in tensor_map.modes]
    rank, window = len(groups), tensor_map.window

    def row(values: Sequence[object]) -> str:
        return f"{{{', '.join(map(str, [*values, *[0] * (_DIMENSIONS - len(values))]))}}}"

    modes = ", ".join(f"{{{', '.join(map(str, group))}}}" for group in (*groups, *[(0,)] * (_DIMENSIONS - rank)))
    images = "0, {0}, {0}, {0}" if window is None else \
        f"1, {row(window.lower)}, {row(window.upper)}, {row((1, *window.strides, 1))}"
    return (f"{{{kind}, {swizzle}, {promotion}, {fill}, {rank}, {tensor_map.dtype.bits // 8}, "
            f"{row([len(group) for group in groups])}, {{{modes}}}, {row(tensor_map.box)}, {images}}}")


# --- functions of a specialisation -----------------------------------------------------------------------------------


def _internal(argument: Argument) -> str:
    """The parameter of an argument in the file's own functions."""
    if isinstance(argument, TensorArgument):
        return f"const moye_array *{argument.name}"
    return f"{number_type(argument.dtype) if isinstance(argument, Number) else 'int64_t'} {argument.name}"


def _unused(function: Function, *more: str) -> str:
    return "".join(f"    (void){name};\n" for name in (*(a.name for a in function.arguments), *more))


def _fits(function: Function, name: str, case: Case, code: int) -> str:
    lines = []
    for index, condition in enumerate(case.conditions):
        failed = f"!({condition.holds})".replace("&MAP_", f"&{name}_map_") + (" || bad" if condition.fallible else "")
        lines.append(f"    if ({failed}) {{\n        return {code + index};\n    }}\n")
    start = wrapped(f"static int {name}_fits(", [*map(_internal, function.arguments), "const int64_t *grid"], ")")
    return (f"/* 0, or the code of the first precondition that does not hold. */\n{start}\n{{\n    int bad = 0;\n"
            f"{_unused(function, 'grid', 'bad')}{''.join(lines)}    return MOYE_OK;\n}}\n")


def _run(function: Function, name: str, case: Case) -> str:
    values = [_value(name, case, index, slot) for index, slot in enumerate(case.printed.slots)]
    pointers = ", ".join(f"&p{i}" for i in range(len(values))) or "NULL"
    encoded = "".join(f"    if ((failed = moye_encode(&p{i}, &{name}_map_{i}, {case.params[slot.param].name})) != 0) "
                      "{\n        return failed;\n    }\n"
                      for i, slot in enumerate(case.printed.slots) if slot.kind == "map")
    given = ["const moye_case *it", "const moye_loaded *loaded", *map(_internal, function.arguments)]
    start = wrapped(f"static int {name}_run(", [*given, "const int64_t *grid", "void *stream"], ")")
    declared = "".join(f"    {value};\n" for value in values)
    return (f"{start}\n{{\n{declared}    void *parameters[] = {{{pointers}}};\n    int failed = 0;\n"
            f"{_unused(function, 'failed')}{encoded}"
            "    return moye_launch(it, loaded, grid, stream, parameters);\n}\n")


def _value(name: str, case: Case, index: int, slot: Slot) -> str:
    """The declaration of one kernel parameter."""
    argument = case.params[slot.param]
    own = argument.name
    if slot.kind == "map":
        return f"moye_tensor_map p{index} __attribute__((aligned(64)))"
    if slot.kind == "ptr":
        return f"uint64_t p{index} = {own}->at"
    if slot.kind == "scalar":
        assert isinstance(argument, Number), "a scalar slot belongs to a scalar"
        if argument.dtype.name == "bool":
            return f"uint8_t p{index} = (uint8_t)({own} != 0)"
        return f"{number_type(argument.dtype)} p{index} = {own}"
    kind = _SLOTS[slot.format]
    what = "shape" if slot.kind == "shape" else "strides"
    return f"{kind} p{index} = ({kind}){own}->{what}[{slot.mode}]"


# --- public functions ------------------------------------------------------------------------------------------------


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("??", "?\\?")
    whole = re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\{ord(m[0]):03o}", escaped)
    return f'"{whole}"'


def _errors(function: Function) -> str:
    rows = "".join(f"        {_string(text)},\n" for _, texts in messages(function) for text in texts)
    own = (f"    static const char *const told[] = {{\n{rows}    }};\n"
           f"    if (code >= {FIRST_CODE} && code < {FIRST_CODE} + (int)(sizeof told / sizeof told[0])) {{\n"
           f"        return told[code - {FIRST_CODE}];\n    }}\n") if rows else ""
    return f"const char *{function.name}_error_string(int code)\n{{\n{own}    return moye_message(code);\n}}\n"


def _loads(function: Function) -> str:
    return (f"int {function.name}_load(void)\n{{\n    moye_loaded *loaded;\n    int index, failed, found = 0;\n"
            f"    for (index = 0; index < {len(function.cases)}; index++) {{\n"
            f"        failed = moye_loaded_for(&{function.name}_cases[index], &loaded);\n"
            "        if (failed != MOYE_OK && failed != MOYE_NO_CODE) {\n            return failed;\n        }\n"
            "        found |= failed == MOYE_OK;\n    }\n    return found ? MOYE_OK : MOYE_NO_CODE;\n}\n")


def _entry(function: Function, firsts: list[int]) -> str:
    tensors = [a for a in function.arguments if isinstance(a, TensorArgument)]
    position = {a.name: i for i, a in enumerate(tensors)}
    given = [f"&arrays[{position[a.name]}]" if a.name in position else a.name for a in function.arguments]
    lines = [f"    moye_array arrays[{max(1, len(tensors))}];", "    moye_loaded *loaded;", "    int64_t grid[3];",
             "    int failed, bad = 0, met = -1, code = MOYE_NO_CODE;"]
    for i, a in enumerate(tensors):
        shapes = f"{a.name}_shape, {a.name}_strides" if a.rank else "NULL, NULL"
        call = f"moye_describe(&arrays[{i}], {a.name}, {a.dtype.bits // 8}, {a.rank}, {shapes})"
        lines += [f"    if ((failed = {call}) != 0) {{", f"        return {FIRST_CODE + 2 * i - 1} + failed;", "    }"]
    lines += [f"    {text}" for text in _grid(function, position)]
    lines += ["    if (bad) {", "        return MOYE_FORMULA;", "    }",
              "    if ((failed = moye_check_grid(grid)) != MOYE_OK) {", "        return failed;", "    }"]
    for index in range(len(function.cases)):
        lines += _attempt(function, index, firsts, given)
    body = "\n".join([*lines, "    return code;"])
    return f"{wrapped(f'int {function.name}(', parameters(function), ')')}\n{{\n{body}\n}}\n"


def _grid(function: Function, position: dict[str, int]) -> list[str]:
    if function.grid is None:
        return [f"grid[{i}] = grid_{axis};" for i, axis in enumerate("xyz")]
    texts = []
    for i, text in enumerate(function.grid):
        own = re.sub(r"\b(\w+)->", lambda m: f"arrays[{position[m[1]]}].", text)
        texts.append(f"grid[{i}] = {own};")
    return texts


def _attempt(function: Function, index: int, firsts: list[int], given: list[str]) -> list[str]:
    """Launch one specialisation if it fits, or else remember how far it came."""
    name = f"{function.name}_{index}"
    case = f"&{function.name}_cases[{index}]"
    return [wrapped(f"    failed = {name}_fits(", [*given, "grid"], ");"),
            "    if (failed == MOYE_OK) {",
            "        if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) {", "            return MOYE_OK;", "        }",
            f"        if ((failed = moye_loaded_for({case}, &loaded)) == MOYE_OK) {{",
            wrapped(f"            return {name}_run(", [case, "loaded", *given, "grid", "stream"], ");"), "        }",
            "        if (failed != MOYE_NO_CODE) {", "            return failed;", "        }",
            "        code = failed;", "        met = INT32_MAX;",
            f"    }} else if (failed - {firsts[index]} > met) {{",
            "        code = failed;", f"        met = failed - {firsts[index]};", "    }"]
