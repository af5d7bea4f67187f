"""Connections to source servers, and checks of their settings and grants."""
