"""Snapshots of source tables, as ZooKeeper knows them: how far each is, and what operators wish."""
