"""Computed and masked cells. Pure."""
