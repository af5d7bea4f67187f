"""The pages that people sign in and out by: with a token, and through a provider."""
