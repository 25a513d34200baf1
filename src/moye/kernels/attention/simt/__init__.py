"""Attention of float32 and float64 by ordinary cores, exact rather than fast."""
