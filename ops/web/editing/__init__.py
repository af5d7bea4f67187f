"""Pages that change the texts of tasks: edit, versions, move to another node, new task."""
