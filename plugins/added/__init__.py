"""Plug-ins of other packages: how they are found by name, and the contracts of those that have no
room of their own."""
