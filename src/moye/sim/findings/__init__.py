"""What is found: the codes of defects, findings, and how they speak of threads and program points."""
