"""Connections to a source whose certificates are being renewed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cdcbus.plugins.errors import ConfigError, SourceUnavailable
from cdcbus.plugins.mysql.tls import MysqlTls, TlsMode
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server import connection as servers
from tests.support.servers.secure_servers import Authority


def test_a_certificate_without_its_new_key_is_waited_for(tmp_path: Path) -> None:
    """Unless no connection was ever made with the two."""
    ca = Authority.new(tmp_path, "ca")
    key = ca.issue("client")
    before, renewed = key.read_bytes(), ca.issue("renewed").read_bytes()
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(renewed)
    tls = MysqlTls(TlsMode.VERIFY_CA, str(ca.ca), str(certificate), str(key))
    config = SourceConfig((("127.0.0.1", 1),), "user", "password", tls=tls)
    with pytest.raises(ConfigError, match="no client certificate and key in PEM form"):
        servers.connect(config)
    certificate.write_bytes(before)
    os.utime(certificate, ns=(1, 1))
    with pytest.raises(SourceUnavailable, match="refused"):
        servers.connect(config)
    certificate.write_bytes(renewed)
    os.utime(certificate, ns=(2, 2))
    with pytest.raises(SourceUnavailable, match="check that certificate and key belong together"):
        servers.connect(config)
