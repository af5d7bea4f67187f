"""The pages where people sign in and out: with a token, and through a provider."""
