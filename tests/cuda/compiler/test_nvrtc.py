"""nvrtc.py: source to cubin, PTX and SASS, and every way in which that fails; without a GPU or a driver."""

from __future__ import annotations

import builtins
import subprocess
import sys

import pytest

from moye.cuda.compiler import cubin, nvrtc
from moye.errors import CompileError, UnsupportedError
from moye.origin import pip_install

SCALE = 'extern "C" __global__ void scale(float* a, float f) { a[threadIdx.x] *= f; }\n'


@pytest.fixture(scope="module")
def scale():
    return nvrtc.compile_cubin(SCALE, "scale", "sm_80")


def test_compiles(scale):
    assert scale.cubin.startswith(b"\x7fELF")
    assert (scale.name, scale.arch, scale.source, scale.options) == ("scale", "sm_80", SCALE, ())
    assert 4 <= scale.registers <= 16
    assert (scale.spill_stores, scale.spill_loads, scale.stack_frame, scale.smem_static) == (0, 0, 0, 0)
    assert scale.seconds > 0
    assert "Used" in scale.log


def test_compiled_again_it_is_the_same_kernel(scale):
    """Its bytes are not compared: nobody promises that they are equal, and the cache's key is the text."""
    again = nvrtc.compile_cubin(SCALE, "scale", "sm_80", no_cache=True)
    assert again.ptx == nvrtc.compile_ptx(SCALE, "scale", "sm_80")
    assert again.resources == scale.resources and again.resources["scale"].registers == scale.registers


def test_ptx_is_compiled_on_request_and_kept(scale):
    assert scale._ptx is None
    assert ".visible .entry scale(" in scale.ptx
    assert ".target sm_80" in scale.ptx
    assert scale.ptx is scale.ptx


def test_hopper_gets_its_a():
    source = 'extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }'
    compiled = nvrtc.compile_cubin(source, "k", "sm_90")
    assert compiled.arch == "sm_90a"
    assert ".target sm_90a" in compiled.ptx
    assert cubin.arch(compiled.cubin) == 90


@pytest.mark.parametrize(("given", "normal"), [("sm_80", "sm_80"), ("90", "sm_90a"), ("compute_90a", "sm_90a"),
                                               ("sm_100", "sm_100"), ("sm_100f", "sm_100f"), ("sm_120a", "sm_120a")])
def test_normalize_arch(given, normal):
    assert nvrtc.normalize_arch(given) == normal


@pytest.mark.parametrize(("arch", "words"), [("sm_75", "older than sm_80"), ("hopper", "not an architecture"),
                                             ("sm_99", "rejected the options")])
def test_bad_arch(arch, words):
    with pytest.raises(CompileError, match=words):
        nvrtc.compile_cubin(SCALE, "scale", arch)


def test_spills_are_reported():
    body = "".join(f"float r{i} = a[{i} * n];\n" for i in range(64))
    body += "__syncthreads();\n" + "".join(f"a[{i} + n] = r{i} * r{63 - i};\n" for i in range(64))
    source = f'extern "C" __global__ void k(float* a, int n) {{ {body} }}'
    tight = nvrtc.compile_cubin(source, "k", "sm_80", options=["-maxrregcount=24"])
    assert tight.registers <= 24
    assert tight.spill_stores > 0
    assert tight.spill_loads > 0
    assert tight.stack_frame > 0
    assert tight.options == ("-maxrregcount=24",)
    silent = nvrtc.Compiled(source, "k", "sm_80", tight.options, tight.cubin, log="")     # a driver's cache answered
    assert silent.resources == tight.resources


def test_numbers_are_those_of_the_named_kernel():
    source = SCALE + 'extern "C" __global__ void other(int* a) { __shared__ int s[64]; s[threadIdx.x] = *a; ' \
                     "__syncthreads(); a[threadIdx.x] = s[63 - threadIdx.x]; }"
    assert nvrtc.compile_cubin(source, "other", "sm_80").smem_static == 256
    assert nvrtc.compile_cubin(source, "scale", "sm_80").smem_static == 0


def test_a_silent_log_falls_back_on_the_cubin(scale):
    silent = nvrtc.Compiled(scale.source, scale.name, scale.arch, (), scale.cubin, log="")
    assert silent.resources == scale.resources


def test_a_kernel_that_is_not_there(scale):
    with pytest.raises(CompileError, match="no kernel 'other'"):
        _ = nvrtc.Compiled(scale.source, "other", scale.arch, (), scale.cubin, scale.log).registers


def test_a_wrong_source_is_excerpted():
    source = "// one\n" + 'extern "C" __global__ void k(float* a) {\n    int n = missing;\n    a[0] = n;\n}\n'
    with pytest.raises(CompileError) as caught:
        nvrtc.compile_cubin(source, "k", "sm_80")
    text = str(caught.value)
    assert text.startswith("NVRTC rejected kernel 'k' for sm_80: k.cu(3): error: identifier \"missing\" is undefined")
    assert '     2 | extern "C" __global__ void k(float* a) {\n>    3 |     int n = missing;\n     4 |' in text
    assert "1 error detected" in text


def test_a_line_directive_into_another_file_is_not_excerpted():
    source = '#line 70 "gemm.py"\nextern "C" __global__ void k() { missing; }\n'
    with pytest.raises(CompileError, match=r"gemm.py\(70\): error") as caught:
        nvrtc.compile_cubin(source, "k", "sm_80")
    assert " | " not in str(caught.value)


def test_wrong_assembly_is_reported():
    source = 'extern "C" __global__ void k() { asm volatile("bogus.f32;"); }'
    with pytest.raises(CompileError, match=r"NVRTC rejected kernel 'k' for sm_80: .*ptxas"):
        nvrtc.compile_cubin(source, "k", "sm_80")


def test_wrong_option_is_reported():
    with pytest.raises(CompileError, match=r"rejected the options .*--bogus"):
        nvrtc.compile_cubin(SCALE, "scale", "sm_80", options=["--bogus"])


def test_without_the_package(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("cuda"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(CompileError, match="cuda-bindings is not installed") as caught:
        nvrtc.compile_cubin(SCALE, "scale", "sm_80")
    assert caught.value.hint == pip_install("cuda")


def test_without_the_library():
    def missing():
        raise RuntimeError("libnvrtc.so was not found")
    with pytest.raises(CompileError, match=r"library cannot be loaded \(libnvrtc.so was not found\)"):
        nvrtc._call(missing)


def test_compiler_version_and_archs():
    assert nvrtc.compiler_version().startswith("nvrtc-13.")
    assert not nvrtc.compiler_version().endswith("+0")
    assert {80, 90}.issubset(nvrtc.supported_archs())
    assert min(nvrtc.supported_archs()) == 80


def test_importing_does_not_import_cuda():
    code = "import sys, moye.cuda.compiler.nvrtc; print('cuda' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_sass_without_a_disassembler(scale, monkeypatch):
    monkeypatch.setattr(nvrtc, "_disassembler", lambda: None)
    with pytest.raises(UnsupportedError, match="neither was found") as caught:
        _ = scale.sass
    assert caught.value.hint == pip_install("sass")


def test_sass(scale):
    assert "FMUL" in scale.sass


def test_sass_of_no_cubin():
    with pytest.raises(CompileError, match="failed on this cubin"):
        nvrtc.sass(b"nothing")
