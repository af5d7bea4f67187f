"""A batch's records as they come, and what becomes of them: reports, dead letters."""
