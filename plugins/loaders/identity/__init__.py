"""Notes which tables a task's rows went to, so that one that was made anew is noticed."""
