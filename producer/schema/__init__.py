"""The tables as they were at each position of the binlog."""
