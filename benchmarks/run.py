"""Every benchmark that this machine can run, one after the other: `make bench`."""

import importlib.util
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def installed(package):
    """Whether a package, or a module of one, can be imported; it is not imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def on_gpu():
    if not installed("torch"):
        return "torch is not installed"
    import torch
    return "" if torch.cuda.is_available() else "there is no GPU"


def on_hopper():
    if obstacle := on_gpu():
        return obstacle
    import torch
    return "" if torch.cuda.get_device_capability() == (9, 0) else "wgmma needs compute capability 9.0"


def main():
    obstacles = {
        "simulator.py": "",
        "compile.py": "" if installed("cuda.bindings") else "cuda-bindings is not installed",
        "gpu_twins.py": on_gpu(),
        "gemm_simt.py": on_gpu(),
        "gemm_sm80.py": on_gpu(),
        "gemm.py": on_hopper(),
        "pack.py": on_gpu(),
        "launch.py": on_gpu(),
        "torch_ops.py": "" if installed("torch") else "torch is not installed",
    }
    failed = []
    for name, obstacle in obstacles.items():
        if obstacle:
            print(f"{name}: not run, {obstacle}\n", flush=True)
        elif subprocess.run([sys.executable, HERE / name], check=False).returncode:
            failed.append(name)
        else:
            print(flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
