"""Cells as SQL text and as a target's columns hold and compare them. Pure."""
