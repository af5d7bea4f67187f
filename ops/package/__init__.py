"""A change-data-capture bus: binlog to Kafka to tables."""

__version__ = "0.1.0"
