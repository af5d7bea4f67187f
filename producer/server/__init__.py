"""Connections to source servers, and what must be true of them."""
