# %% [markdown]
# # 12. Kernels in PyTorch
#
# A kernel takes torch tensors as they are. CUDA tensors run on their GPU, on torch's current stream; CPU tensors run in
# the simulator. So you can write and test an operator on a laptop, its gradient included. This chapter needs torch (any
# build).

# %%
import torch
from torch import Tensor

import moye as mo


@mo.kernel
def squared_relu_kernel(out, x):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(out):
        positive = mo.max(x[i], 0.0)
        out[i] = positive * positive


x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
out = torch.empty_like(x)
squared_relu_kernel[mo.ceil_div(1000, 256), 256](out, x)
print(torch.equal(out, x.relu() ** 2))

# %% [markdown]
# PyTorch does not see such a launch. Autograd does not differentiate it, and `torch.compile` breaks its graph there.
# `@mo.torch_op` makes an operator of a function that launches kernels. The annotations are its schema.

# %%
@mo.torch_op("learn::squared_relu")
def squared_relu(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    squared_relu_kernel[mo.ceil_div(x.numel(), 256), 256](out.view(-1), x.view(-1))
    return out


x = torch.randn(3, 100, generator=torch.Generator().manual_seed(1))
print(torch.equal(squared_relu(x), x.relu() ** 2))
print(torch.ops.learn.squared_relu.default._schema)

# %% [markdown]
# ## A gradient
#
# The gradient of `relu(x) ** 2` is `2 relu(x)`. It is a kernel, too.

# %%
@mo.kernel
def backward_kernel(dx, g, x):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(dx):
        dx[i] = g[i] * 2.0 * mo.max(x[i], 0.0)


@mo.torch_op("learn::squared_relu_backward")
def squared_relu_backward(g: Tensor, x: Tensor) -> Tensor:
    dx = torch.empty_like(x)
    backward_kernel[mo.ceil_div(x.numel(), 256), 256](dx.view(-1), g.reshape(-1), x.view(-1))
    return dx


def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


@squared_relu.backward(setup=keep)
def _(ctx, g):
    return squared_relu_backward(g, *ctx.saved_tensors)


# %% [markdown]
# `gradcheck` compares it with differences of the function itself, in float64. The kernel is traced anew for that dtype;
# nothing is to be written for it.

# %%
wide = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
print(torch.autograd.gradcheck(squared_relu, (wide,)))

# %% [markdown]
# ## In a compiled model
#
# An operator is one node of the graph. The graph does not break, and with `dynamic=True` one graph serves all sizes.

# %%
layer = torch.nn.Linear(100, 100)
compiled = torch.compile(lambda x: squared_relu(layer(x)) + 1, fullgraph=True, dynamic=True, backend="aot_eager")
with torch.no_grad():
    for rows in (3, 5):
        x = torch.randn(rows, 100)
        print(rows, torch.allclose(compiled(x), layer(x).relu() ** 2 + 1, atol=1e-6))

# %% [markdown]
# ## A wrong kernel, found through PyTorch
#
# Forget the guard, and the launch of a CPU tensor says so, with the line. On a GPU it would write beyond the array.

# %%
@mo.kernel
def careless_kernel(out, x):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    out[i] = mo.max(x[i], 0.0)


try:
    careless_kernel[4, 256](torch.empty(1000), torch.randn(1000))
except mo.MoyeError as error:
    print(error)

# %% [markdown]
# ## What you have now
#
# * Kernels take tensors of torch. CPU tensors are simulated and checked.
# * `@mo.torch_op` makes an operator, `.backward` gives it a gradient, and `gradcheck` proves it without a GPU.
#
# **Try:** make the softmax of rows of [the guide for users of Triton](../guides/from-triton.md) an operator with a
# gradient.
#
# [Puzzle 40](../puzzles.md) goes with this chapter: `moye puzzles start 40`.
#
# [Operators of PyTorch](../pytorch.md) has the rest: in-place operators, mixed precision, CUDA graphs, and what is
# refused.
#
# This is the last chapter. From here, [the kernels](../kernels.md) are good reading: they use nothing that you do not
# know.
