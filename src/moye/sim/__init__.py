"""The simulator: a Func run over a grid on NumPy arrays, and judged as it runs."""
