"""Where a box begins: at 16 bytes of a row, and not before a tensor that is written.  An H200 stops at others."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.errors import TensorError

LAYOUT = mo.make_layout((8, 32), (32, 1))


def shifted(tma, by):
    """The first tile, ``by`` further on."""
    return mo.tile(tma.tensor, tma.tile, (0, 0)).moved(mo.make_identity_layout((64, 64))(by))


@mo.kernel
def load(source, out, row, column):
    smem, bars = mo.shared_array(source.dtype, source.smem_layout), mo.mbarrier_array(1)
    tid = mo.thread_idx().x
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bars, 0, source.bytes)
        mo.copyto(source, smem, shifted(source, (row, column)), barrier=(bars, 0))
    mo.sync_threads()
    mo.mbarrier_wait(bars, 0, 0)
    for i in range(tid, mo.size(smem), 32):
        out[i] = smem[i]


@mo.kernel
def fetch(source, out, row, column):
    if mo.thread_idx().x == 0:
        mo.prefetch(source, shifted(source, (row, column)))


@mo.kernel
def store(target, out, row, column):
    smem = mo.shared_array(target.dtype, target.smem_layout)
    for i in range(mo.thread_idx().x, mo.size(smem), 32):
        smem[i] = out[i]
    mo.fence_proxy_async()
    mo.sync_threads()
    if mo.thread_idx().x == 0:
        mo.copyto(target, shifted(target, (row, column)), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


def report(kernel, op, row, column, dtype=np.float16):
    x, out = np.arange(40 * 64).reshape(40, 64).astype(dtype), np.zeros(256, dtype)
    found = mo.check(kernel)[1, 32](mo.make_tma_copy(op, x, LAYOUT), out, row, column)
    return found, x, out


@pytest.mark.parametrize(("kernel", "op"), [(load, mo.TmaLoad()), (fetch, mo.TmaLoad()), (store, mo.TmaStore()),
                                            (store, mo.TmaReduceAdd())])
def test_within_16_bytes(kernel, op):
    """float16: 8 elements are 16 bytes."""
    for column in (1, 7, 12, 36):
        found = report(kernel, op, 3, column)[0]
        assert [f.code for f in found.findings] == ["B5"]
        assert f"begins {2 * column} bytes from the beginning of a row" in str(found)
    for column in (0, 8, 24, 48):
        assert report(kernel, op, 3, column)[0].ok


def test_before_the_tensor():
    """What is loaded there is zero; what would be stored there is not dropped but illegal."""
    found, x, out = report(load, mo.TmaLoad(), -3, -8)
    tile = out.reshape((8, 32), order="F")
    assert found.ok and (tile[:3] == 0).all() and (tile[:, :8] == 0).all() and np.array_equal(tile[3:, 8:], x[:5, :24])
    for op in (mo.TmaStore(), mo.TmaReduceAdd()):
        for row, column in ((-3, 8), (3, -8), (-8, 0)):
            found = report(store, op, row, column)[0]
            assert [f.code for f in found.findings] == ["B5"]
            assert f"that begins at coordinate ({column}, {row}) of target, and one that TMA writes" in str(found)
    assert report(store, mo.TmaStore(), 38, 40)[0].ok and report(store, mo.TmaStore(), 40, 64)[0].ok


@pytest.mark.parametrize(("kernel", "op", "by", "told"), [
    (load, mo.TmaLoad(), (0, 4), "a box of source begins 8 bytes from the beginning of a row, and TMA takes multiples"),
    (fetch, mo.TmaLoad(), (0, 9), "prefetch: a box of source begins 18 bytes"),
    (store, mo.TmaStore(), (-1, 0), r"a box that target writes begins at coordinate \(0, -1\), and it must not begin"),
])
def test_what_is_known_is_refused(kernel, op, by, told):
    @mo.kernel
    def known(tma):
        smem, bars = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
        if kernel is load:
            mo.copyto(tma, smem, shifted(tma, by), barrier=(bars, 0))
        elif kernel is fetch:
            mo.prefetch(tma, shifted(tma, by))
        else:
            mo.copyto(tma, shifted(tma, by), smem)

    with pytest.raises(TensorError, match=told.replace("source", "tma").replace("target", "tma")) as caught:
        known.trace(mo.make_tma_copy(op, np.zeros((40, 64), np.float16), LAYOUT), block=32)
    assert caught.value.code == "B5"
