"""All tasks at a glance, read with few questions to ZooKeeper."""
