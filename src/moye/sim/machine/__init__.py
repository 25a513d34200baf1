"""The machine that runs the generated program: batches of blocks, barriers, the choice of who goes next, deadlocks."""
