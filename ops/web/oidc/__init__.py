"""Signing in through an OpenID Connect provider: requests to it, and checks of its answers."""
