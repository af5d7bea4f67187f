"""Snapshots of source tables in ZooKeeper: the progress of each, and what operators ask for."""
