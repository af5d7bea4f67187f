"""Stores in a file and in memory, for tasks and checks without ZooKeeper."""
