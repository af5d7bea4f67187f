"""Reads a server's binlog from a position on, as batches of rows and transaction boundaries."""
