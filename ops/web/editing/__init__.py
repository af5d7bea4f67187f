"""Pages that change the texts of tasks: edited in place, versions, moved to other nodes, new."""
