"""Where a consumer task starts, how far it is, and what its topics hold."""
