"""What command line, console and nodes share."""
