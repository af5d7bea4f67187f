"""Transforms row changes: event processors, mapping, and records under other names."""
