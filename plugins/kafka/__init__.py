"""Sends row changes to Kafka: topics, keys, delivery guarantees. Used by both kinds of task that
write to Kafka."""
