"""Checks that source and target tables are equal: checksums in both databases, then rows."""
