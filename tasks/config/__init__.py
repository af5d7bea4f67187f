"""A task file's text to a typed task."""
