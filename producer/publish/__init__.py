"""Row changes to Kafka records, sent and acknowledged."""
