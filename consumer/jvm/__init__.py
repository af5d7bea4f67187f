"""Spark's JVM: its jars, class path and class archive."""
