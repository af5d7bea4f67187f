"""Pages that look for records of a topic: by key, table, time, cell text and place."""
