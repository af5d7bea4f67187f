"""Chunks of tables: cut, read in Spark's workers, and written to the target."""
