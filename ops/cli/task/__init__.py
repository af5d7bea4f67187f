"""`cdcbus task ...`, one module per group of commands."""
