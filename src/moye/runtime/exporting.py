"""Kernels for programs without Python: what a launch would check and pass, handed to ``moye.cuda.export``.

In: kernels, and the calls that C is written for.  Out: a header and a source file.

    saxpy.export("build", mo.Specialisation(y, x, 2.0, block=256), arch=("sm_80", "sm_90a")).header

The facts are those of a launch: specs of ``classify``, guards of the Func, parameters of the printed kernel.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from moye.cuda.export import Case, Code, Function, Number, Selector, TensorArgument, header, source
from moye.cuda.export.formulas import Formula, formula_text
from moye.cuda.export.model import Argument
from moye.cuda.export.signatures import RESERVED, clash, is_of_the_library, is_taken
from moye.cuda.printing.names import identifier, is_free
from moye.errors import ArgumentError, MoyeError, UnsupportedError
from moye.ir.nodes import TensorParam
from moye.lang.signature import ScalarSpec, Spec, StaticSpec, TensorSpec, TmaSpec, TreeSpec
from moye.runtime.arguments import Call, classify
from moye.runtime.boundary import boundary
from moye.runtime.compile import Specialised, compile_program, default_arch, require_room
from moye.runtime.launch import check_written, dim3, more_smem, overlaps
from moye.runtime.preconditions import conditions

_MOST_MODES = 8
Grid = Callable[..., Any] | Sequence[int] | int


class Specialisation:
    """One call that C is written for: arguments as in a launch, of which arrays may be ``mo.TensorLike``.

    ``block``, ``cluster``, ``smem`` (extra bytes of dynamic shared memory) and ``dependent`` are those of the launch.
    ``index_bits=64`` counts with 64 bits also where the arrays given here do not need it.  With ``overlapping`` written
    arrays may share memory with others, which costs what ``__restrict__`` gains.
    """

    def __init__(self, *args: Any, block: int | Sequence[int], cluster: int | Sequence[int] = (1, 1, 1),
                 smem: int | None = None, dependent: bool = False, index_bits: int = 32, overlapping: bool = False,
                 **kwargs: Any) -> None:
        if index_bits not in (32, 64):
            raise ArgumentError(f"a specialisation counts with 32 or 64 bits, not {index_bits!r}")
        self.args, self.kwargs = args, kwargs
        self.block, self.cluster, self.smem = dim3(block, "block"), dim3(cluster, "cluster"), more_smem(smem)
        self.dependent, self.index_bits, self.overlapping = bool(dependent), index_bits, overlapping


@dataclass(frozen=True)
class Export:
    """One C function: a kernel, its specialisations (the first that fits is launched), its name and its grid.

    ``grid`` is up to three integers, or a function of the kernel's parameters, by their names: arrays have ``shape``
    and ``strides``.  It computes with ``+ - * // %`` and ``mo.ceil_div``.  Without it the C function takes the grid.
    ``arch`` are the architectures to compile for.
    """

    kernel: Any
    specialisations: Sequence[Specialisation]
    name: str | None = None
    grid: Grid | None = None
    arch: Sequence[str] | str | None = None

    @property
    def function(self) -> str:
        """The name of the C function."""
        return self.name or self.kernel.__name__


@dataclass(frozen=True)
class Exported:
    """The files that were written, and the C functions in them."""

    header: Path
    source: Path
    functions: tuple[str, ...]


@boundary
def export(path: str | Path, *exports: Export) -> Exported:
    """Write the C header and source of kernels, with their code inside.

    ``path`` is a folder, in which the files are called as the first function, or a file such as ``build/kernels.c``.
    ArgumentError and UnsupportedError say what cannot be exported.
    """
    if not isinstance(path, str | Path):
        raise ArgumentError(f"export writes to a folder or a file, not to {path!r}")
    for each in exports:
        if not isinstance(each, Export):
            raise ArgumentError(f"export writes what mo.Export describes, not a {type(each).__name__}")
    names = [each.function for each in exports]
    if not exports or len(set(names)) < len(names):
        raise ArgumentError(f"export writes functions of different names, not {', '.join(names) or 'none'}",
                            hint="give each a name=" if exports else None)
    if (found := clash(names)) is not None:
        raise ArgumentError(f"export: beside {found[0]} there is a {found[1]} already", hint="give one another name=")
    folder, stem = _place(Path(path), names[0])
    functions = [_function(each) for each in exports]
    folder.mkdir(parents=True, exist_ok=True)
    written = Exported(folder / f"{stem}.h", folder / f"{stem}.c", tuple(names))
    written.header.write_text(header(functions, stem), encoding="utf-8")
    written.source.write_text(source(functions, stem), encoding="utf-8")
    return written


def _place(path: Path, name: str) -> tuple[Path, str]:
    if re.search(r'["\\\x00-\x1f]|\?\?', path.name):       # ?? begins a trigraph
        raise ArgumentError(f"export: {path.name!r} cannot stand in an #include")
    if path.suffix in (".c", ".h"):
        return path.parent, path.stem
    if path.suffix and not path.is_dir():
        raise ArgumentError(f"export writes C: {str(path)!r} is neither a folder nor a file that ends in .c or .h")
    return path, name


# --- one function ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Traced:
    """One specialisation: what was asked for, and what the launch would use."""

    asked: Specialisation
    call: Call
    spec: Specialised
    leaves: list[tuple[str, Spec]] = field(default_factory=list)


def _function(asked: Export) -> Function:
    name = asked.function
    if not re.fullmatch(r"[A-Za-z]\w*", name) or not is_free(name) or is_taken(name) or is_taken(f"{name}_load"):
        raise ArgumentError(f"export: {name!r} cannot be the name of a C function", hint="give another with name=")
    if is_of_the_library(name):
        raise ArgumentError(f"export: the C library or CUDA has a {name}, whose place such a C function would take",
                            hint="give another with name=")
    if not asked.specialisations:
        raise ArgumentError(f"export: {name} has no specialisation",
                            hint="mo.Specialisation(*arguments, block=128) says what to compile for")
    archs = _archs(asked.arch)
    traced = [_traced(asked.kernel, each) for each in asked.specialisations]
    arguments = _arguments(name, traced)
    cases = tuple(_case(name, arguments, each, archs) for each in traced)
    _require_reachable(name, cases)
    made = Function(name, asked.kernel.__name__, tuple(arguments.values()), cases)
    if asked.grid is None:
        return made
    grid = _grid(asked.grid, arguments, traced)
    x, y, z = map(formula_text, grid)
    return replace(made, grid=(x, y, z), grid_told=tuple(map(str, grid)))


def _archs(asked: object) -> tuple[str, ...]:
    """The architectures that are asked for; the default one where nothing is."""
    listed = (asked,) if isinstance(asked, str) else (default_arch(),) if asked is None else asked
    if not isinstance(listed, Iterable) or isinstance(listed, bytes):
        raise ArgumentError(f"export: arch={asked!r} is neither an architecture nor a list of them",
                            hint="arch='sm_90a', or arch=('sm_80', 'sm_90a')")
    archs = tuple(listed) or (default_arch(),)
    if other := [arch for arch in archs if not isinstance(arch, str)]:
        raise ArgumentError(f"export: arch= has {other[0]!r}, and architectures are words",
                            hint="arch='sm_90a', or arch=('sm_80', 'sm_90a')")
    return archs


def _traced(kernel: Any, asked: Specialisation) -> _Traced:
    call = classify(kernel.signature, asked.args, asked.kwargs)
    call.index_bits = max(call.index_bits, asked.index_bits)
    spec = kernel.specialised(call, asked.block, asked.cluster)
    if asked.smem:
        require_room(spec, asked.smem)
    check_written(spec.func, call, kernel.__name__)
    found = _Traced(asked, call, spec)
    for name, each in call.specs.items():
        found.leaves += _flat(each, name)
    return found


def _flat(spec: Spec, name: str) -> Iterator[tuple[str, Spec]]:
    """The leaves of a spec, named as the trace names them."""
    if isinstance(spec, TreeSpec):
        for part, item in zip(spec.names, spec.items, strict=True):
            yield from _flat(item, f"{name}_{part}")
    else:
        yield name, spec


# --- arguments -------------------------------------------------------------------------------------------------------


def _arguments(name: str, traced: Sequence[_Traced]) -> dict[str, Argument]:
    """The arguments of the C function by the kernel's names, static integers among them where they differ."""
    found: dict[str, Argument] = {}
    taken = {*RESERVED, name}
    first = traced[0]
    for index, (leaf, spec) in enumerate(first.leaves):
        others = [each.leaves[index] if len(each.leaves) == len(first.leaves) else ("", None) for each in traced]
        if any(other != leaf for other, _ in others):
            raise ArgumentError(f"export: the specialisations of {name} have different arguments",
                                hint="export them as functions of different names")
        argument = _argument(name, leaf, spec, [other for _, other in others], traced, taken)
        if argument is not None:
            found[leaf] = argument
    return found


