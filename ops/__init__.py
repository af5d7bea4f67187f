"""What operators use: command line, embedded stack, demo."""
