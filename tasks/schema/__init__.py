"""Target tables made from the source's: what they are, their SQL, how others differ."""
