"""Oracle."""
