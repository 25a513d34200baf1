"""mbarriers, proxy fences, clusters and register budgets of sm_90: one inline function per PTX instruction.

In: an op.  Out: one call per op, barriers as addresses of the shared window.

    PRINTERS[ops.MbarrierWait](kernel, op)       # mbarrier_wait(full_s + 8 * stage, phase);

Remote arrivals have the default form of mbarrier.arrive: release semantics of cluster scope, spelled out, make ptxas
put a fence of the whole GPU in front of each of them.  Where they hand over what threads wrote to shared memory of the
cluster (passes/scopes.py) that is what it takes, and a wait that acquires at that scope.
"""

from __future__ import annotations

from moye.cuda.printing import peers
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import prints
from moye.cuda.printing.expressions import Text
from moye.cuda.printing.intrinsics import Intrinsics
from moye.cuda.printing.uses import MEMORY, ORDER
from moye.ir import ops
from moye.ir.nodes import Operand, Ref
from moye.passes.scopes import CLUSTER, CTA

ARCH = 90
_SPECIALS = {"cluster_rank": "cluster_ctarank", **{f"cluster_block_{axis}": f"cluster_ctaid.{axis}" for axis in "xyz"}}
_WAIT = (
    "unsigned done;", "do {",
    '    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"',
    '                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");', "} while (!done);")
_ELECT = ("unsigned elected;", 'asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" '
          ': "=r"(elected) :: "memory");', "return elected != 0;")


# --- calls -----------------------------------------------------------------------------------------------------------


def _call(kernel: Kernel, op: ops.Op, name: str, *arguments: str) -> None:
    kernel.values.before(op)
    kernel.writer.line(f"{name}({', '.join(arguments)});")


def _barrier(kernel: Kernel, ref: Ref) -> str:
    """The address of an mbarrier in the shared window."""
    return kernel.memory.shared_address(ref, kernel.memory.offset(ref)).text


def _values(kernel: Kernel, *operands: Operand | None) -> list[str]:
    return [kernel.values.operand(operand).text for operand in operands if operand is not None]


@prints(ops.MbarrierInit)
def _mbarrier_init(kernel: Kernel, op: ops.MbarrierInit) -> None:
    name = _on_barrier(kernel.helpers, "mbarrier_init", "mbarrier.init.shared::cta.b64 [%0], %1;", "count")
    _call(kernel, op, name, _barrier(kernel, op.ref), *_values(kernel, op.count))


@prints(ops.MbarrierArrive)
def _mbarrier_arrive(kernel: Kernel, op: ops.MbarrierArrive) -> None:
    """An arrival, its bytes if it expects any, and last the block of the cluster whose barrier it is."""
    if op.copies:
        name = _on_barrier(kernel.helpers, "cp_async_mbarrier_arrive",
                           "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];")
        _call(kernel, op, name, _barrier(kernel, op.ref))
        return
    expects = op.bytes is not None
    bytes_ = ("bytes",) if expects else ()
    verb = ".".join(["arrive"] * op.arrives + ["expect_tx"] * expects)
    token, more = "_, " if op.arrives else "", ", %1" if expects else ""
    name = f"mbarrier_{verb.replace('.', '_')}"
    if op.rank is None:
        name = _on_barrier(kernel.helpers, name, f"mbarrier.{verb}.shared::cta.b64 {token}[%0]{more};", *bytes_)
    else:
        order = ".release.cluster" if id(op) in kernel.uses.handovers else ""
        ptx = (f"{{.reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %{1 + expects}; \"\n"
               f'             "mbarrier.{verb}{order}.shared::cluster.b64 {token}[remote]{more};}}')
        name = f"{name}{order.replace('.cluster', '').replace('.', '_')}_cluster"
        name = _on_barrier(kernel.helpers, name, ptx, *bytes_, "rank", what="clusters")
    _call(kernel, op, name, _barrier(kernel, op.ref), *_values(kernel, op.bytes, op.rank))


@prints(ops.MbarrierWait)
def _mbarrier_wait(kernel: Kernel, op: ops.MbarrierWait) -> None:
    """A loop around mbarrier.try_wait.parity, which itself waits for a while."""
    order = ".acquire.cluster" if id(op) in kernel.uses.handovers else ""
    wait = [line.replace("try_wait.parity", f"try_wait.parity{order}") for line in _WAIT]
    name = f"mbarrier_wait{order.replace('.', '_')}"
    name = kernel.helpers.function(name, "void (unsigned barrier, unsigned parity)", *wait, arch=ARCH, what="mbarriers")
    _call(kernel, op, name, _barrier(kernel, op.ref), *_values(kernel, op.parity))


@prints(ops.MbarrierTest)
def _mbarrier_test(kernel: Kernel, op: ops.MbarrierTest) -> None:
    """mbarrier.try_wait.parity, which itself waits for a while, once."""
    order = ".acquire.cluster" if id(op) in kernel.uses.handovers else ""
    test = [_WAIT[0], *(line.strip().replace("try_wait.parity", f"try_wait.parity{order}") for line in _WAIT[2:4]),
            "return done != 0;"]
    name = kernel.helpers.function(f"mbarrier_try_wait{order.replace('.', '_')}",
                                   "bool (unsigned barrier, unsigned parity)", *test, arch=ARCH, what="mbarriers")
    kernel.values.before(op)
    text = f"{name}({', '.join((_barrier(kernel, op.ref), *_values(kernel, op.parity)))})"
    if kernel.uses.count.get(op.result.id):
        kernel.values.define(op, Text(text, deps=frozenset((ORDER, MEMORY))))
    else:
        kernel.writer.line(f"{text};")


