"""Row changes from source to target: filtered, processed, mapped."""
