"""The files with certificates that a Kafka client reads when it is made, and never again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILES: Final = frozenset(
    (
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.crl.location",
        "ssl.key.location",
        "ssl.keystore.location",
    )
)


def written_at(options: Mapping[str, object]) -> dict[str, int]:
    """When each file that librdkafka's options name was written, in epoch nanoseconds; 0 for one
    that cannot be found. It differs once a certificate has been renewed."""
    found: dict[str, int] = {}
    for name in sorted(options.keys() & FILES):
        try:
            found[name] = Path(str(options[name])).stat().st_mtime_ns
        except OSError:
            found[name] = 0
    return found
