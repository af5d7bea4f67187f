"""`cdcbus offset`: changes stored positions, and notes who did it."""
