"""Tensor instructions as C++ (placeholder)."""
