"""Matrix products on tensor cores by mma.sync."""
