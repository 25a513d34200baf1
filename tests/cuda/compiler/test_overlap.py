"""MMAs between a copy and its wait, in SASS and PTX written by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moye.cuda.compiler.overlap import ListingOverlap, ptx_overlap, sass_overlap
from moye.cuda.compiler.sass import parse_ptx, parse_sass


def sass(*lines, kernel="k"):
    """A listing as nvdisasm writes it; lines that end in a colon are labels."""
    out, address = [f"\t.section\t.text.{kernel},\"ax\",@progbits", f".text.{kernel}:"], 0
    for line in lines:
        if line.endswith(":"):
            out.append(line)
        else:
            out.append(f"        /*{address:04x}*/                   {line} ;")
            address += 16
    return "\n".join(out) + "\n"


def loop(*body):
    return sass("MOV R1, c[0x0][0x28]", ".L_x_1:", *body, "@P0 BRA `(.L_x_1)", "EXIT", ".L_x_2:", "BRA `(.L_x_2)")


FFMA = "FFMA R0, R1, R2.reuse, R0"
LDGSTS = "@!P0 LDGSTS.E.64 [R3+0x100], desc[UR8][R56.64+0x100]"
COMMIT, WAIT, WAIT1 = "LDGDEPBAR", "DEPBAR.LE SB0, 0x0", "DEPBAR.LE SB0, 0x1"

BODIES = {
    "double-buffered: issue, seven, wait, one": ([LDGSTS, *[FFMA] * 7, COMMIT, WAIT, FFMA], 7, 8),
    "through registers: wait, issue, all": ([COMMIT, WAIT, LDGSTS, *[FFMA] * 4], 4, 4),
    "moved in front of the issue": ([COMMIT, WAIT, *[FFMA] * 3, LDGSTS, FFMA], 1, 4),
    "single stage": ([LDGSTS, COMMIT, WAIT, *[FFMA] * 4], 0, 4),
    "the wait in the next trip's middle": ([FFMA, WAIT, FFMA, LDGSTS, COMMIT, FFMA], 2, 3),
    "two groups in flight": ([LDGSTS, COMMIT, WAIT1, FFMA, FFMA], 2, 2),
    "another scoreboard": ([LDGSTS, "DEPBAR.LE SB1, 0x0", FFMA, COMMIT, WAIT, FFMA], 1, 2),
    "not committed when waited for": ([LDGSTS, WAIT, FFMA, COMMIT, FFMA], 2, 2),
    "load, used at the end": (["LDG.E.CONSTANT R8, desc[UR8][R24.64]", FFMA, FFMA, "STS [R10], R8", FFMA], 2, 3),
    "wide load, its last register used": (["LDG.E.128 R8, desc[UR8][R24.64]", FFMA, "FADD R20, R11, R21", FFMA], 1, 2),
    "load next to what is used": (["LDG.E.64 R8, desc[UR8][R24.64]", FFMA, "FADD R20, R10, R7", FFMA,
                                   "STS.64 [R10], R8"], 2, 2),
    "load, used in a wide store": (["LDG.E R9, desc[UR8][R24.64]", FFMA, "STS.64 [R10], R8", FFMA], 1, 2),
    "load, used by an MMA": (["LDG.E R2, desc[UR8][R24.64]", FFMA, FFMA], 0, 2),
    "load, used in the next trip": (["STS [R10], R8", FFMA, "LDG.E R8, desc[UR8][R24.64]", FFMA], 1, 2),
    "no copies": ([FFMA, FFMA], 0, 2),
}


@pytest.mark.parametrize("name", BODIES)
def test_loops(name):
    body, overlapped, total = BODIES[name]
    found = sass_overlap(loop(*body))
    assert (found.overlapped, found.total, found.share) == (overlapped, total, Fraction(overlapped, total))
    assert found.main.loop and found.main.unended == 0
    assert (found.main.first, found.main.last) == ("0x0010", f"0x{16 * (len(body) + 1):04x}")


@given(st.lists(st.sampled_from([LDGSTS, COMMIT, WAIT, WAIT1, "DEPBAR.LE SB0, 0x2", FFMA]), min_size=1, max_size=10))
def test_any_loop_is_counted_as_a_late_trip_of_it_would_run(body):
    """The oracle runs 12 trips, group by group, and looks at the sixth."""
    trips, groups, ends = 12, [[]], {}
    for at, line in enumerate(body * trips):
        if line == LDGSTS:
            groups[-1].append(at)
        elif line == COMMIT:
            groups.append([])
        elif line.startswith("DEPBAR"):
            while len(groups) - 1 > int(line[-1]):
                ends.update(dict.fromkeys(groups.pop(0), at))
    sixth = range(5 * len(body), 6 * len(body))
    hidden = sum(body[at % len(body)] == FFMA and any(a < at < b for a, b in ends.items()) for at in sixth)
    assert sass_overlap(loop(*body)).overlapped == hidden


def test_a_copy_that_nothing_waits_for_is_counted_apart():
    found = sass_overlap(loop(LDGSTS, COMMIT, FFMA)).main
    assert (found.overlapped, found.copies, found.unended) == (0, 1, 1)
    found = sass_overlap(loop("LDG.E R40, desc[UR8][R24.64]", FFMA)).main
    assert (found.overlapped, found.unended) == (1, 0), "the next trip's load overwrites the register, and waits"


def test_straight_code_has_no_next_trip():
    text = sass(FFMA, LDGSTS, COMMIT, FFMA, FFMA, WAIT, FFMA, LDGSTS, FFMA, "EXIT")
    found = sass_overlap(text)
    assert (found.overlapped, found.total, found.main.loop, found.main.unended) == (2, 5, False, 1)
    assert "in straight code" in str(found)


def test_innermost_loops_and_the_one_with_most_mmas():
    text = sass(".L_x_0:", LDGSTS, COMMIT, WAIT, ".L_x_1:", LDGSTS, FFMA, FFMA, COMMIT, WAIT, "@P0 BRA `(.L_x_1)",
                ".L_x_2:", FFMA, "@P1 BRA `(.L_x_2)", "@P2 BRA `(.L_x_0)", "EXIT")
    found = sass_overlap(text)
    assert [(one.overlapped, one.total) for one in found.loops] == [(2, 2), (0, 1)]
    assert (found.overlapped, found.total) == (2, 2)


@pytest.mark.parametrize(("lines", "name", "total"), [
    (["HMMA.16816.F32 R4, R8, R12, R4", FFMA, FFMA], "MMA", 1),
    (["HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", FFMA], "MMA", 1),
    (["DFMA R4, R8, R12, R4", "IMAD R1, R2, R3, R4"], "DFMA", 1),
    (["HFMA2.MMA R84, -RZ, RZ, 0, 0", FFMA, "HFMA2 R1, -RZ, RZ, 0, 5.9e-08", "HFMA2 R1, R2, R3, R4"], "FFMA", 1),
    (["IMAD R1, R2, R3, R4", "IMAD.MOV.U32 R1, RZ, RZ, R2", "IMAD.WIDE R2, R3, 0x4, R8"], "IMAD", 1),
    (["IADD3 R1, R2, R3, RZ"], "MMA", 0),
])
def test_what_counts_as_an_mma(lines, name, total):
    found = sass_overlap(loop(*lines))
    assert (found.name, found.total) == (name, total)


def test_no_mma_at_all():
    found = sass_overlap(sass("EXIT"))
    assert (found.total, found.share, str(found)) == (0, 0, "SASS  no MMA")
    assert found == ListingOverlap("SASS", "MMA", ())


def test_kernels_of_one_listing_are_told_apart():
    text = sass(FFMA, "EXIT", kernel="first") + sass(FFMA, FFMA, "EXIT", kernel="second")
    assert [sass_overlap(text, name).total for name in (None, "first", "second", "third")] == [1, 1, 2, 0]


def test_cuobjdump_writes_addresses():
    text = "\n".join(["\t\tFunction : k", *(f"        /*{16 * i:04x}*/                   {line} ;   /* 0x000 */"
                                            for i, line in enumerate(["NOP", LDGSTS, FFMA, COMMIT, WAIT, FFMA,
                                                                      "@P0 BRA 0x10", "EXIT", "BRA 0x80"]))])
    found = sass_overlap(text)
    assert (found.overlapped, found.total, found.main.first, found.main.last) == (1, 2, "0x0010", "0x0060")


def test_instructions_of_sass():
    code = parse_sass(loop(LDGSTS, "LDG.E.64 R8, desc[UR8][R24.64+0x8]", WAIT1, FFMA))
    assert [i.role for i in code] == ["other", "copy", "load", "wait", "mma", "branch", "other", "branch"]
    assert code[2].results == {"R8", "R9"} and code[2].registers == {"R8", "R9", "R24", "R25"}
    assert code[3].pending == 1
    assert code[5].target == 1


# --- PTX -------------------------------------------------------------------------------------------------------------

HEAD = ".visible .entry {}(\n\t.param .u64 p\n)\n{{\n\t.reg .pred \t%p<2>;\n"


def ptx(*lines, kernel="k"):
    body = [line if line.endswith(":") else f"\t{line};" for line in lines]
    return HEAD.format(kernel) + "\n".join(["$L__BB0_1:", "\t// begin inline asm", *body,
                                            "\t@%p1 bra \t$L__BB0_1;", "\tret;", "}"]) + "\n"


FMA = "fma.rn.f32 \t%f1, %f2, %f3, %f1"
CP = "cp.async.ca.shared.global [%r5], [%rd6], 8"
PTX = {
    "wait_all covers what was not committed": ([CP, FMA, "cp.async.wait_all", FMA], 1, 2),
    "wait_group does not": ([CP, FMA, "cp.async.wait_group 0", FMA], 0, 2),
    "groups": ([CP, "cp.async.commit_group", "cp.async.wait_group 1", FMA], 1, 1),
    "several on a line": ([CP + "; cp.async.commit_group; " + FMA, "{ cp.async.wait_group 0; }", FMA], 1, 2),
    "load": (["ld.global.nc.f32 \t%f9, [%rd1+4]", FMA, "st.shared.f32 \t[%r1], %f9", FMA], 1, 2),
    "vector load": (["ld.global.v2.f32 \t{%f8, %f9}, [%rd1]", FMA, "add.f32 \t%f7, %f9, %f6", FMA], 1, 2),
    "a mov passes it on": (["st.shared.f32 \t[%r1], %f20", "ld.global.f32 \t%f9, [%rd1]", FMA, "mov.f32 \t%f20, %f9",
                            FMA], 2, 2),
    "tensor cores": ([CP, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f1}", FMA,
                      "cp.async.wait_all"], 1, 1),
    "integers": ([CP, "mad.lo.s32 \t%r1, %r2, %r3, %r1", "cp.async.wait_all"], 1, 1),
}


@pytest.mark.parametrize("name", PTX)
def test_ptx(name):
    body, overlapped, total = PTX[name]
    found = ptx_overlap(ptx(*body))
    assert (found.overlapped, found.total) == (overlapped, total)
    assert found.main.loop and found.level == "PTX"


def test_entries_of_one_ptx_are_told_apart():
    text = ptx(FMA, kernel="first") + ptx(FMA, FMA, kernel="second")
    assert [ptx_overlap(text, name).total for name in (None, "first", "second", "third")] == [1, 1, 2, 0]
    assert parse_ptx(text, "first")[0].where == "line 8"
