"""``mo.testing``: arrays where there is a device, times of kernels, and a judge of kernels that others wrote.

    A = mo.testing.array(x, mo.float16)                     # on the GPU if there is one
    mo.testing.do_bench(lambda: matmul(A, B, C))            # milliseconds, as Triton measures them
    verdict = mo.testing.judge(source, reference, cases)    # in a process of its own; verdict.status
"""

from moye.testing.cases import Case, Goals, Limits, cases, ragged_sizes
from moye.testing.host_arrays import DeviceArray, array, device, host, progress
from moye.testing.judging import Judge, judge
from moye.testing.properties import Asked, judge_values
from moye.testing.timing import do_bench, interleave
from moye.testing.verdicts import Result, Verdict

__all__ = ["Asked", "Case", "DeviceArray", "Goals", "Judge", "Limits", "Result", "Verdict", "array", "cases", "device",
           "do_bench", "host", "interleave", "judge", "judge_values", "progress", "ragged_sizes"]
