"""One partition's changes into a target database."""
