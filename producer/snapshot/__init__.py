"""Rows that tables have already, into their topics, while the binlog is followed."""
