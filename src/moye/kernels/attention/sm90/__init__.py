"""Attention on Hopper's warpgroup instructions."""
