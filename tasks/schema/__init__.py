"""Target tables derived from source tables: their definition, their SQL, and how existing tables
differ."""
