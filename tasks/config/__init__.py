"""Turns a task file's text into a typed task."""
