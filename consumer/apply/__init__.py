"""Applies a partition's changes to a target database."""
