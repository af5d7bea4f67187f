"""Every key of a task file and of the bus settings, as data."""
