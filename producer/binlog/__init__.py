"""The binlog's events: their stream, headers, compression and GTIDs."""
