"""Requests of a node to other servers."""
