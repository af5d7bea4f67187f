"""Source servers of other versions than the stack's, each from a package registry."""
