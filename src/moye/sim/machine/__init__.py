"""What runs the generated program: batches of blocks, barriers, who goes next, deadlocks."""
