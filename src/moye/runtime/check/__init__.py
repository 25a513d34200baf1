"""``mo.check``: launches judged in the simulator, their reports, results against a reference."""
