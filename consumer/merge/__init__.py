"""Merges many changes of a row to their net effect. Pure."""
