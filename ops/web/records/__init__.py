"""Pages that search a topic's records: by key, table, time, cell text and offset."""
