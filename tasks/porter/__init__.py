"""porter's JSON, which matters only to those who migrate from porter."""
