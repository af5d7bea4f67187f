"""The stored position of a task: its znodes, what the task wrote, the store, the history."""
