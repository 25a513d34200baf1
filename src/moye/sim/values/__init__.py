"""What simulated lanes hold: memory, registers, masks, and what the scalar operations compute."""
