"""`cdcbus init`: from two databases to equal tables, in one command."""
