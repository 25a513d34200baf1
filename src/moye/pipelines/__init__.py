"""Software pipelines: stage indices and phases, and the barriers and waits that go with them.

``multistage``: cp.async, every thread loads and multiplies.  ``tma``: one thread loads, warpgroups multiply.
``tensor_maps``: the array that is loaded changes.
"""
