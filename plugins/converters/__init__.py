"""Converts row changes to bytes and back, in one module per wire format."""
