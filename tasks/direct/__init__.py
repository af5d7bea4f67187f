"""Copies the existing rows of a consumer task's tables from the source straight into the target."""
