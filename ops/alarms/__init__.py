"""Alarms: what is wrong with a task, who is told of it, and whether they were."""
