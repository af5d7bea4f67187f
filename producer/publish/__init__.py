"""Converts row changes to Kafka records, sends them, and tracks their acknowledgement."""
