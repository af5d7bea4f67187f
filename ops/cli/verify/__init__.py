"""`cdcbus verify`."""
