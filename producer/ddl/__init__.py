"""SQL statements: their changes to tables, read from their text. Pure."""
