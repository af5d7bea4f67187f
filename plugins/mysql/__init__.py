"""Connections to MySQL and MariaDB, as a source and as a target."""
