"""What operators do with tasks: start, stop, reset, replay, look at their lineage."""
