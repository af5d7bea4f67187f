"""The client with which tasks look at their topics."""

from __future__ import annotations

import os
from pathlib import Path

from cdcbus.consumer.config import TopicConfig
from cdcbus.consumer.offsets.kafka_admin import admin_of
from tests.support.servers.secure_servers import Authority


def test_a_client_that_asks_takes_renewed_certificates(tmp_path: Path) -> None:
    ca = Authority.new(tmp_path, "ca").ca
    options = {"security.protocol": "ssl", "ssl.ca.location": str(ca)}
    source = TopicConfig("127.0.0.1:1", ("shop",), look_up_options=options)
    first = admin_of(source)
    assert admin_of(source) is first
    os.utime(ca, ns=(1, 1))
    second = admin_of(source)
    assert second is not first
    assert admin_of(source) is second
