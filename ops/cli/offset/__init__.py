"""`cdcbus offset`: changes stored positions, and records who did it."""
