"""What each operation of a kernel does in one batch of blocks."""
