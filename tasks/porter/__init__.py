"""porter's JSON: whoever does not come from porter need not read it."""
