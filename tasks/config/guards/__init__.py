"""Checks that refuse a task file whose lines look as if they protected rows, and do not."""
