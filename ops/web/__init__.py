"""What a node serves over HTTP: its console, porter's pages, health, metrics, and an API for all
of it."""
