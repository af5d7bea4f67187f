"""Signing in through an OpenID Connect provider: what it is asked, what its answers are worth."""
