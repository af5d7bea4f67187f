"""One partition's changes into other Kafka topics."""
