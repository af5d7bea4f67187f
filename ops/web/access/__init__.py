"""Who gets in: where requests come from, sessions, guesses, and what people may do."""