def _argument(name: str, leaf: str, spec: Spec, others: Sequence[Spec | None], traced: Sequence[_Traced],
              taken: set[str]) -> Argument | None:
    own = _c_name(name, leaf, taken)
    kinds = {_kind(other) for other in others}
    if len(kinds) > 1:
        raise ArgumentError(f"export: {leaf} of {name} is {' and '.join(sorted(kinds))}, and a C function takes one "
                            "kind of it", hint="export them as functions of different names")
    if isinstance(spec, StaticSpec):
        values = [other.value for other in others if isinstance(other, StaticSpec)]
        differ = len({(type(value), repr(value)) for value in values}) > 1
        return Selector(own) if differ and all(isinstance(value, int) for value in values) else None
    if isinstance(spec, ScalarSpec):
        return Number(own, spec.dtype)
    tensor = spec.tensor if isinstance(spec, TmaSpec) else spec
    assert isinstance(tensor, TensorSpec), "every other leaf is an array"
    if len(tensor.shape) > _MOST_MODES:
        raise UnsupportedError(f"export: {leaf} of {name} has rank {len(tensor.shape)}, and the C source has arrays of "
                               f"rank {_MOST_MODES} at most")
    written = any(param.buffer.written for each in traced for param in each.spec.func.params
                  if isinstance(param, TensorParam) and param.name == leaf)
    return TensorArgument(own, tensor.dtype, len(tensor.shape), written)


