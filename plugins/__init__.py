"""Contracts and data types every part shares, and the built-in converters and loaders."""
