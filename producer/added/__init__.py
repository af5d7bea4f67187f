"""Rows of sources of other packages -> Kafka."""
