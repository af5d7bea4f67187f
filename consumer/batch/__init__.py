"""The micro-batches of a streaming query, on the driver or on executors."""
