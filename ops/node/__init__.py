"""One node of the bus: a process that takes tasks from ZooKeeper and runs them."""
