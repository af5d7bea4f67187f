"""What differs between the SQL databases: one module per database."""
