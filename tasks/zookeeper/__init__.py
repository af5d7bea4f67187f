"""What the bus keeps in ZooKeeper, one module per kind of znode."""
