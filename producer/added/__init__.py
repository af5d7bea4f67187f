"""Rows of sources from other packages to Kafka."""
