"""Wire formats in Protocol Buffers."""
