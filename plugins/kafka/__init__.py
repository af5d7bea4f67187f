"""Row changes into Kafka: which topic, which key, and how safely. Both kinds of task that write
there use it."""
