"""CUDA C++ -> cubin: NVRTC, what ptxas says, and what SASS shows; no GPU and no driver needed."""
