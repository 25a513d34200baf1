"""Several products in one launch, made of the parts of ``gemm_sm90``.

    stacked    groups of rows of one matrix, whose offsets are on the device
    separate   lists of matrices that lie anywhere, by tensor maps that the device makes
    lists      what such lists are, and which of their products share a launch
    choice     which tile they get
"""
