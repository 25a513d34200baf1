"""Arrays of torch, on whatever device, as ``random_products.NumPy`` has them on the host.

In: a device.  Out: what random products and random attention are made of and compared with there.

>>> run(product, Torch("cuda"))
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from random_products import WIDTHS


class Torch:
    """Memory, views of it, numbers and roundings."""

    dtypes: ClassVar = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64,
                        "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "s8": torch.int8, "u8": torch.uint8,
                        "s32": torch.int32}
    functions = torch

    def __init__(self, device: str = "cuda") -> None:
        self.device = device

    def start(self, seed: int) -> None:
        self.rng = torch.Generator(self.device).manual_seed(seed)

    def bytes(self, count: int, value: int) -> Any:
        return torch.full((count,), value, dtype=torch.uint8, device=self.device)

    def view(self, memory: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], first: int) -> Any:
        whole = memory[:memory.numel() // WIDTHS[dtype] * WIDTHS[dtype]].view(self.dtypes[dtype])
        return whole.as_strided(shape, strides, first)

    def normal(self, shape: tuple[int, ...]) -> Any:
        return torch.randn(shape, generator=self.rng, device=self.device)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Any:
        return torch.randint(low, high + 1, shape, generator=self.rng, device=self.device, dtype=torch.int32)

    def places(self, count: int) -> Any:
        return torch.arange(count, device=self.device)

    def fill(self, x: Any, values: Any) -> None:
        if isinstance(values, torch.Tensor) and x.element_size() == 1:
            values = values.float()
        x.copy_(values if isinstance(values, torch.Tensor) else
                torch.tensor(values, dtype=torch.float32, device=self.device).expand(x.shape))

    def wide(self, x: Any) -> Any:
        x = x.to(torch.float64, copy=True)
        return x.movedim(2, 0) if x.ndim == 3 else x

    def rounded(self, x: Any, dtype: str) -> Any:
        x = x if dtype in ("f64", "s32") else x.float()
        return x.to(self.dtypes[dtype]).double()

    def untied(self, x: Any) -> None:
        bits = x.view(torch.int32)
        bits[(bits & 0x1FFF) == 0x1000] += 1

    def to_tf32(self, x: Any) -> Any:
        bits = x.float().contiguous().view(torch.int32)
        short = ((bits + 0xFFF + (bits >> 13 & 1)) & -0x2000).view(torch.float32)
        return torch.where(x.isfinite(), short.double(), x)

    def erf(self, x: Any) -> Any:
        return torch.erf(x)

    def same(self, a: Any, b: Any) -> bool:
        return torch.equal(a, b)

    def copy(self, x: Any) -> Any:
        return x.clone()
