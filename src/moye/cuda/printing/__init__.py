"""Func -> C++: one kernel printed as CUDA that a person would have written."""
