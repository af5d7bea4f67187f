"""Settings and positions of canal, Debezium and Maxwell, as task files."""
