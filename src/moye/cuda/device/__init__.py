"""What touches the driver: contexts, launches, events, tensor maps."""
