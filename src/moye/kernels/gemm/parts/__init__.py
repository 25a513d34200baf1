"""What the families of matrix products share: refusals, epilogues, operands."""
