"""What a checked run costs in memory, and what could be done about it: counters per instruction, and lints.

In: every access that a checked run makes (``meter.Meter``).  Out: counters per instruction and line (table.py), and
``Lint`` records of classes P1-P4, P6, P8 and A6 (advice.py).

A lint never fails a run: it says what was counted, and what would be cheaper.
"""
