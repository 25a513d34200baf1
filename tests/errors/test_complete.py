"""Every kind of bad input that must be refused has a golden message.

| bad input | golden messages |
|---|---|
| 8-byte cp.async, values (2,1), padding 1 | cp_async_8_on_pad_1 double_cp_async_8_on_pad_1 double_odd_stage_stride |
| a value layout smaller than the atom | values_smaller_than_atom |
| a row-major A | row_major_A row_major_B double_row_major_A |
| an extent that a tile does not divide | tile_does_not_divide_M tile_does_not_divide_N tile_does_not_divide_K |
| wrong dtype | dtype_float64 dtype_int32 complex_dtype byte_swapped |
| wrong rank | rank_1 rank_3 |
| wrong device | mixed_devices two_devices cuda_array_without_a_gpu |
| a block size that is not the tiled MMA's | block_of_128 block_of_512 block_of_two_axes |
| too much shared memory | double_too_much_shared_memory too_much_shared_memory_for_sm_80 |
| dtypes that no MMA operation has | find_no_such_operands find_no_such_sums gemm_of_int16 gemm_sm80_of_two_dtypes |
| a tile that the atom does not divide | mma_tile_not_divided partition_A_not_divided copy_partition_not_divided |
| an operand that no copy atom serves | transposed_ldmatrix_of_tf32 ldmatrix_of_float64 smem_atom_of_another_major |
| an architecture that is too old | arch_bf16_on_sm_75 arch_fp8_on_sm_80 arch_stmatrix_on_sm_80 arch_cp_async_on_sm_70 |
| an architecture without mbarriers, clusters, setmaxnreg | arch_mbarrier_on_sm_80 arch_registers_on_sm_100 |
| a register budget that setmaxnreg does not take | registers_of_twenty registers_of_a_parameter |
| matrices that do not fit | gemm_sm80_other_K gemm_sm80_C_is_turned gemm_sm80_short_bias gemm_sm80_mixed_devices |
| a configuration that no kernel has | gemm_sm90_of_100_columns gemm_sm90_of_one_stage gemm_sm90_split_in_turns |
| what is fused does not fit | gemm_sm90_short_bias gemm_sm90_gated_with_beta gemm_sm90_integers_and_a_real_bias |
| a string or number where moye has an object | find_a_string mma_of_a_string atom_of_a_string tile_of_a_number |
| a variable whose structure changes in a loop | carries_two_buffers carries_two_layouts rebinds_registers |
| a variable that has no value or another dtype on some path | set_in_one_arm set_in_a_loop carries_int_then_float |
| Python that a kernel cannot use | uses_try uses_yield uses_async uses_for_else uses_global uses_walrus_behind_and |
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden" / "errors"
ROWS = dict(line.strip("| ").split(" | ") for line in __doc__.splitlines()[4:] if line.startswith("| "))
MUST_SAY = {
    "cp_async_8_on_pad_1": ("(128,8):(1,129)", "stride 129", "multiples of 8 bytes", "pad by 2"),
    "values_smaller_than_atom": ("(1,1)", "float64", "hint:"),
    "row_major_A": ("A is row-major", "hint:"),
    "tile_does_not_divide_M": ("(128, 8)", "argument A", "200", "128"),
    "dtype_float64": ("float64", "float32"),
    "rank_1": ("rank 1",),
    "mixed_devices": ("'out'", "'x'", "cuda:0"),
    "block_of_128": ("128", "256"),
    "double_too_much_shared_memory": ("266232", "232448", "sA"),
    "carries_two_layouts": ("'part'", "(32):(1)", "(8):(32)"),
    "find_no_such_sums": ("bfloat16, bfloat16, float32",),
    "mma_tile_not_divided": ("48", "32", "along M"),
    "transposed_ldmatrix_of_tf32": ("16 bits", "32", "mo.UniversalCopy"),
    "arch_bf16_on_sm_75": ("sm_80", "sm_75"),
    "arch_fp8_on_sm_80": ("sm_89", "sm_80"),
    "arch_stmatrix_on_sm_80": ("sm_90", "sm_80", "mo.UniversalCopy"),
    "arch_mbarrier_on_sm_80": ("sm_90a", "sm_80", "mbarriers"),
    "arch_registers_on_sm_100": ("sm_90a", "sm_100", "setmaxnreg"),
    "registers_of_twenty": ("F6", "20", "multiple of 8", "24", "256"),
    "gemm_sm80_short_bias": ("(64,)", "(32,)"),
    "gemm_sm90_of_100_columns": ("bN=100", "multiple of 16"),
    "gemm_sm90_split_in_turns": ("split_k=2", "ping-pong"),
    "gemm_sm90_split_beyond_its_tiles": ("split_k=2", "K=32"),
    "gemm_sm90_gated_by_one_half": ("(48, 32)", "(64, 32)", "(48, 64)", "(2 N, K)"),
    "gemm_sm90_integers_and_a_real_bias": ("bias", "float32", "int32"),
    "uses_try": ("try", "hint:"),
}


@pytest.mark.parametrize("kind", ROWS)
def test_it_has_golden_messages(kind):
    tests = "".join(path.read_text() for path in HERE.glob("test_*.py") if path.name != Path(__file__).name)
    for name in ROWS[kind].split():
        assert (GOLDEN / f"{name}.txt").exists(), f"no golden message {name}"
        assert f'"{name}"' in tests or f"def {name}(" in tests, f"no test of {name}"


@pytest.mark.parametrize("name", MUST_SAY)
def test_it_says_what_it_must(name):
    text = (GOLDEN / f"{name}.txt").read_text()
    assert [word for word in MUST_SAY[name] if word not in text] == []
    assert "\n" not in text.partition("\n")[0] and text.count("hint:") <= 1


def test_every_golden_message_has_a_test():
    tests = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    stale = [path.stem for path in (GOLDEN).glob("*.txt")
             if f'"{path.stem}"' not in tests and f"def {path.stem}(" not in tests]
    assert stale == []
