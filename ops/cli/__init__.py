"""The command line `cdcbus`."""
