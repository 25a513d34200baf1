"""The SM clock and the power of a GPU while it works: NVML, or nvidia-smi where its library cannot be loaded.

In: a GPU's UUID.  Out: ``Sampler``: means over any stretch of time.

>>> with Sampler("GPU-...") as sampler: start = time.perf_counter(); work(); sampler.mean(start, time.perf_counter())
Sample(mhz=1395.0, watts=699.1)

Power is that of the moment, not the driver's mean over a second, wherever the driver tells.
"""

import contextlib
import ctypes
import shutil
import subprocess
import threading
import time
from typing import NamedTuple

_PERIOD = 0.02
_CLOCK_SM, _POWER_INSTANT = 1, 186                      # NVML_CLOCK_SM, NVML_FI_DEV_POWER_INSTANT


class Sample(NamedTuple):
    mhz: float
    watts: float


class Sampler:
    """Samples in a thread as long as the context is open; ``source`` says from where, empty if there is none."""

    def __init__(self, uuid):
        self._samples, self._stop = [], threading.Event()
        self._source = next(filter(None, (open_source(uuid) for open_source in (_nvml, _nvidia_smi))), None)
        self.source = self._source.name if self._source else ""
        self.limit = self._source.limit() if self._source else float("nan")
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        if self._source:
            self._source.close()
        self._thread.join(5)

    def mean(self, start, end):
        """Over the samples between two readings of ``time.perf_counter``; NaN where there are none."""
        found = [sample for at, sample in list(self._samples) if start <= at <= end]
        return Sample(*(sum(values) / len(found) for values in zip(*found, strict=True))) if found else \
            Sample(float("nan"), float("nan"))

    def _sample(self):
        while self._source and not self._stop.is_set() and (sample := self._source.read()):
            self._samples.append((time.perf_counter(), sample))


# --- NVML ------------------------------------------------------------------------------------------------------------


class _Field(ctypes.Structure):
    """nvmlFieldValue_t, its union read as an unsigned integer."""

    _fields_ = (("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong),
                ("latency", ctypes.c_longlong), ("type", ctypes.c_int), ("status", ctypes.c_int),
                ("value", ctypes.c_ulonglong))


def _nvml(uuid):
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    handle = ctypes.c_void_p()
    found = not library.nvmlInit_v2() and not library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle))
    return _Nvml(library, handle) if found else None


class _Nvml:
    name = "NVML"

    def __init__(self, library, handle):
        self._library, self._handle = library, handle

    def read(self):
        time.sleep(_PERIOD)
        return Sample(self._number("nvmlDeviceGetClockInfo", _CLOCK_SM), self._milliwatts() / 1e3)

    def limit(self):
        """Watts that the driver keeps the GPU below."""
        return self._number("nvmlDeviceGetEnforcedPowerLimit") / 1e3

    def close(self):
        pass

    def _milliwatts(self):
        field = _Field(field=_POWER_INSTANT)
        status = self._library.nvmlDeviceGetFieldValues(self._handle, 1, ctypes.byref(field))
        if status or field.status:                      # a driver from before this field
            return self._number("nvmlDeviceGetPowerUsage")
        return field.value & 0xFFFFFFFF

    def _number(self, function, *arguments):
        value = ctypes.c_uint()
        status = getattr(self._library, function)(self._handle, *arguments, ctypes.byref(value))
        return float("nan") if status else value.value


# --- nvidia-smi ------------------------------------------------------------------------------------------------------


def _nvidia_smi(uuid):
    program = shutil.which("nvidia-smi")
    for power in ("power.draw.instant", "power.draw") if program else ():
        source = _NvidiaSmi([program, "-i", uuid, "--format=csv,noheader,nounits"], power)
        if source.read():
            return source
        source.close()
    return None


class _NvidiaSmi:
    """One process that prints a line each period."""

    name = "nvidia-smi"

    def __init__(self, command, power):
        self._command = command
        period = f"--loop-ms={int(_PERIOD * 1e3)}"
        self._process = subprocess.Popen([*command, f"--query-gpu=clocks.sm,{power}", period], text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def read(self):
        """The next line; None where there is none to come, or it holds no numbers."""
        with contextlib.suppress(ValueError, TypeError):
            return Sample(*map(float, self._process.stdout.readline().split(",")))
        return None

    def limit(self):
        done = subprocess.run([*self._command, "--query-gpu=power.limit"], capture_output=True, text=True, check=False)
        with contextlib.suppress(ValueError):
            return float(done.stdout)
        return float("nan")

    def close(self):
        self._process.terminate()
        self._process.wait(5)