def _kind(spec: Spec | None) -> str:
    if isinstance(spec, ScalarSpec):
        return f"a number of {spec.dtype}"
    tensor = spec.tensor if isinstance(spec, TmaSpec) else spec
    if isinstance(tensor, TensorSpec):
        return f"{'a TMA copy' if isinstance(spec, TmaSpec) else 'an array'} of {tensor.dtype} and rank " \
               f"{len(tensor.shape)}"
    return "static"


def _c_name(function: str, leaf: str, taken: set[str]) -> str:
    """A C identifier for a parameter; its extents and strides have names made from it."""
    own = identifier(leaf)
    if not is_free(own) or is_taken(own) or own.startswith(f"{function}_"):
        own = f"arg_{own}"
    while {own, f"{own}_shape", f"{own}_strides"} & taken:
        own += "_"
    taken |= {own, f"{own}_shape", f"{own}_strides"}
    return own


# --- specialisations -------------------------------------------------------------------------------------------------


def _case(name: str, arguments: dict[str, Argument], traced: _Traced, archs: Iterable[str]) -> Case:
    spec, asked = traced.spec, traced.asked
    restrict = not (asked.overlapping or overlaps(spec.func, traced.call))
    found = [compile_program(spec, arch, restrict=restrict) for arch in archs]
    programs = list({program.arch: program for program in found}.values())
    printed = programs[0].printed
    if any(program.printed.slots != printed.slots for program in programs):
        raise UnsupportedError(f"export: the parameters of {name} differ between {', '.join(archs)}",
                               hint="export each architecture as a function of its own")
    for program in programs:
        program.warn()
    codes = tuple(Code(program.arch, program.cubin) for program in programs)
    selected = {arguments[leaf].name: int(each.value) for leaf, each in traced.leaves
                if isinstance(each, StaticSpec) and leaf in arguments}
    runtime = [(leaf, each) for leaf, each in traced.leaves if not isinstance(each, StaticSpec)]
    params = tuple(arguments[leaf] for leaf, _ in runtime)
    preconditions = conditions(spec, runtime, {leaf: arguments[leaf] for leaf, _ in runtime}, selected, traced.call,
                               printed.slots, restrict)
    registers = ", ".join(f"{program.arch} ({program.registers} registers)" for program in programs)
    return Case(printed, params, codes, tuple(preconditions), spec.func.block_dim, spec.func.cluster_dim,
                printed.dynamic_smem + asked.smem, asked.dependent,
                f"block {spec.func.block_dim}, {printed.dynamic_smem + printed.static_smem + asked.smem} bytes of "
                f"shared memory, {registers}")


