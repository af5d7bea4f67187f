"""What the bus stores in ZooKeeper, one module per kind of znode."""
