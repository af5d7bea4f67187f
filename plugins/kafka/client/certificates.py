"""The files with certificates that a Kafka client reads when it is made, and never again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cdcbus.plugins.files import file_times

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
    """As `file_times.written_at`, of the files that librdkafka's options name."""
    return file_times.written_at({str(options[name]) for name in options.keys() & FILES})
