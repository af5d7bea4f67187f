"""Kafka to targets, on Spark."""
