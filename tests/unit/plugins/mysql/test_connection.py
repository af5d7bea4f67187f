"""What a connection does before it reaches its server."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.plugins.mysql.tls import MysqlTls, TlsMode


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The loads of the machine's CA certificates."""
    found: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *args: found.append(args))
    return found


def unconnected(mode: TlsMode) -> Any:
    return MysqlConnection(defer_connect=True, **MysqlTls(mode).driver_arguments())


@pytest.mark.parametrize("mode", [TlsMode.DISABLED, TlsMode.PREFERRED, TlsMode.REQUIRED])
def test_who_checks_no_certificate_loads_none(loads: list[object], mode: TlsMode) -> None:
    connection = unconnected(mode)
    assert not loads
    if mode is not TlsMode.DISABLED:
        assert connection.ctx.verify_mode is ssl.CERT_NONE
        assert not connection.ctx.check_hostname


def test_who_checks_them_loads_all(loads: list[object]) -> None:
    unconnected(TlsMode.VERIFY_CA)
    assert len(loads) == 1


def test_only_a_context_that_is_nobodys_own_is_shared() -> None:
    assert unconnected(TlsMode.PREFERRED).ctx is unconnected(TlsMode.PREFERRED).ctx
    assert unconnected(TlsMode.REQUIRED).ctx is not unconnected(TlsMode.REQUIRED).ctx
