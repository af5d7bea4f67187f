"""The running task: its process, its status and its metrics."""
