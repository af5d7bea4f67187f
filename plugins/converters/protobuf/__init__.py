"""Formats that are Protocol Buffers."""
