"""Where simulated threads are: segments of straight code, groups of lanes, roles, what is under way."""
