"""Checks that ride along with a simulation: findings, their codes, and the happens-before checks of shared memory."""
