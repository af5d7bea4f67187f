"""What differs between the SQL databases: one room per database."""
