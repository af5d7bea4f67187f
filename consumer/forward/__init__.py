"""Forwards a partition's changes to other Kafka topics."""
