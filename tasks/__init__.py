"""A task is one .properties file: this folder reads it, checks it, runs it, and keeps its state."""
