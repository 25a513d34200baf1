"""Snippets of PTX and CUDA C++: what they give, what is printed, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from inline_kernels import expected, product, snippet_data, snippets


def test_results():
    out, x, y, f = snippet_data()
    snippets[1, 64](out, x, y, f)
    np.testing.assert_array_equal(out, expected(x, y, f))


def test_printed_and_compiled():
    compiled = snippets.compile(*snippet_data(), block=64, arch="sm_90a")
    assert 'asm("mul.lo.u32 %0, %2, %3;\\nmul.hi.u32 %1, %2, %3; // both" : "=r"(y0), "=r"(y1)' in compiled.source
    assert 'asm volatile("fence.acq_rel.gpu;" : : : "memory");' in compiled.source
    assert compiled.source.count("struct results_unsigned_unsigned") == 1
    assert compiled.spills == 0


def test_the_report_says_what_is_not_judged():
    report = mo.check(snippets)[1, 64](*snippet_data())
    assert "what inline_ptx('fence.acq_rel.gpu;') does to memory" in report.not_judged
    assert not report.findings


def test_a_pure_snippet_is_printed_once_and_left_out_where_nobody_asks():
    @mo.kernel
    def kernel(out, x):
        i = mo.thread_idx().x
        v = x[i]
        a = mo.inline_ptx("not.b32 %0, %1;", v, results=mo.uint32, simulate=np.invert)
        mo.inline_ptx("brev.b32 %0, %1;", v, results=mo.uint32, simulate=np.invert)
        out[i] = a + mo.inline_ptx("not.b32 %0, %1;", v, results=mo.uint32, simulate=np.invert)

    x = np.arange(32, dtype=np.uint32)
    source = kernel.compile(x, x, block=32, arch="sm_90a").source
    assert source.count("ptx_not(") == 2                # its definition, and one call
    assert "brev" not in source
    out = np.zeros(32, np.uint32)
    kernel[1, 32](out, x)
    np.testing.assert_array_equal(out, ~x + ~x)


def test_register_tensors():
    @mo.kernel
    def kernel(out, x):
        r = mo.fragment((4,), mo.uint32)
        mo.copyto(r, mo.tile(x, (4,), (mo.thread_idx().x,)))
        low, high = mo.inline_ptx("mul.lo.u32 %0, %2, %3; mul.hi.u32 %1, %2, %3;", r, mo.uint32(1 << 20),
                                  results=(mo.uint32, mo.uint32), simulate=product)
        mo.copyto(mo.tile(out, (4,), (mo.thread_idx().x,)), low ^ (high + 1))

    out, x = np.zeros(64, np.uint32), np.random.default_rng(1).integers(0, 1 << 32, 64, dtype=np.uint32)
    kernel[1, 16](out, x)
    low, high = product(x, np.uint32(1 << 20))
    np.testing.assert_array_equal(out, low ^ (high + 1))
    assert kernel.compile(out, x, block=16, arch="sm_90a").spills == 0


def test_under_a_condition_and_in_a_loop():
    @mo.kernel
    def kernel(out, x):
        i = mo.thread_idx().x
        total = mo.uint32(0)
        for _ in range(3):
            if x[i] > 10:
                total += mo.inline_ptx("shl.b32 %0, %1, 1;", x[i], results=mo.uint32, simulate=lambda a: a << 1,
                                       volatile=True)
        out[i] = total

    out, x = np.zeros(32, np.uint32), np.arange(32, dtype=np.uint32)
    kernel[1, 32](out, x)
    np.testing.assert_array_equal(out, np.where(x > 10, 6 * x, 0))


def refusal(text, *, cuda=False, **options):
    results, meaning = options.get("results", mo.uint32), options.get("simulate", np.invert)

    @mo.kernel
    def kernel(out, x):
        call = mo.inline_cuda if cuda else mo.inline_ptx
        found = call(text, x[0], results=results, simulate=meaning)
        out[0] = found[0] if isinstance(found, tuple) else found

    with pytest.raises(mo.MoyeError) as error:
        kernel[1, 1](np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    return str(error.value).splitlines()[0]


@pytest.mark.parametrize(("text", "options", "message"), [
    ("not.b32 %0, %2;", {}, "the text has %2, but there are 2 results and operands"),
    ("not.b32 %0, %1; }", {}, "closes a '}' that it has not opened"),
    ("{ not.b32 %0, %1;", {}, "opens a '{' that it does not close"),
    ("not.b32 %0, %1; /*", {}, "opens a '/*' that it does not close"),
    ("not.b32 %0, %1;\0", {}, "characters that PTX has not"), ("né", {}, "characters that PTX has not"),
    ("", {}, "takes text, not ''"), (7, {}, "takes text, not 7"),
    ("not.b32 %0, %1;", {"simulate": None}, "the simulator does not know what inline_ptx('not.b32 %0, %1;') means"),
    ("not.b32 %0, %1;", {"simulate": 5}, "simulate is a function of NumPy arrays, not 5"),
    ("not.b32 %0, %1;", {"simulate": lambda a: a.astype(np.int64)}, "gives int64 for result 0, not uint32"),
    ("not.b32 %0, %1;", {"simulate": lambda a: np.zeros((3, 7), np.uint32)}, "an array of shape (3, 7) for operands"),
    ("not.b32 %0, %1;", {"results": mo.bool}, "inline_ptx takes no bool"),
    ("not.b32 %0, %1;", {"results": mo.uint128}, "inline_ptx takes no uint128"),
    ("not.b32 %0, %1;", {"results": (mo.uint32, mo.uint32)}, "gives 1 of 2 results"),
])
def test_refused(text, options, message):
    assert message in refusal(text, **options)


@pytest.mark.parametrize(("text", "message"), [
    ("y0 = x0; } __device__ int g; void f() {", "closes a '}' that it has not opened"),
    ("#define x0 5", "a line for the preprocessor"), ("y0 = x0; // \\", "a line that goes on in the next one"),
    ("y0 = 'a;", "opens a \"'\" that it does not close"), ('y0 = R"(")";', "a raw string"),
    ("y0 = (x0;", "opens a '(' that it does not close"), ("y0 = x0;\0", "characters that are not printable"),
])
def test_refused_in_cuda(text, message):
    assert message in refusal(text, cuda=True)


def test_quotes_are_escaped():
    """Text in quotes stays inside the string of asm."""
    @mo.kernel
    def kernel(out, x):
        out[0] = mo.inline_ptx('{ .pragma "nounroll"; not.b32 %0, %1; }', x[0], results=mo.uint32, simulate=np.invert)

    x = np.zeros(1, np.uint32)
    assert '.pragma \\"nounroll\\";' in kernel.compile(x, x, block=1, arch="sm_90a").source


def test_arrays_that_a_meaning_is_given_cannot_be_written():
    def spoil(a):
        a += 1
        return a

    @mo.kernel
    def kernel(out, x):
        out[0] = mo.inline_ptx("not.b32 %0, %1;", x[0], results=mo.uint32, simulate=spoil)

    with pytest.raises(ValueError, match="read-only"):
        kernel[1, 1](np.zeros(1, np.uint32), np.zeros(1, np.uint32))


def test_a_meaning_that_the_kernel_defines_may_have_no_loops():
    @mo.kernel
    def kernel(out, x):
        def meaning(a):
            for _ in range(2):
                a = a + 1
            return a
        out[0] = mo.inline_ptx("add.u32 %0, %1, 2;", x[0], results=mo.uint32, simulate=meaning)

    with pytest.raises(mo.SimulationError, match="is code of the kernel") as error:
        kernel[1, 1](np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    assert "define the function outside of the kernel" in str(error.value)
