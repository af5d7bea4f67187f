"""MySQL or MariaDB binlog to Kafka."""
