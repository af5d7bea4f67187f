"""Row images to cells: the reference of the decoding. Pure."""
