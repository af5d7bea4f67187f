"""Edits the text of a task in ZooKeeper, and keeps its earlier versions."""
