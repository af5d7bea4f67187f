"""Alarms: what is wrong with a task, who is notified, and whether the notice was accepted."""