@prints(ops.ProxyFence)
def _proxy_fence(kernel: Kernel, op: ops.ProxyFence) -> None:
    if op.kind == "async":
        space = kernel.uses.fenced
        name = {CTA: "fence_proxy_async", CLUSTER: "fence_proxy_async_cluster"}.get(space, "fence_proxy_async_all")
        _statement(kernel, op, name, f"fence.proxy.async{space};", "proxy fences")
    else:
        _statement(kernel, op, "fence_mbarrier_init", "fence.mbarrier_init.release.cluster;", "mbarriers")


@prints(ops.BulkCommit)
def _bulk_commit(kernel: Kernel, op: ops.BulkCommit) -> None:
    _statement(kernel, op, "bulk_commit_group", "cp.async.bulk.commit_group;", "bulk copies")


@prints(ops.BulkWait)
def _bulk_wait(kernel: Kernel, op: ops.BulkWait) -> None:
    read = ".read" if op.read else ""
    name = f"bulk_wait_group{read.replace('.', '_')}_{op.pending}"
    _statement(kernel, op, name, f"cp.async.bulk.wait_group{read} {op.pending};", "bulk copies")


@prints(ops.SetMaxRegisters)
def _set_max_registers(kernel: Kernel, op: ops.SetMaxRegisters) -> None:
    kernel.helpers.need_accelerated("register budgets (setmaxnreg)")
    _statement(kernel, op, f"setmaxnreg_{op.kind}_{op.count}", f"setmaxnreg.{op.kind}.sync.aligned.u32 {op.count};",
               "register budgets (setmaxnreg)")


@prints(ops.MapShared)
def _map_shared(kernel: Kernel, op: ops.MapShared) -> None:
    """The mapped address, under a name of its own: ``s_1`` of s in block 1."""
    rank, mapa = kernel.values.operand(op.rank), peers.mapa(kernel.helpers)
    where = rank.text if rank.text.isidentifier() or rank.text.isdigit() else "rank"
    kernel.values.name(op.result, f"{mapa}({kernel.memory.window(op.buffer)}, {rank.text})",
                       f"{kernel.memory.name(op.buffer)}_{where}")


@prints(ops.ClusterArrive)
def _cluster_arrive(kernel: Kernel, op: ops.ClusterArrive) -> None:
    order = "relaxed" if op.relaxed else "release"
    _statement(kernel, op, f"cluster_arrive_{order}", f"barrier.cluster.arrive.{order};", "clusters")


@prints(ops.ClusterWait)
def _cluster_wait(kernel: Kernel, op: ops.ClusterWait) -> None:
    _statement(kernel, op, "cluster_wait", "barrier.cluster.wait.acquire;", "clusters")


@prints(ops.GridDependency)
def _grid_dependency(kernel: Kernel, op: ops.GridDependency) -> None:
    if 0 < kernel.capability < ARCH:                    # where no launch begins before the end of another
        kernel.writer.line(f"// griddepcontrol.{op.kind}: launches do not overlap before sm_{ARCH}")
        return
    _statement(kernel, op, f"griddepcontrol_{op.kind}", f"griddepcontrol.{op.kind};",
               "dependent launches (griddepcontrol)")


# --- functions -------------------------------------------------------------------------------------------------------


def _statement(kernel: Kernel, op: ops.Op, name: str, ptx: str, what: str) -> None:
    """The call of a function without parameters."""
    _call(kernel, op, kernel.helpers.function(name, "void ()", f'asm volatile("{ptx}" ::: "memory");', arch=ARCH,
                                              what=what))


def _on_barrier(helpers: Intrinsics, name: str, ptx: str, *parameters: str, what: str = "mbarriers") -> str:
    """The function of an instruction on an mbarrier: (address, numbers...)."""
    names = ("barrier", *parameters)
    signature = f"void ({', '.join(f'unsigned {each}' for each in names)})"
    inputs = ", ".join(f'"r"({each})' for each in names)
    before = "\n             " if "\n" in ptx else " "
    body = f'asm volatile("{ptx}"{before}:: {inputs} : "memory");'
    return helpers.function(name, signature, *body.split("\n"), arch=ARCH, what=what)


def elect(helpers: Intrinsics) -> str:
    """elect.sync of a whole warp: ()."""
    return helpers.function("elect", "bool ()", *_ELECT, arch=ARCH, what="elections (elect.sync)")


def special(helpers: Intrinsics, kind: str) -> str | None:
    """The function that reads a register of the cluster; None for other registers."""
    register = _SPECIALS.get(kind)
    if register is None:
        return None
    return helpers.function(register.replace(".", "_"), "int ()", "int x;",
                            f'asm("mov.u32 %0, %{register};" : "=r"(x));', "return x;", arch=ARCH, what="clusters")
