"""Checks each part of an installation: this machine, ZooKeeper, the brokers, what tasks connect to,
and the nodes."""
