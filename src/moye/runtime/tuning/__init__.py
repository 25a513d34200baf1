"""``@mo.autotune``: configurations tried, compiled side by side, timed and kept."""
