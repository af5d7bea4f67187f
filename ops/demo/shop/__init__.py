"""The demo's shop: its tables, the load on them, and the comparison of source and targets."""
