"""One mutant in a process of its own.

    python tests/mutants/child.py simulator|gpu SUBJECT MUTANT      # the mutant by its name, "" for the kernel as it is

In: where it runs, subject, name.  Out: a verdict, printed as JSON or sent through a pipe: rejected (an error before
anything ran), violation (with its code), wrong, right; on a GPU also a digest of the outputs of each repetition.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from mutate import mutants
from subjects import SUBJECTS, Job, Subject

REPETITIONS = 10


def text_of(subject: Subject, name: str) -> str:
    original = subject.path.read_text()
    return original if not name else next(m.text for m in mutants(original, subject.functions) if m.name == name)


def difference(outputs: dict[str, np.ndarray], job: Job) -> float:
    """The largest relative Frobenius error; infinite where something is no number."""
    errors = []
    for name, expected in job.expected.items():
        with np.errstate(all="ignore"):
            error = np.linalg.norm(outputs[name].astype(np.float64) - expected) / np.linalg.norm(expected)
        errors.append(float(error) if np.isfinite(error) else float("inf"))
    return max(errors)


def simulated(subject: Subject, text: str, folder: Path) -> dict[str, Any]:
    import moye as mo

    try:
        job = subject.job(subject.load(text, folder), False, **subject.options)
        job.launch(**job.inputs, **job.outputs)
    except mo.SimulationError as error:
        return {"verdict": "violation", "code": error.finding.code, "message": error.finding.message}
    except Exception as error:                          # whatever a wrong program may raise while it is traced
        return {"verdict": "rejected", "code": getattr(error, "code", None) or type(error).__name__,
                "message": str(error).splitlines()[0]}
    error = difference(job.outputs, job)
    return {"verdict": "right" if error <= job.tolerance else "wrong", "error": error}


def on_gpu(subject: Subject, text: str, folder: Path) -> dict[str, Any]:
    """Some launches each of the simulator's size and of a large one."""
    module, digests, worst = subject.load(text, folder), [], 0.0
    for large in (False, True):
        job = subject.job(module, large, **subject.options)
        inputs = {name: _device(x) for name, x in job.inputs.items()}
        for _ in range(REPETITIONS):
            outputs = {name: _device(x) for name, x in job.outputs.items()}
            job.launch(**inputs, **outputs)
            host = {name: outputs[name].cpu().numpy() for name in job.expected}
            digests.append(f"{zlib.crc32(b''.join(x.tobytes() for x in host.values())):08x}")
            if digests[-1] not in digests[:-1]:
                worst = max(worst, difference(host, job) / job.tolerance)
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
