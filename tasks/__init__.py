"""A task is one .properties file: read it, check it, run it."""
