"""The pipeline made visible: what a simulated launch did, in program order, per warp.

In: a Func and a run that is recorded.  Out: ``view.Timeline``: events, overlap, pictures.

statements.py says what of a Func is worth recording (of which kind: kinds.py), tape.py records it, order.py makes
events of it (which wait completes which copy, its own warp's or another's), view.py is what users see;
svg.py, chrome.py and table.py write it down; modelled.py gives it clocks (effort.py), which bars.py draws.
"""
