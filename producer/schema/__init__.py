"""The schemas of tables as they were at each position of the binlog."""
