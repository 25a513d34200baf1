"""``gemm_shallow``: products of few k, each block of which has all k of its tile at once."""
