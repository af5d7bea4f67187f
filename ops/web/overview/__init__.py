"""All tasks at a glance, read in few round trips to ZooKeeper."""
