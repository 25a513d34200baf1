"""What the kernels of attention share: arguments, what becomes of scores, softmax by parts."""
