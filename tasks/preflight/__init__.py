"""`task check`: checks everything that a task connects to, and changes nothing there."""
