"""What DDL does to the cells of rows that are there already."""
