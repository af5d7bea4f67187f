"""Row changes to bytes and back, one module per wire format."""
