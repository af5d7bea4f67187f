"""Clients of Kafka while the files of their certificates are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.kafka.client.making import CurrentAdmin
from tests.support.servers.secure_servers import Authority


def test_a_new_client_is_never_the_former_one(tmp_path: Path) -> None:
    """Whoever wants one does not believe the metadata that the former one has."""
    ca = Authority.new(tmp_path, "ca").ca
    options = {"security.protocol": "ssl", "ssl.ca.location": str(ca)}
    admin = CurrentAdmin({**options, "bootstrap.servers": "127.0.0.1:1"})
    first = admin.client()
    second = admin.client(is_new=True)
    assert second is not first
    assert admin.client() is second
    ca.write_bytes(b"-----BEGIN CERTIFICATE-----")
    with pytest.raises(BusUnavailable, match="no new Kafka client can be made"):
        admin.client(is_new=True)
    assert admin.client() is second
