"""Logins by caching_sha2_password, MySQL's usual method: with an empty cache the server needs
the password itself, else only a proof."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.errors import SourceMisconfigured
from cdcbus.plugins.mysql.tls import MysqlTls, TlsMode
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server import connection as servers
from tests.integration.producer.reading import source_config

pytestmark = [pytest.mark.integration, pytest.mark.source]

MODES = [TlsMode.DISABLED, TlsMode.PREFERRED, TlsMode.REQUIRED]


@pytest.fixture
def user(
    source: Database, source_cursor: Cursor, is_mariadb: bool, name: str
) -> Iterator[SourceConfig]:
    if is_mariadb:
        pytest.skip("MariaDB has other methods")
    source_cursor.execute(
        f"CREATE USER '{name}'@'%%' IDENTIFIED WITH caching_sha2_password BY 'päss word'", ()
    )
    try:
        yield replace(source_config(source), user=name, password="päss word")
    finally:
        source_cursor.execute(f"DROP USER '{name}'@'%%'", ())


def is_encrypted(config: SourceConfig) -> bool:
    """Logs in, too."""
    with closing(servers.connect(config)) as connection:
        ((_, cipher),) = servers.query(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        return bool(cipher)


@pytest.mark.parametrize("mode", MODES)
def test_a_login_with_an_empty_cache_and_then_a_full_one(
    user: SourceConfig, source_cursor: Cursor, mode: TlsMode
) -> None:
    config = replace(user, tls=MysqlTls(mode))
    source_cursor.execute("FLUSH PRIVILEGES")  # empties the cache
    assert [is_encrypted(config), is_encrypted(config)] == [mode is not TlsMode.DISABLED] * 2


@pytest.mark.parametrize("mode", MODES)
def test_a_wrong_password_is_refused_with_an_empty_cache_and_with_a_full_one(
    user: SourceConfig, source_cursor: Cursor, mode: TlsMode
) -> None:
    wrong = replace(user, password="wrong", tls=MysqlTls(mode))
    source_cursor.execute("FLUSH PRIVILEGES")
    with pytest.raises(SourceMisconfigured, match=f"refuses user {user.user}"):
        servers.connect(wrong)
    assert is_encrypted(replace(user, tls=MysqlTls(TlsMode.REQUIRED)))
    with pytest.raises(SourceMisconfigured, match=f"refuses user {user.user}"):
        servers.connect(wrong)


def test_the_certificate_that_the_server_has_made_for_itself_is_not_of_a_known_issuer(
    user: SourceConfig,
) -> None:
    with pytest.raises(SourceMisconfigured, match="certificate verify failed"):
        servers.connect(replace(user, tls=MysqlTls(TlsMode.VERIFY_CA)))
