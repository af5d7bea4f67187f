"""What charts show: series of numbers, what happened meanwhile, and where they come from."""
