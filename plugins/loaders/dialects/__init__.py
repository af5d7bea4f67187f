"""The differences between the SQL databases: one room per database."""
