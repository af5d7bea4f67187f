"""Copies the existing rows of tables into their topics, while the binlog is followed."""
