"""Changing the text of a task that ZooKeeper holds, and its earlier versions."""
