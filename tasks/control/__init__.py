"""What operators do with tasks: start, stop, reset and replay them, and look at their lineage."""
