"""Matrix products on the ordinary cores."""
