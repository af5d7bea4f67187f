"""PyMySQL's connection, opened with less work."""

from __future__ import annotations

import ssl
from functools import cache
from typing import TYPE_CHECKING, Any

from pymysql.connections import Connection

from cdcbus.plugins.mysql.tls import unchecked_context

if TYPE_CHECKING:  # generic in the stubs only
    from pymysql.cursors import Cursor

    PyMysqlConnection = Connection[Cursor]
else:
    PyMysqlConnection = Connection


class MysqlConnection(PyMysqlConnection):
    """Encrypts where the server can, unless told otherwise, as PyMySQL does; but for that it does
    not load all CA certificates of the machine, as no certificate is checked. They take 20 ms of
    processor time for each connection, more than everything else that it does."""

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        # An empty dict: no setting names TLS.
        if sslp == {}:
            return _shared_context()
        context: ssl.SSLContext = super()._create_ssl_ctx(sslp)  # type: ignore[misc]
        return context


@cache
def _shared_context() -> ssl.SSLContext:
    return unchecked_context()
