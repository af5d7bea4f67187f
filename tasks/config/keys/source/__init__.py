"""The keys of what a task reads: one file a kind of source."""
