"""Row changes on their way: processed, mapped, made records of other names."""
