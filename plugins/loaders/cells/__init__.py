"""Cells as SQL text, and as a target's columns store and compare them. Pure."""
