"""Attention on mma.sync, from Ampere on."""
