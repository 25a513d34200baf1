"""The launches of a recorded call again, with other arrays of the same description.

In: a ``Recording``'s steps and scratch arrays.  Out: ``Replay``: ``run(arrays, infos)``, and for torch's CUDA tensors
``fast(*arrays)``, which looks at them by one call of C++ and keeps packed parameters for pointers that it has seen.

    Replay(recording, infos, arrays, 2).run(arrays, infos)

Both return ``missing`` where the recording does not hold, and then have done nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import Any

from moye import env
from moye.errors import MoyeError
from moye.ir.nodes import TensorParam
from moye.lang.trace import changed
from moye.runtime import autograd, fast_launch
from moye.runtime.arguments import Call
from moye.runtime.arrays import ArrayInfo, describe, span_bytes
from moye.runtime.compile import compile_program, default_arch
from moye.runtime.fast_launch import Ready, Writer, captured, code, missing, stream_reader, tensor_check
from moye.runtime.host_copies import simulated
from moye.runtime.launch import check_written, encoded_map, load, overlaps, slot_value
from moye.runtime.recording import Place, Recording, Scratch, Step
from moye.runtime.rooms import Rooms

_RECENT = 1024
"""Launches whose packed parameters are kept, for each kind of call."""

Result = int | tuple["Result", ...] | None
"""What a call returned: the number of an argument, None, or a tuple of these."""
_Functions = tuple[Callable[..., Any], Callable[..., Any]]
_POINTERS = {"torch": "{}.data_ptr()", "cupy": "{}.data.ptr"}


class Replay:
    """A recorded call, ready to be repeated; ``result`` says what it returned."""

    def __init__(self, told: Recording, arrays: Sequence[Any], result: Result, *, keep: bool = False) -> None:
        self.steps, self.scratch, self.infos, self.result = told.steps, told.scratch, told.arrays, result
        self.relations = relations(self.infos)
        self._captures = [step.spec.watched() for step in self.steps]
        self._devices = isinstance(env.check(), bool) and all(step.device is not None for step in self.steps)
        self._keep, self._calls = keep, _Calls(self) if self._devices and self._known() else None
        self._bound: _Functions | None = None
        self.tracked = tuple(i for i in self.written() if getattr(arrays[i], "requires_grad", False))

    def _known(self) -> bool:
        """Whether the generated functions know how to ask the arrays for their pointers."""
        return all(info.kind in _POINTERS and info.kind == self.infos[0].kind for info in self.infos)

    def written(self) -> tuple[int, ...]:
        """Numbers of the arguments that some step writes."""
        found = {place.which for step in self.steps for place, dirty in zip(step.places, _written(step), strict=True)
                 if dirty and not place.own}
        return tuple(sorted(found))

    def holds(self) -> bool:
        """Whether the names that the kernels read still hold what they held."""
        return all((watch is None or watch.sure()) and not changed(others) for others, watch in self._captures)

    def run(self, arrays: Sequence[Any], infos: Sequence[ArrayInfo]) -> Any:
        """Repeat it for arrays that have the same key."""
        if fast_launch.held or (self.tracked and autograd.grad_enabled()) or not self.holds():
            return missing
        if self._calls is not None:
            return self._functions(arrays)[0](*arrays, *(info.ptr for info in infos))
        self._by_hand(arrays, infos)
        return _returned(self.result, arrays)

    def fast(self, arrays: Sequence[Any]) -> Callable[..., Any] | None:
        """A function of arrays that checks them itself; None if these are no tensors that it can check so quickly."""
        if self._calls is None or self.infos[0].kind != "torch":
            return None
        check = tensor_check(arrays)
        return None if check is None else self._functions(arrays)[1](check)

    def _functions(self, arrays: Sequence[Any]) -> _Functions:
        if self._bound is None:
            assert self._calls is not None, "there are launches on a device"
            self._bound = _bound(self, self._calls, arrays, keep=self._keep)
        return self._bound

    def _by_hand(self, arrays: Sequence[Any], infos: Sequence[ArrayInfo]) -> None:
        """In the simulator, or with arrays that have no quick way to their pointers."""
        made = [x.make(arrays[x.like], *x.options) for x in self.scratch]
        own = [_described(x) for x in made]
        for step in self.steps:
            call = _moved(step, (infos, own), (arrays, made))
            check_written(step.spec.func, call, step.spec.func.name)
            if self._devices:
                _launched(step, call)
            else:
                simulated(step.spec, call, step.grid)


def relations(infos: Sequence[ArrayInfo]) -> tuple[tuple[int, int, int], ...]:
    """The pairs of arrays whose spans have bytes in common, and the distance of their begins."""
    spans = [span_bytes(info) for info in infos]
    return tuple((i, j, infos[j].ptr - infos[i].ptr) for i in range(len(infos)) for j in range(i + 1, len(infos))
                 if spans[i][0] < spans[j][1] and spans[j][0] < spans[i][1] and infos[i].device == infos[j].device)


def _written(step: Step) -> list[bool]:
    """Of each array of a step, whether the kernel writes it."""
    return [isinstance(param, TensorParam) and param.buffer.written
            for param, leaf in zip(step.spec.func.params, step.call.leaves, strict=True) if isinstance(leaf, ArrayInfo)]


def _described(x: Any) -> ArrayInfo:
    info = describe(x)
    assert info is not None, "scratch arrays are arrays"
    return info


def _moved(step: Step, infos: tuple[Sequence[ArrayInfo], ...], objects: tuple[Sequence[Any], ...]) -> Call:
    """The call of a step with the pointers of these arrays."""
    arrays, pairs = [], {}
    for place, (name, info, _) in zip(step.places, step.call.arrays, strict=True):
        moved = info._replace(ptr=infos[place.own][place.which].ptr + place.offset)
        pairs[id(info)] = moved
        arrays.append((name, moved, objects[place.own][place.which]))
    leaves = [pairs[id(leaf)] if isinstance(leaf, ArrayInfo) else leaf for leaf in step.call.leaves]
    return Call(step.call.specs, arrays, leaves, step.call.index_bits)


def _loaded(step: Step, call: Call) -> Any:
    """The program of a step, loaded on its device."""
    assert step.device is not None, "launches on devices alone are loaded"
    program = compile_program(step.spec, default_arch(step.device), restrict=not overlaps(step.spec.func, call))
    program.warn()
    load(program, step.device)
    return program


def _launched(step: Step, call: Call) -> None:
    """One launch with everything looked up anew."""
    program = _loaded(step, call)
    ready = Ready(program, call, step.device or 0, step.grid, step.spec.func, step.smem, step.dependent)
    kind = call.arrays[0][1].kind
    config, params = ready.configure(stream_reader(kind)(ready.device)), ready.buffer(ready.moving(call))[2]
    failed = ready.call(config, ready.function, params, None)
    if failed and (failed := ready.retry(config, params)):
        raise ready.failure(failed)
    autograd.mark(autograd.written_tensors(step.spec.func, call))


# --- launches on a device --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Launch:
    """One launch of a replay: ``values`` has a function of all pointers for each value that moves."""

    ready: Ready
    values: list[Callable[[Sequence[int]], Any]]


class _Calls:
    """The launches of a replay, packed for pointers; what was packed last is kept."""

    def __init__(self, replay: Replay) -> None:
        self.launches = [self._launch(step, len(replay.infos)) for step in replay.steps]
        self.recent: dict[tuple[int, ...], tuple[Any, ...]] = {}
        infos = [*replay.infos, *(x.info for x in replay.scratch)]
        self._low = [info.ptr & 15 for info in infos]
        self._pairs = _pairs(replay)

    @staticmethod
    def _launch(step: Step, arguments: int) -> _Launch:
        program = _loaded(step, step.call)
        ready = Ready(program, step.call, step.device or 0, step.grid, step.spec.func, step.smem, step.dependent)
        places = iter(step.places)
        of = {n: next(places) for n, leaf in enumerate(step.call.leaves) if isinstance(leaf, ArrayInfo)}
        return _Launch(ready, [_value(slot, step.call, of.get(n), arguments)
                               for n, slot in zip(ready.sources, ready.slots, strict=True)])

    def fill(self, pointers: tuple[int, ...], stream: int) -> tuple[Any, ...] | None:
        """(configuration, parameters) of each launch for pointers; None if they do not lie as the recorded ones do."""
        if [p & 15 for p in pointers] != self._low or not all(apart(pointers) for apart in self._pairs):
            return None
        found: list[Any] = []
        for launch in self.launches:
            config = launch.ready.configs.get(stream) or launch.ready.configure(stream)
            found += (config, launch.ready.buffer([value(pointers) for value in launch.values])[2])
        if len(self.recent) >= _RECENT:
            self.recent.clear()
        self.recent[(*pointers, stream)] = kept = tuple(found)
        return kept


def _pairs(replay: Replay) -> list[Callable[[Sequence[int]], bool]]:
    """Conditions on the pointers of every two arguments: the same distance, or as before no byte in common."""
    known = {(i, j): distance for i, j, distance in replay.relations}
    spans = [(first - info.ptr, end - info.ptr) for info in replay.infos for first, end in (span_bytes(info),)]

    def same(i: int, j: int, pointers: Sequence[int]) -> bool:
        return pointers[j] - pointers[i] == known[i, j]

    def apart(i: int, j: int, pointers: Sequence[int]) -> bool:
        distance, (low, high), (first, end) = pointers[j] - pointers[i], spans[i], spans[j]
        return not (distance + first < high and low < distance + end)

    return [partial(same if (i, j) in known else apart, i, j)
            for i in range(len(spans)) for j in range(i + 1, len(spans))]


def _value(slot: Any, call: Call, place: Place | None, arguments: int) -> Callable[[Sequence[int]], Any]:
    """One value of a launch as a function of the pointers of the arguments and then of the scratch arrays."""
    if place is None:
        constant = slot_value(slot, call)
        return lambda pointers: constant
    which, offset = place.which + arguments * place.own, place.offset
    if slot.kind != "map":
        return lambda pointers: pointers[which] + offset
    encode = encoded_map(slot, call.leaves[slot.param])
    return lambda pointers: encode(pointers[which] + offset)


_Maker = Callable[[Any], Any]
"""A function of the argument that a scratch array is like."""


def _maker(scratch: Scratch, like: Any) -> _Maker:
    """Make a scratch array anew; of torch bytes where no more is needed, which takes a third of the time."""
    make, options, info = scratch.make, scratch.options, scratch.info
    if scratch.raw and info.kind == "torch":
        torch = sys.modules["torch"]
        count = span_bytes(info)[1] - info.ptr
        allocate = partial(torch.empty, count, dtype=torch.uint8, device=like.device)
        return lambda like: allocate()
    return lambda like: make(like, *options)


def _bound(replay: Replay, calls: _Calls, arrays: Sequence[Any], *, keep: bool) -> _Functions:
    """Write, compile (once per text) and bind the two functions of a replay: with pointers, and what makes one with a
    check of the arrays.
    """
    writer, count = Writer(), len(arrays)
    kind = replay.infos[0].kind
    names, pointers = ([f"{letter}{i}" for i in range(count)] for letter in "ap")
    unlike = ["held", f"not check({', '.join(names)})"]
    if not keep:                                        # a plan is a snapshot
        read = [text for spec in {id(step.spec): step.spec for step in replay.steps}.values()
                for text in captured(writer, *spec.watched())]
        unlike += [f"settings() != {writer.name(env.settings())}"]
        unlike += [f"not ({' and '.join(read)})"] if read else []
    unlike += [f"{writer.name(autograd.grad_enabled)}()"] if replay.tracked else []
    makers = [_maker(x, arrays[x.like]) for x in replay.scratch]
    body = _body(writer, replay, calls, makers, Rooms(replay.scratch, own=keep))
    lines = [f"    def run({', '.join([*names, *pointers])}):", *(f"        {line}" for line in body),
             "    def checked(check):", f"        def fast({', '.join(names)}):",
             "            try:", f"                if {' or '.join(unlike)}: return missing",
             "            except (KeyError, ValueError): return missing",    # a name that is gone
             *(f"            {p} = {_POINTERS[kind].format(a)}" for a, p in zip(names, pointers, strict=True)),
             *(f"            {line}" for line in body), "        return fast", "    return run, checked"]
    values = {"missing": missing, "held": fast_launch.held, "settings": env.settings, "stream": stream_reader(kind),
              "recent": calls.recent, "fill": calls.fill, **writer.values}
    namespace: dict[str, Any] = {}
    exec(code("\n".join([f"def make({', '.join(values)}):", *lines])), namespace)
    run, checked = namespace["make"](**values)
    return run, checked


def _body(writer: Writer, replay: Replay, calls: _Calls, makers: Sequence[_Maker], rooms: Rooms) -> list[str]:
    """Stream, scratch arrays, packed parameters, the launches, and what torch must know."""
    kind = replay.infos[0].kind
    lines = [f"s = stream({calls.launches[0].ready.device})"]
    made = [f"w{j} = {writer.name(make)}(a{x.like}); q{j} = {_POINTERS[kind].format(f'w{j}')}"
            for j, (x, make) in enumerate(zip(replay.scratch, makers, strict=True))]
    lines += [text for j, text in enumerate(made) if j not in rooms.which]
    if rooms.which:
        arguments = "".join(f"a{i}, " for i in range(len(replay.infos)))
        lines += [f"k = s, {writer.name(get_ident)}()",
                  f"at = None if {writer.name(sys.modules['torch'].cuda.is_current_stream_capturing)}() else "
                  f"{writer.name(rooms.known)}.get(k) or {writer.name(rooms.fill)}(k, ({arguments}))",
                  "if at is None:", *(f"    {made[j]}" for j in rooms.which),
                  f"else: ({''.join(f'q{j}, ' for j in rooms.which)}) = at"]
    pointers = "".join([f"p{i}, " for i in range(len(replay.infos))] + [f"q{j}, " for j in range(len(makers))])
    lines += [f"found = recent.get(({pointers}s))", "if found is None:", f"    found = fill(({pointers}), s)",
              "    if found is None: return missing",
              f"({''.join(f'c{n}, m{n}, ' for n in range(len(calls.launches)))}) = found"]
    for n, launch in enumerate(calls.launches):
        ready = launch.ready
        lines += [f"failed = {writer.name(ready.call)}(c{n}, {writer.name(ready.function)}, m{n}, None)",
                  f"if failed: {writer.name(partial(_again, ready))}(c{n}, m{n})"]
    bump = autograd.bumper()
    if kind == "torch" and bump is not None and replay.written():
        lines.append(f"{writer.name(bump)}(({''.join(f'a{i}, ' for i in replay.written())}))")
    return [*lines, f"return {_expression(replay.result)}"]


def _returned(result: Result, arrays: Sequence[Any]) -> Any:
    if isinstance(result, tuple):
        return tuple(_returned(part, arrays) for part in result)
    return None if result is None else arrays[result]


def _expression(result: Result) -> str:
    """The same as text, where arrays have their names."""
    if isinstance(result, tuple):
        return f"({''.join(f'{_expression(part)}, ' for part in result)})"
    return "None" if result is None else f"a{result}"


def _again(ready: Ready, config: Any, params: Any) -> None:
    """A launch that failed, once more with the kernel's own context; DriverError if it fails again."""
    if failed := ready.retry(config, params):
        error: MoyeError = ready.failure(failed)
        raise error
