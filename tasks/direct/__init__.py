"""Rows that a consumer task's tables have already, straight from the source into the target."""
