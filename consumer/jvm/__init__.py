"""Spark's JVM: its jars, class path and CDS archive."""
