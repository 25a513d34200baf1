"""Shared memory of other blocks of a cluster: one clear sentence for what cannot be mapped or done there."""

from __future__ import annotations

import pytest

import moye as mo

X = mo.TensorLike(mo.float32, (256,))
KERNELS = {}


def bad(kernel):
    """Collect a kernel that must be refused; its name is that of the golden file."""
    KERNELS[kernel.__name__] = kernel
    return kernel


@bad
@mo.kernel
def maps_beyond_the_cluster(x, n):
    mo.map_shared_rank(mo.shared_array(mo.float32, 4), 2)


@mo.kernel
def maps_without_a_cluster(x, n):
    mo.map_shared_rank(mo.shared_array(mo.float32, 4), 1)


@bad
@mo.kernel
def maps_by_a_float(x, n):
    mo.map_shared_rank(mo.shared_array(mo.float32, 4), x[0])


@bad
@mo.kernel
def maps_twice(x, n):
    s = mo.map_shared_rank(mo.shared_array(mo.float32, 4), 1)
    mo.map_shared_rank(s, n)


@bad
@mo.kernel
def maps_an_argument(x, n):
    mo.map_shared_rank(x, 0)


@bad
@mo.kernel
def maps_registers(x, n):
    mo.map_shared_rank(mo.fragment((4,), mo.float32), 0)


@bad
@mo.kernel
def atomic_in_another_block(x, n):
    s = mo.shared_array(mo.float32, 4)
    mo.atomic_add(mo.map_shared_rank(s, n), 0, 1.0, order="release")


@bad
@mo.kernel
def barrier_of_a_mapped_tensor(x, n):
    bars = mo.mbarrier_array(2)
    mo.mbarrier_arrive(mo.map_shared_rank(bars, 1), 0)


@bad
@mo.kernel
def beyond_a_mapped_tensor(x, n):
    s = mo.map_shared_rank(mo.shared_array(mo.float32, (4, 8)), 1)
    s[1, 8] = x[0]


@bad
@mo.kernel
def wide_copy_of_a_mapped_tensor(x, n):
    s = mo.map_shared_rank(mo.shared_array(mo.float32, mo.make_layout((8, 8), (1, 9))), 1)
    mo.copyto(mo.UniversalCopy(mo.uint128), mo.fragment((4,), mo.float32), mo.tile(s, (4, 1), (0, n))[:, 0])


@bad
@mo.kernel
def cp_async_into_another_block(x, n):
    s = mo.map_shared_rank(mo.shared_array(mo.float32, 4), 1)
    mo.copyto(mo.CpAsync(mo.float32), s, mo.tile(x, (4,), (0,)))


@pytest.mark.parametrize("name", KERNELS)
def test_refused(name, refuses):
    refuses(name, lambda: KERNELS[name].trace(X, 3, block=256, cluster=(2, 1, 1)))


def test_there_is_no_cluster(refuses):
    refuses("maps_without_a_cluster", lambda: maps_without_a_cluster.trace(X, 3, block=256))


def test_architecture(refuses):
    @mo.kernel
    def maps(x):
        x[0] = mo.map_shared_rank(mo.shared_array(mo.float32, 4), 0)[0]

    refuses("arch_mapped_on_sm_80", lambda: maps.compile(X, block=128, arch="sm_80"))
