"""Checks the OpenID Connect provider that people sign in through."""

from __future__ import annotations

from collections.abc import Iterator

from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.oidc.provider import Provider
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.preflight.result import CheckResult, ok, warning


def check_provider(bus: BusSettings) -> Iterator[CheckResult]:
    """Yields nothing without a provider. An unreachable one stops no task: it is a warning. Raises
    ConfigError."""
    settings = bus.http_oidc
    if settings is None:
        return
    subject = f"provider {settings.issuer}"
    try:
        Provider(settings).check()
    except Refused as refused:
        yield warning(subject, refused.sentence, "Until then people sign in with tokens only.")
    else:
        yield ok(subject, "publishes its addresses and keys")
