"""Positions in a file, for tasks that run without ZooKeeper."""
