"""Contracts and data types that every part shares, and the built-in converters and loaders."""
