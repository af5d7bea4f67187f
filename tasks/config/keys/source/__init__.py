"""The keys of what a task reads: one file per kind of source."""
