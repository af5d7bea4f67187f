"""Records read as Arrow columns: canalRow and oggJson. Pure."""
