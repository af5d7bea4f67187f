"""Real ZooKeeper, Kafka, MariaDB and PostgreSQL servers on this machine, without root and
without Docker."""
