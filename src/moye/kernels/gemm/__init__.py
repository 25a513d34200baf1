"""Matrix products: one function for every dtype, and a folder for each family of kernels."""
