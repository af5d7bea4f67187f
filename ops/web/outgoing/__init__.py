"""What a node asks other servers."""