def _require_reachable(name: str, cases: Sequence[Case]) -> None:
    """ArgumentError for a specialisation that an earlier one hides."""
    for later, case in enumerate(cases):
        for earlier, other in enumerate(cases[:later]):
            hidden = all(_implied(part, _parts(case)) for part in _parts(other))
            if hidden and {c.arch for c in case.codes} <= {c.arch for c in other.codes}:
                raise ArgumentError(f"export: specialisation {later} of {name} is never launched, because "
                                    f"specialisation {earlier} fits wherever it does",
                                    hint="put the narrower one first, or export them under different names")


_MULTIPLE = re.compile(r"(.+) % (\d+) == 0")


def _parts(case: Case) -> list[str]:
    """The conditions of a specialisation, each as small as can be told from its text."""
    return [part for condition in case.conditions
            for part in ([condition.holds] if "(" in condition.holds else condition.holds.split(" && "))]


def _implied(wanted: str, given: Iterable[str]) -> bool:
    """Whether a condition follows from others, as far as their forms tell."""
    multiple = _MULTIPLE.fullmatch(wanted)
    for known in given:
        other = _MULTIPLE.fullmatch(known)
        if multiple and other and multiple[1] == other[1] and int(other[2]) % int(multiple[2]) == 0:
            return True
        if known == wanted:
            return True
        if wanted.endswith(" >= 1") and known == f"{wanted.removesuffix(' >= 1')} == 1":
            return True
    return False


# --- the grid --------------------------------------------------------------------------------------------------------


def _grid(asked: Grid, arguments: dict[str, Argument], traced: Sequence[_Traced]) -> tuple[Any, ...]:
    """The extents that the author's rule gives; ArgumentError for one that needs to know numbers."""
    given = _formulas(asked, arguments, traced) if callable(asked) else {}
    try:
        found = asked(**given) if callable(asked) else asked
    except MoyeError:
        raise
    except (AttributeError, TypeError) as error:
        told = str(error).replace("'types.SimpleNamespace' object", "an array").replace("'Formula'", "an extent")
        raise ArgumentError(f"grid= is no rule that C can follow: {told}",
                            hint="arrays have shape, strides, ndim and dtype; compute with + - * // % and mo.ceil_div"
                            ) from error
    except Exception as error:                          # of the author's own, such as an extent that there is not
        raise ArgumentError(f"grid= raises {type(error).__name__}: {error}",
                            hint="it is called once, with what stands for extents and strides") from error
    extents = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    if not 1 <= len(extents) <= 3:
        raise ArgumentError(f"grid= gives {len(extents)} extents, and a grid has one to three")
    for axis, x, most in zip("xyz", extents, (2**31 - 1, 65535, 65535), strict=False):
        if isinstance(x, bool) or (isinstance(x, int) and not 0 <= x <= most):
            raise ArgumentError(f"grid= has {x} blocks along {axis}, and a launch has 0 to {most}")
    return (*extents, 1, 1)[:3]


def _formulas(rule: Callable[..., Any], arguments: dict[str, Argument],
              traced: Sequence[_Traced]) -> dict[str, Any]:
    """What the rule's parameters stand for."""
    known: dict[str, Any] = {leaf: spec.value for index, (leaf, spec) in enumerate(traced[0].leaves)
                             if isinstance(spec, StaticSpec)
                             and all(each.leaves[index][1] == spec for each in traced)}
    for leaf, argument in arguments.items():
        if isinstance(argument, TensorArgument):
            own = argument.name
            shape, strides = (tuple(Formula(f"{own}->{what}[{i}]", f"{own}.{what}[{i}]") for i in range(argument.rank))
                              for what in ("shape", "strides"))
            known[leaf] = SimpleNamespace(shape=shape, strides=strides, ndim=argument.rank, dtype=argument.dtype)
        elif isinstance(argument, Selector):
            known[leaf] = Formula(argument.name, argument.name)
        elif not argument.dtype.is_float and argument.dtype.name != "uint64":
            known[leaf] = Formula(f"(int64_t){argument.name}", argument.name)
    wanted = inspect.signature(rule).parameters
    if missing := [name for name in wanted if name not in known]:
        raise ArgumentError(f"grid= asks for {missing[0]!r}, and has {', '.join(known) or 'nothing'} to compute with")
    return {name: known[name] for name in wanted}
