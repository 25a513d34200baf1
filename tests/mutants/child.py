"""One mutant in a process of its own.

    python tests/mutants/child.py simulator|gpu SUBJECT MUTANT      # the mutant by its name, "" for the kernel as it is

In: where it runs, subject, name.  Out: a verdict, printed as JSON or sent through a pipe: rejected (an error before
anything ran), violation (with its code), wrong, right; on a GPU also a digest of the outputs of each repetition.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from mutate import mutants
from subjects import SUBJECTS, Subject

REPETITIONS = 10


def text_of(subject: Subject, name: str) -> str:
    original = subject.path.read_text()
    return original if not name else next(m.text for m in mutants(original, subject.functions) if m.name == name)


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The relative Frobenius error; infinite where something is no number."""
    with np.errstate(all="ignore"):
        error = float(np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected))
    return error if np.isfinite(error) else float("inf")


def simulated(subject: Subject, text: str, folder: Path) -> dict[str, Any]:
    import moye as mo

    try:
        module = subject.load(text, folder)
        job = subject.job(module, False, **subject.options)
        job.launch(**job.inputs, **job.outputs)
    except mo.SimulationError as error:
        return {"verdict": "violation", "code": error.finding.code, "message": error.finding.message}
    except Exception as error:                          # whatever a wrong program may raise while it is traced
        return {"verdict": "rejected", "code": getattr(error, "code", None) or type(error).__name__,
                "message": str(error).splitlines()[0]}
    error = difference(job.outputs[job.result], job.expected)
    if error <= job.tolerance:
        return {"verdict": "right", "error": error}
    return {"verdict": "wrong", "error": error, **_expected(module, subject)}


def _expected(module: Any, subject: Subject) -> dict[str, Any]:
    """What ``mo.check(kernel, expect=...)`` says of a result that is wrong though no rule is broken."""
    import moye as mo
    from moye.runtime.kernel import Kernel

    job, reports = subject.job(module, False, **subject.options), []
    wanted = set(inspect.signature(job.reference).parameters)

    @functools.wraps(job.reference)
    def reference(**inputs: np.ndarray) -> dict[str, np.ndarray]:
        return {job.result: job.reference(**inputs)}

    class Kept:
        """A kernel whose launches are compared with the reference."""

        def __init__(self, kernel: Any) -> None:
            self.kernel = kernel

        def __getitem__(self, config: Any) -> Any:
            launcher = mo.check(self.kernel, expect=reference, rtol=job.tolerance)[config]
            return lambda *args, **kwargs: reports.append(launcher(*args, **kwargs))

        def launch(self, *args: Any, grid: Any, block: Any, dependent: bool = False) -> None:
            self[grid, block](*args)                    # one after the other, as launches are simulated

    kernels = {id(x): Kept(x) for x in vars(module).values()
               if isinstance(x, Kernel) and wanted <= set(x.signature.signature.parameters)}
    for name, value in list(vars(module).items()):
        setattr(module, name, kernels.get(id(value), value))
        if defaults := getattr(value, "__defaults__", None):
            value.__defaults__ = tuple(kernels.get(id(default), default) for default in defaults)
    job.launch(**job.inputs, **job.outputs)
    found = [finding for report in reports for finding in report.findings]
    return {"code": found[0].code, "message": found[0].message} if found else {"code": "none"}


def on_gpu(subject: Subject, text: str, folder: Path) -> dict[str, Any]:
    """Some launches each of the simulator's size and of a large one."""
    module, digests, worst = subject.load(text, folder), [], 0.0
    for large in (False, True):
        job = subject.job(module, large, **subject.options)
        inputs, expected = {name: _device(x) for name, x in job.inputs.items()}, job.expected
        for _ in range(REPETITIONS):
            outputs = {name: _device(x) for name, x in job.outputs.items()}
            job.launch(**inputs, **outputs)
            found = outputs[job.result].cpu().numpy()
            digests.append(f"{zlib.crc32(found.tobytes()):08x}")
            if digests[-1] not in digests[:-1]:
                worst = max(worst, difference(found, expected) / job.tolerance)
    return {"verdict": "right" if worst <= 1 else "wrong", "digests": digests}


def _device(x: np.ndarray) -> Any:
    import torch

    turned = x.ndim > 1 and not x.flags.c_contiguous
    return torch.from_numpy(x.T.copy()).cuda().T if turned else torch.from_numpy(x.copy()).cuda()


def verdict(where: str, name: str, mutant: str) -> dict[str, Any]:
    """What becomes of one mutant ("" is the kernel as it is)."""
    subject = SUBJECTS[name]
    with tempfile.TemporaryDirectory(prefix="moye-mutant-") as folder:
        return {"simulator": simulated, "gpu": on_gpu}[where](subject, text_of(subject, mutant), Path(folder))


def send(pipe: Any, where: str, name: str, mutant: str) -> None:
    """``verdict`` into a pipe; the entry of a process."""
    pipe.send(verdict(where, name, mutant))


if __name__ == "__main__":
    print(json.dumps(verdict(*sys.argv[1:4])))
