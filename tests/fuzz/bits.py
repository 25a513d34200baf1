"""Random chains of views that show registers and shared memory as other dtypes: bytes of NumPy's know what each holds.

    python tests/fuzz/bits.py 1000 500                  # first seed, kernels; --emulate runs the printed CUDA as well

In: a seed.  Out: ``Program``: a kernel of fragments and shared tiles, recast and sliced again and again, whose elements
are moved, combined and copied through any of the views; and what each thread's bytes are then.

A view is an array of places in bytes with one axis for each mode; nothing here knows layouts.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

import moye as mo
from emulator.emulated import emulated
from fuzz import command
from written import block

THREADS, ROOM = 32, 64
WIDTHS = {"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "bfloat16": 2, "uint32": 4, "int32": 4,
          "float32": 4, "uint64": 8, "int64": 8, "float64": 8}
INTEGERS = tuple(t for t in WIDTHS if "int" in t)
WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
_COMBINED: dict[str, Callable[[Any, Any], Any]] = {"^": np.bitwise_xor, "&": np.bitwise_and, "|": np.bitwise_or}


@dataclass(frozen=True)
class Seen:
    """A view: its name, dtype, buffer, and where each element begins in the buffer's bytes."""

    name: str
    dtype: str
    buffer: int
    places: np.ndarray[Any, Any]

    @property
    def width(self) -> int:
        return WIDTHS[self.dtype]


@dataclass
class Program:
    seed: int
    source: str
    given: np.ndarray[Any, Any]         # (thread, buffer, byte)
    wanted: np.ndarray[Any, Any]


