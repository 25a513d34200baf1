"""Products of few rows with an operand that streams: configuration, kernel."""
