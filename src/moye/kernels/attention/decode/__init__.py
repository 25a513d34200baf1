"""Attention of few queries over long keys and values that lie in pages."""
