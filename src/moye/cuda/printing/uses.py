"""What the printer must know of a whole kernel before it prints: what is live, last uses, and what kills what.

In: a Func.  Out: ``Uses``: program positions, use counts of Values, kill sets of ops and blocks, labels of far exits.

    uses.count[value.id], uses.last[value.id], uses.kills(op)

A kill set holds ids of Vars and Buffers and the classes below; text that depends on one of them must be evaluated
before the op that kills it.  Nothing here makes text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from moye.dtypes import Kind, Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, Literal, Operand, Ref, TileRef, Var
from moye.ir.traits import Trait
from moye.passes.halves import begins_in_words, pairable
from moye.passes.scopes import fenced_space, handovers

MEMORY = -1  # shared and global memory that other threads may write: barriers and fences kill it
GLOBAL = -2  # global memory where arguments may overlap
ORDER = -3  # what must be evaluated by all lanes at its place (shuffles): control flow kills it
NOTHING: frozenset[int] = frozenset()


class Uses:
    """Facts about every op and Value of one kernel; built once."""

    def __init__(self, func: Func, asserts: bool) -> None:
        self.func = func
        self.asserts = asserts
        self.ops = list(func.body.walk())
        self.restrict = func.restrict and not _depends_on_a_launch(self.ops)
        self.index: dict[int, int] = {}  # id(op) -> position
        self.end: dict[int, int] = {}  # id(block) or id(Map) -> position of its last op
        self.count: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.depth: dict[int, int] = {}  # value id -> loops around its definition
        self.use_depth: dict[int, int] = {}  # value id -> loops around its innermost use
        self.live: set[int] = set()
        self.labels: set[tuple[int, str]] = set()  # (id(target), kind) of exits that C cannot say without goto
        self.buffers: dict[int, Buffer] = {}  # those that live ops touch
        self.maps: set[int] = set()  # global buffers that are copied by their tensor map
        self.written: set[int] = set()
        self.arrays: set[int] = set()  # register buffers that a loop indexes
        self.words: set[int] = set()  # register buffers that are stored as 32-bit words
        self.retyped: set[int] = set()  # buffers that are seen as another dtype
        self.has_wgmma = any(isinstance(op, ops.Wgmma) for op in self.ops)
        self.handovers = handovers(func)
        self._read_vars: set[int] = set()
        self._read_buffers: set[int] = set()
        self._loaded_buffers: set[int] = set()  # the same without those that atomics alone read
        self._block_kills: dict[int, frozenset[int]] = {}
        self._survey()
        self._next = 0
        self._number(func.body, 0)
        self._mark(func.body, 0, [])
        self._spread_words()
        self._orders = any(MEMORY in self.kills(op) for op in self.ops)
        self._releases = any(_releases(op) for op in self.ops)

    @cached_property
    def fenced(self) -> str:
        """The space of all proxy fences; found at the first of them."""
        return fenced_space(self.func)

    # --- first pass: who is read, who is written ---

    def _survey(self) -> None:
        for op in self.ops:
            if isinstance(op, ops.Read):
                if not op.var.judged:
                    self._read_vars.add(op.var.id)
            elif Trait.SIMULATED not in op.traits:
                for ref, written in op.refs():
                    both = written and isinstance(op, ops.Atomic)
                    if written:
                        self.written.add(ref.buffer.id)
                    if not written or both:
                        self._read_buffers.add(ref.buffer.id)
                    if not written:
                        self._loaded_buffers.add(ref.buffer.id)

    # --- second pass: positions ---

    def _number(self, block: Block, depth: int) -> None:
        for op in block.ops:
            self._next += 1
            self.index[id(op)] = self._next
            result = op.defines()
            if result is not None:
                self.depth[result.id] = depth
            deeper = depth + (Trait.LOOP in op.traits or isinstance(op, ops.Map))
            for inner in op.blocks():
                self._number(inner, deeper)
            if isinstance(op, ops.Map):
                self._next += 1
                self.end[id(op)] = self._next
        self.end[id(block)] = self._next

    # --- third pass, backwards: what is live ---

    def _mark(self, block: Block, depth: int, loops: list[ops.Op]) -> None:
        # Backwards, so that all uses of a value are known before the op that makes it.
        for op in reversed(block.ops):
            if isinstance(op, ops.Map):
                if self._wanted(op):
                    self._mark_map(op, depth)
                continue
            inner_loops = [*loops, op] if Trait.LOOP in op.traits else loops
            for inner in reversed(list(op.blocks())):
                self._mark(inner, depth + (inner_loops is not loops), inner_loops)
            if not self._wanted(op):
                continue
            self.live.add(id(op))
            if isinstance(op, ops.Exit):
                self._note_exit(op, loops)
            self._note_refs(op)
            for operand in self.operands(op):
                self._use(operand, self.index[id(op)], depth)

    def _mark_map(self, op: ops.Map, depth: int) -> None:
        self.live.add(id(op))
        self._note_refs(op)
        # The value is evaluated at the end of the Map's loop, after all of its body.
        self._use(op.value, self.end[id(op)], depth + 1)
        for ref in (op.dst, *op.sources):
            self._use(ref.offset, self.end[id(op)], depth)
        self._mark(op.body, depth + 1, [])

    def _use(self, operand: Operand, position: int, depth: int) -> None:
        if isinstance(operand, Literal):
            return
        self.count[operand.id] = self.count.get(operand.id, 0) + 1
        self.last[operand.id] = max(position, self.last.get(operand.id, 0))
        self.use_depth[operand.id] = max(depth, self.use_depth.get(operand.id, 0))

    def _note_exit(self, op: ops.Exit, loops: list[ops.Op]) -> None:
        if op.target is None or (op.kind != "leave" and loops and loops[-1] is op.target):
            return
        self.labels.add((id(op.target), op.kind))

    def _note_refs(self, op: ops.Op) -> None:
        if isinstance(op, ops.Alloc):
            return
        if isinstance(op, ops.TensorMapCopy) or (isinstance(op, ops.TmaCopy) and op.map is None):
            self.maps.add(op.tensor.id)
        for ref, _ in op.refs():
            self.buffers[ref.buffer.id] = ref.buffer
            if ref.dtype != ref.buffer.dtype:
                self.retyped.add(ref.buffer.id)
            if ref.buffer.space is Space.REGISTER and not _is_one_element(op, ref):
                self.arrays.add(ref.buffer.id)
            if _wants_words(op, ref):
                self.words.add(ref.buffer.id)
                self.arrays.add(ref.buffer.id)

    def _spread_words(self) -> None:
        """What is moved between registers keeps its form: fragments that are copied into words are words."""
        links = [{ref.buffer.id for ref, _ in op.refs() if _is_narrow(ref)} for op in self.ops
                 if isinstance(op, (ops.Map, ops.Copy)) and id(op) in self.live]
        before = -1
        # A chain of copies passes the form on one link per round, so go on until nothing changes.
        while before < len(self.words):
            before = len(self.words)
            for link in links:
                if not link.isdisjoint(self.words):
                    self.words |= link
        self.arrays |= self.words

    def _wanted(self, op: ops.Op) -> bool:
        """Whether the op prints anything; what its blocks hold has been decided."""
        if Trait.SIMULATED in op.traits or (isinstance(op, ops.Assert) and not self.asserts):
            return False
        result = op.defines()
        if Trait.REMOVABLE in op.traits and result is not None and not ops.is_ordered(op):
            return bool(self.count.get(result.id))
        if isinstance(op, ops.Declare):
            return op.var.id in self._read_vars
        if isinstance(op, ops.Assign):
            return any(var.id in self._read_vars for var, _ in op.pairs)
        if Trait.WRITER in op.traits:
            return not any(written and self._unread(ref) for ref, written in op.refs())
        if isinstance(op, ops.Alloc):
            return op.buffer.space is Space.REGISTER and op.buffer.id in self.buffers
        if Trait.REGION in op.traits and not isinstance(op, ops.Loop):
            return any(id(inner) in self.live for block in op.blocks() for inner in block.ops)
        return True

    def _unread(self, ref: Ref | TileRef) -> bool:
        return ref.buffer.space is Space.REGISTER and ref.buffer.id not in self._read_buffers

    def operands(self, op: ops.Op) -> Iterator[Operand]:
        """The operands of an op that reach the text."""
        if isinstance(op, ops.Assign):
            yield from (source for _, source in self.pairs(op))
        else:
            yield from op.operands()

    def pairs(self, op: ops.Assign) -> list[tuple[Var, Operand]]:
        """The pairs whose variable is ever read."""
        return [(var, source) for var, source in op.pairs if var.id in self._read_vars]

    # --- what an op changes ---

    def is_written(self, buffer: Buffer) -> bool:
        return buffer.written or buffer.id in self.written

    def restricts(self, buffer: Buffer) -> bool:
        """Whether the pointer to an argument is __restrict__, for which the compiler ignores barriers and fences.

        It may then move loads and stores across them, so no data that threads pass on goes through such a pointer.
        """
        if not self.restrict or not self.is_written(buffer):
            return self.restrict
        return not self._releases and not (self._orders and buffer.id in self._loaded_buffers)

    def depends(self, buffer: Buffer) -> frozenset[int]:
        """What a load from the buffer depends on."""
        if buffer.space is Space.REGISTER:
            return frozenset((buffer.id,))
        if buffer.space in (Space.SHARED, Space.CLUSTER):
            return frozenset((buffer.root.id, MEMORY))
        if self.restrict:
            return frozenset((buffer.id, MEMORY)) if self.is_written(buffer) else NOTHING
        return frozenset((buffer.id, GLOBAL, MEMORY))

    def kills(self, op: ops.Op) -> frozenset[int]:
        """What an op changes, its blocks included."""
        if id(op) not in self.live:
            return NOTHING
        if isinstance(op, ops.Assign):
            return frozenset(var.id for var, _ in op.pairs)
        if Trait.ORDERS_MEMORY in op.traits:
            settled = op.results if isinstance(op, ops.WgmmaWait) else ()
            return frozenset((MEMORY, ORDER, *(buffer.id for buffer in settled)))
        if Trait.MEETS_WARP in op.traits:
            return frozenset((ORDER,))
        found = frozenset().union(*(self.block_kills(block) for block in op.blocks()))
        for ref, written in op.refs():
            if written:
                # Arguments may overlap then, so that a store through one may change what any other points to.
                aliased = ref.buffer.space is Space.GLOBAL and not self.restrict
                found |= {GLOBAL if aliased else ref.buffer.root.id}
        # What an acquire or release orders must not be evaluated on its other side.
        if ops.is_ordered(op) or (isinstance(op, ops.Atomic) and op.order != "relaxed"):
            found |= {MEMORY, ORDER}
        return found

    def block_kills(self, block: Block) -> frozenset[int]:
        """What any op of a block changes."""
        found = self._block_kills.get(id(block))
        if found is None:
            found = frozenset().union(*(self.kills(op) for op in block.ops))
            self._block_kills[id(block)] = found
        return found


def _depends_on_a_launch(walked: list[ops.Op]) -> bool:
    """Whether an earlier launch may still write arguments: a restricted pointer lets loads move before the wait."""
    return any(isinstance(op, ops.GridDependency) and op.kind == "wait" for op in walked)


def _releases(op: ops.Op) -> bool:
    """Whether other blocks may read behind this op what the kernel wrote before it."""
    if isinstance(op, (ops.Store, ops.Atomic)):
        return op.order in ("release", "acq_rel", "seq_cst")
    if isinstance(op, ops.InlineEffect):
        return op.snippet.memory
    return isinstance(op, (ops.Fence, ops.GridSync)) or (isinstance(op, ops.ClusterArrive) and not op.relaxed)


def _wants_words(op: ops.Op, ref: Ref | TileRef) -> bool:
    """Whether registers are packed operands of tensor cores, or seen as elements of several widths."""
    own, seen = ref.buffer.dtype, ref.dtype
    together = (isinstance(op, (ops.Gemm, ops.Wgmma)) and op.mma.ptx) or \
        (isinstance(op, ops.Copy) and op.atom.matrices)
    # A group that is loaded as words stays in words: taking elements out would wait for it, inside of the branch.
    groups = isinstance(op, ops.Copy) and op.group * seen.bits >= 32 and op.group > 1 and ref is not op.pred and \
        isinstance(ref, TileRef) and ref.strides[0] == 1
    pairs = isinstance(op, ops.Map) and isinstance(ref, TileRef) and (d := pairable(op)) is not None and \
        ref.strides[d] == 1
    folds = isinstance(op, ops.Reduce) and begins_in_words(op)
    if (together or groups or pairs or folds) and _is_narrow(ref):
        return True
    return ref.buffer.space is Space.REGISTER and own.bits != seen.bits and max(own.bits, seen.bits) <= 32 and \
        Kind.BOOL not in (own.kind, seen.kind)


def _is_narrow(ref: Ref | TileRef) -> bool:
    """Whether a reference is to registers of elements that share 32-bit words."""
    own, seen = ref.buffer.dtype, ref.dtype
    return ref.buffer.space is Space.REGISTER and own.bits <= 32 and seen.bits < 32 and \
        Kind.BOOL not in (own.kind, seen.kind)


def _is_one_element(op: ops.Op, ref: Ref | TileRef) -> bool:
    """Whether a register reference is one element at a constant offset."""
    if ref.dtype != ref.buffer.dtype or not isinstance(ref.offset, Literal) or isinstance(op, ops.Wgmma):
        return False
    if isinstance(ref, Ref):
        return True
    if isinstance(op, ops.Gemm):
        values = (op.a_values, op.b_values, op.c_values, op.d_values)
        return all(extent == 1 for extent in op.extents) and all(len(v) == 1 for v in values)
    extents = getattr(op, "extents", ())
    return all(extent == 1 for extent in extents) and getattr(op, "width", 1) == 1
