"""Where rows come from and where they go, derived from tasks alone."""
