"""SQL statements: what they change about tables, read from their text. Pure."""
