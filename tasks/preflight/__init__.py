"""`task check`: looks at all that a task names, and changes nothing there."""
