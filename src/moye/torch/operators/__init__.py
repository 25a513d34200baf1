"""The operators that come with moye, one file a family; ``moye.torch`` has their names."""