class Generator:
    def __init__(self, seed: int) -> None:
        self.rng, self.seed = random.Random(f"bits {seed}"), seed
        self.lines = ["t = mo.thread_idx().x"]
        self.views: list[Seen] = []
        self.buffers, self.in_registers = self.rng.randint(1, 3), list[bool]()
        self.bytes = np.random.default_rng(seed).integers(0, 256, (THREADS, self.buffers, ROOM), np.uint8)
        self.given = self.bytes.copy()

    def element(self, view: Seen, at: tuple[int, ...]) -> tuple[str, np.ndarray[Any, Any]]:
        """An element's text, and the words of all threads that hold its bits: a view of ``bytes``."""
        place = int(view.places[at])
        held = self.bytes[:, view.buffer, place:place + view.width]
        return f"{view.name}[{', '.join(map(str, at))}]", held

    def anywhere(self, view: Seen) -> tuple[int, ...]:
        return tuple(self.rng.randrange(n) for n in view.places.shape)

    # --- buffers and views ---

    def buffer(self, number: int) -> None:
        """A fragment, or each thread's part of a shared tile, in some order of modes, filled from the argument."""
        dtype = self.rng.choice(list(WIDTHS))
        count = self.rng.choice([8, 16, 32, ROOM]) // WIDTHS[dtype]
        first = self.rng.choice([n for n in (1, 2, 4, 8) if count % n == 0])
        shape, strides = (first, count // first), self.rng.choice([(1, first), (count // first, 1)])
        name = f"held{number}"
        self.in_registers.append(self.rng.random() < 0.65)
        if self.in_registers[-1]:
            self.lines.append(f"{name} = mo.fragment(mo.make_layout({shape}, {strides}), mo.{dtype})")
        else:
            layout = f"mo.make_layout(({shape}, {THREADS}), ({strides}, {count}))"
            self.lines.append(f"{name} = mo.shared_array(mo.{dtype}, {layout})[(None, None), t]")
        places = np.add.outer(np.arange(shape[0]) * strides[0], np.arange(shape[1]) * strides[1]) * WIDTHS[dtype]
        self.views.append(Seen(name, dtype, number, places))
        self.each(self.views[-1], "{element} = {word}", "x")

    def each(self, view: Seen, text: str, array: str) -> None:
        """A line for each element beside its word in one of the kernel's arrays."""
        word = WORDS[view.width]
        for at in np.ndindex(*view.places.shape):
            there = f"{array}{view.width}[{view.buffer}, {int(view.places[at]) // view.width}, t]"
            element, _ = self.element(view, at)
            if view.dtype != word and array == "x":
                there += f".bitcast(mo.{view.dtype})"
            elif view.dtype != word:
                element += f".bitcast(mo.{word})"
            self.lines.append(text.format(element=element, word=there))

    def recast(self) -> None:
        """The mode whose elements are neighbours becomes longer or shorter."""
        view, dtype = self.rng.choice(self.views), self.rng.choice(list(WIDTHS))
        width, places = WIDTHS[dtype], view.places
        modes = [m for m, n in enumerate(places.shape) if n > 1 and (np.diff(places, axis=m) == view.width).all()]
        if not modes and width != view.width:
            return
        if width > view.width:
            each = width // view.width
            if places.shape[modes[0]] % each:
                return
            places = np.take(places, range(0, places.shape[modes[0]], each), modes[0])
            if (places % width).any():
                return
        elif width < view.width:
            each, mode = view.width // width, modes[0]
            places = np.repeat(places, each, mode)
            step = np.arange(places.shape[mode]) % each * width
            places = places + step.reshape([-1 if m == mode else 1 for m in range(places.ndim)])
        self.see(f"mo.recast({view.name}, mo.{dtype})", dtype, view, places)

    def slice(self) -> None:
        view = self.rng.choice(self.views)
        parts = []
        for n in view.places.shape:
            first = self.rng.randrange(n)
            parts.append(slice(first, self.rng.randint(first + 1, n), self.rng.choice([1, 1, 2, 3]))
                         if n > 1 and self.rng.random() < 0.6 else slice(None))
        text = ", ".join(":" if s == slice(None) else f"{s.start}:{s.stop}:{s.step}" for s in parts)
        self.see(f"{view.name}[{text}]", view.dtype, view, view.places[tuple(parts)])

    def see(self, text: str, dtype: str, of: Seen, places: np.ndarray[Any, Any]) -> None:
        name = f"view{len(self.views)}"
        self.lines.append(f"{name} = {text}")
        self.views.append(Seen(name, dtype, of.buffer, places))

    # --- changes ---

    def move(self) -> None:
        """An element takes the bits of another one, maybe together with its own."""
        view = self.rng.choice(self.views)
        other = self.rng.choice([x for x in self.views if x.dtype == view.dtype])
        (to, held), (source, bits) = self.element(view, self.anywhere(view)), self.element(other, self.anywhere(other))
        if view.dtype in INTEGERS and self.rng.random() < 0.6:
            sign = self.rng.choice(list(_COMBINED))
            self.lines.append(f"{to} = {to} {sign} {source}")
            held[...] = _COMBINED[sign](held, bits)
        else:
            self.lines.append(f"{to} = {source}")
            held[...] = bits.copy()

    def whole(self) -> None:
        """All elements of a view at once: an operation in place, or a copy from another buffer."""
        view = self.rng.choice(self.views)
        likes = [x for x in self.views if x.dtype == view.dtype and x.places.shape == view.places.shape
                 and x.buffer != view.buffer]
        if likes:
            other = self.rng.choice(likes)
            self.lines.append(f"mo.copyto({view.name}, {other.name})")
            for at in np.ndindex(*view.places.shape):
                self.element(view, at)[1][...] = self.element(other, at)[1]
        elif view.dtype in INTEGERS and self.in_registers[view.buffer]:
            number = self.rng.randrange(100)
            self.lines.append(f"{view.name} ^= {number}")
            bits = np.array([number], WORDS[view.width]).view(np.uint8)
            for at in np.ndindex(*view.places.shape):
                self.element(view, at)[1][...] ^= bits

    def program(self) -> Program:
        for number in range(self.buffers):
            self.buffer(number)
        for _ in range(self.rng.randint(4, 14)):
            self.rng.choice([self.recast, self.recast, self.slice, self.move, self.move, self.whole])()
        for view in [*self.views[:self.buffers], *self.rng.sample(self.views, min(len(self.views), 3))]:
            self.each(view, "{word} = {element}", "o")
        return Program(self.seed, "\n".join(self.lines), self.given, self.bytes)


def draw(seed: int) -> Program:
    return Generator(seed).program()


def wrong(one: Program, *, emulate: bool = False) -> str | None:
    """A finding, or where the simulator (or the printed CUDA) leaves other bits than NumPy."""
    names = [f"{array}{width}" for array in "xo" for width in WORDS]
    kernel = mo.kernel(block(one.source, ", ".join(names)))
    given = [np.ascontiguousarray(one.given.view(word).transpose(1, 2, 0)) for word in WORDS.values()]
    for who in ("the simulator", *(["the emulator"] if emulate else [])):
        found = [np.zeros_like(x) for x in given]
        if who == "the emulator":
            with emulated(seed=one.seed):
                kernel[1, THREADS](*given, *found)
        elif told := mo.check(kernel, lints=False)[1, THREADS](*given, *found).findings:
            return f"{one.seed}: {told[0]}"
        for width, results in zip(WORDS, found, strict=True):
            wanted = one.wanted.view(WORDS[width]).transpose(1, 2, 0)
            for b, k in [(b, k) for b, k in np.ndindex(*wanted.shape[:2]) if f"o{width}[{b}, {k}, t] =" in one.source]:
                if (results[b, k] != wanted[b, k]).any():
                    return f"{one.seed}: word {k} of {width} bytes of buffer {b} is {results[b, k, 0]:#x} in {who}, " \
                           f"and {wanted[b, k, 0]:#x} in NumPy (thread 0)"
    return None


if __name__ == "__main__":
    sys.exit(command.emulated_too(__doc__, lambda seed, emulate: wrong(draw(seed), emulate=emulate)))
